package rewrite

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call is one simple command: what stands before the program, and its words.
type call struct {
	script
	assigns []*syntax.Assign
	words   []*syntax.Word
	depth   int

	at     int  // the word that names the program, behind those that only carry it
	env    int  // where env takes a variable, 0: nowhere
	chosen bool // it names its owner in a variable
	other  bool // it runs as another user, with another environment
}

// carriers run the command behind their own flags. Here are those of their flags that
// take a value.
var carriers = map[string][]string{
	"env": {"-u", "-C", "--unset", "--chdir"}, "timeout": {"-s", "-k", "--signal", "--kill-after"}, "nice": {"-n", "--adjustment"},
	"ionice": {"-c", "-n", "-t"}, "stdbuf": {"-i", "-o", "-e"}, "nohup": nil, "setsid": nil, "command": nil, "exec": {"-a"},
	"time": {"-f", "-o"}, "sudo": {"-u", "-g", "-h", "-p", "-C", "-D", "--user", "--group"}, "doas": {"-u", "-C"},
	"xargs": {"-I", "-n", "-P", "-d", "-L", "-a", "-s", "-E", "--max-args", "--max-procs", "--delimiter", "--arg-file", "--max-lines"},
}

// call finds the program that a simple command runs, and what it needs.
func (w *writer) call(c call) {
	for _, a := range c.assigns {
		if a.Name != nil && a.Name.Value == ownerVariable {
			c.chosen = w.chosen(a.Value)
		}
	}
	name, ok := w.program(&c)
	if !ok {
		return
	}
	switch name {
	case "alias":
		w.alias(c.words[c.at+1:])
	case "cd", "pushd":
		w.enter(c.words[c.at+1:])
	case "tasklock", "tasklock-plus":
		if !c.chosen {
			w.tasklock(c)
		}
	case "git":
		if !c.chosen && !c.other {
			w.gitCall(c)
		}
	case "eval":
		if len(c.words) == c.at+2 {
			w.inner(c, c.words[c.at+1])
		}
	case "sh", "bash", "dash", "zsh", "ksh", "ash":
		if text := scriptOf(c.words[c.at+1:]); text != nil {
			w.inner(c, text)
		}
	}
}

// inner looks for calls in a text that a shell is given. It inserts only plain names,
// because quotes in them would end the quotes around the text.
func (w *writer) inner(c call, word *syntax.Word) {
	if s, ok := c.inner(word); ok && c.depth < maxInner && plain(w.Owner) && (w.Hooks == "" || plain(w.Hooks)) {
		w.script(s, c.depth+1)
	}
}

// program finds the word that names the program, and its name.
func (w *writer) program(c *call) (name string, ok bool) {
	for c.at < len(c.words) {
		if name, ok = programName(c.words[c.at]); !ok {
			return "", false
		}
		valued, carries := carriers[name]
		if !carries {
			return name, true
		}
		c.other = c.other || name == "sudo" || name == "doas"
		if !w.carried(c, name, valued) {
			return "", false
		}
	}
	return "", false
}

// carried skips what belongs to a carrier; false: it runs nothing that is known.
func (w *writer) carried(c *call, carrier string, valued []string) bool {
	timed := false
	for c.at++; c.at < len(c.words); c.at++ {
		word := c.words[c.at]
		text, known := literal(word)
		variable, _, assigns := strings.Cut(start(word), "=")
		switch {
		case carrier == "env" && assigns && syntax.ValidName(variable):
			if variable == ownerVariable {
				_, value, _ := strings.Cut(text, "=")
				c.chosen = known && w.within(value)
			}
		case !known:
			return false
		case text == "--":
			c.at++
			return c.at < len(c.words)
		case carrier == "command" && (text == "-v" || text == "-V"), carrier == "env" && (strings.HasPrefix(text, "-S") || strings.HasPrefix(text, "--split-string")):
			return false
		case strings.HasPrefix(text, "-"):
			if slices.Contains(valued, text) {
				c.at++
			}
		case carrier == "timeout" && !timed:
			timed = true
		default:
			if carrier == "env" {
				c.env = c.at
			}
			return true
		}
	}
	return false
}

// textOf is the text of a word, and empty if the shell puts something into it.
func textOf(word *syntax.Word) string {
	text, _ := literal(word)
	return text
}

// programName is the file name of a program, even if only the running shell knows its
// folder ("$DIR/git").
func programName(word *syntax.Word) (name string, ok bool) {
	text, ok := literal(word)
	if !ok && len(word.Parts) > 0 {
		last := word.Parts[len(word.Parts)-1]
		if q, is := last.(*syntax.DblQuoted); is && len(q.Parts) > 0 {
			last = q.Parts[len(q.Parts)-1]
		}
		if lit, is := last.(*syntax.Lit); is && strings.Contains(lit.Value, "/") {
			text, ok = lit.Value, true
		}
	}
	return strings.TrimSuffix(path.Base(text), ".exe"), ok && text != ""
}

// scriptOf is the text after -c among the words of a shell.
func scriptOf(words []*syntax.Word) *syntax.Word {
	script := false
	for i := 0; i < len(words); i++ {
		text, known := literal(words[i])
		switch {
		case script && (!known || !strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "+")):
			return words[i]
		case !known:
			return nil
		case text == "--rcfile" || text == "--init-file":
			i++
		case strings.HasPrefix(text, "--"):
		case strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+"):
			script = script || strings.Contains(text, "c")
			if strings.HasSuffix(text, "o") || strings.HasSuffix(text, "O") {
				i++
			}
		default:
			return nil
		}
	}
	return nil
}

// alias gives up if one of the programs gets another meaning.
func (w *writer) alias(words []*syntax.Word) {
	for _, word := range words {
		if name, _, ok := strings.Cut(start(word), "="); ok && slices.Contains(programs, name) {
			w.unsure = true
		}
	}
}

// enter notes a folder that the command goes to.
func (w *writer) enter(words []*syntax.Word) {
	for _, word := range words {
		if dir, ok := literal(word); ok && !strings.HasPrefix(dir, "-") && len(w.dirs) < 16 {
			for _, d := range slices.Clone(w.dirs) {
				w.dirs = append(w.dirs, join(d, dir))
			}
		}
	}
}

func join(dir, rel string) string {
	if dir == "" || path.IsAbs(rel) || strings.HasPrefix(rel, "~") {
		return rel
	}
	return dir + "/" + rel
}

// silent are commands of tasklock that need no owner.
var silent = []string{"help", "version", "completion", "guide", "hook", "agents", "config", "init", "mcp", "__complete", "__completeNoDesc"}

// valued are the flags of every command that take a value.
var valued = []string{"--owner", "--store", "--timeout"}

// Switches are the flags of tasklock's commands that take no value. Any other flag may
// take the next word as its value.
var Switches = strings.Fields(`--all --allow-unsafe-fs --archived --attach --cascade --check --claim --closed --compact --dry-run --force --help -h
	--independent --json --keep-output --local --mine --next --no-color --no-stdin --no-wait --off --offline --once --print --prune --quiet -q --raise
	--ready --remove-worktree --shared --skip-if-locked --upgrade --user --yes`)

// tasklock gives a call its --owner. It goes behind the words of the call, because
// people allow commands by how they begin; but before "--", and before a word that may
// become several.
func (w *writer) tasklock(c call) {
	words := c.words[c.at+1:]
	if end := slices.IndexFunc(words, func(word *syntax.Word) bool { return textOf(word) == "--" }); end >= 0 {
		words = words[:end]
	}
	if slices.ContainsFunc(words, func(word *syntax.Word) bool {
		s := start(word)
		return s == "--owner" || strings.HasPrefix(s, "--owner=")
	}) {
		return
	}
	if verb := operand(words, valued); verb == nil || slices.Contains(silent, textOf(verb)) {
		return
	}
	at := len(words)
	if i := slices.IndexFunc(words, spreads); i >= 0 {
		at = i
	}
	mayTake := func(i int) bool { return i >= 0 && bareFlag(words[i]) && !slices.Contains(Switches, words[i].Lit()) }
	if mayTake(at - 1) { // what follows may be its value
		if at--; mayTake(at - 1) {
			return
		}
	}
	last := c.words[c.at]
	if at > 0 {
		last = words[at-1]
	}
	i := int(last.End().Offset())
	if strings.HasSuffix(c.text[:i], `\`) {
		return
	}
	if place := c.behind(i); place >= 0 {
		w.out = append(w.out, edit{place, " --owner " + quoted(w.Owner)})
	}
}

// operand is the first word that is not a flag.
func operand(words []*syntax.Word, valued []string) *syntax.Word {
	for i := 0; i < len(words); i++ {
		text := start(words[i])
		if !strings.HasPrefix(text, "-") {
			return words[i]
		}
		if slices.Contains(valued, text) {
			i++
		}
	}
	return nil
}

// gitValued are the flags of git itself that take a value.
var gitValued = []string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--attr-source"}

// gitQuiet are commands of git that neither commit nor push. Any other may, an
// alias too.
var gitQuiet = strings.Fields(`add annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout checkout-index cherry clean clone
	config count-objects describe diff diff-files diff-index diff-tree difftool fetch for-each-ref format-patch fsck gc grep hash-object help init log
	ls-files ls-remote ls-tree merge-base merge-file merge-tree mergetool mktree mv name-rev notes patch-id prune range-diff read-tree reflog remote repack replace rerere reset restore rev-list rev-parse rm shortlog show
	show-branch show-ref sparse-checkout stash status submodule switch symbolic-ref tag update-index update-ref var verify-commit version whatchanged worktree write-tree`)

// gitCall gives a call of git its owner in the environment, where the guard finds it.
func (w *writer) gitCall(c call) {
	words := c.words[c.at+1:]
	verb := operand(words, gitValued)
	if verb == nil || slices.Contains(gitQuiet, textOf(verb)) {
		return
	}
	for i, word := range words[:slices.Index(words, verb)] {
		if word.Lit() == "-C" && i+1 < len(words) {
			w.enter(words[i+1 : i+2])
		}
	}
	at := c.words[0]
	if c.env > 0 {
		at = c.words[c.env]
	}
	place := c.before(int(at.Pos().Offset()))
	if place < 0 {
		return
	}
	w.git = append(w.git, edit{place, ownerVariable + "=" + quoted(w.Owner) + " "})
	if behind := c.behind(int(c.words[c.at].End().Offset())); w.Hooks != "" && behind >= 0 {
		w.git = append(w.git, edit{behind, " -c core.hooksPath=" + quoted(w.Hooks)})
	}
}
