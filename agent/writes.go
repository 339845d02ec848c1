package agent

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Target is something that is about to be written or removed.
type Target struct {
	Path    string // absolute, or relative to where the event did not say
	Pattern bool   // Path has wildcards: *, ?
	Tree    bool   // with everything below it
	Unsaved bool   // only what is changed there: git clean, stash, reset
	There   bool   // only what is there already: find -delete
	Gone    bool   // it is taken away, with all that is in it: rm -r, mv, git clean -x
}

// maxTargets bounds what one command line is judged by.
const maxTargets = 500

// Writes returns what a shell command line, run in dir, writes or removes: by
// redirections, by the usual programs, and by git commands that throw changes
// away. It is a careful guess; package agent's shell.go says what it leaves out.
func Writes(script, dir string) []Target {
	home, _ := os.UserHomeDir()
	room := maxShell
	s := &shell{dir: dir, env: map[string]shellWord{"HOME": exactly(home), "PWD": exactly(dir)}, room: &room}
	s.run(script, 0)
	var out []Target
	for _, t := range s.out {
		if len(out) < maxTargets && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// shell follows a script as far as it is about folders and variables.
type shell struct {
	dir  string
	env  map[string]shellWord
	dirs []string    // of pushd
	fed  []shellWord // the names that come through the pipe, as far as they can be told
	room *int        // how much text may still be put in the place of names; one for all inner shells
	out  []Target
}

func exactly(text string) shellWord { return shellWord{text: text, known: true} }

// inner is a shell of its own that begins as this one is now.
func (s *shell) inner() *shell {
	return &shell{dir: s.dir, env: maps.Clone(s.env), fed: s.fed, room: s.room}
}

// fill takes room for a text that is put in the place of a name, if there is
// some left: A=$A$A, often enough, would fill the memory.
func fill(room *int, text string) bool {
	*room -= len(text)
	return *room >= 0
}

// maxScripts bounds scripts within scripts.
const maxScripts = 8

func (s *shell) run(script string, depth int) {
	if depth > maxScripts {
		return
	}
	l := newLexer(script, s.env, s.room, s.prints)
	type scope struct {
		dir string
		env map[string]shellWord
	}
	var scopes []scope
	var loops loops
	for {
		cmd, more := l.next()
		for _, sub := range l.subs {
			inner := s.inner()
			inner.run(sub, depth+1)
			s.out = append(s.out, inner.out...)
		}
		l.subs = nil
		s.command(cmd, depth)
		loops.follow(s, l, cmd)
		s.pipe(cmd)
		switch cmd.op {
		case "(":
			scopes = append(scopes, scope{s.dir, maps.Clone(s.env)})
		case ")":
			if n := len(scopes); n > 0 {
				s.dir, s.env = scopes[n-1].dir, scopes[n-1].env
				l.env, scopes = s.env, scopes[:n-1]
			}
		}
		if !more || len(s.out) > maxTargets {
			return
		}
	}
}

// keywords may stand before a command.
var keywords = []string{"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "fi", "done", "}"}

// carriers run the command that follows their own flags, of which these take a
// value of their own.
var carriers = map[string][]string{
	"sudo": {"-u", "-g", "-h", "-p", "-C", "-U", "-D", "--user", "--group"}, "doas": {"-u", "-C"},
	"env": {"-u", "-C", "--unset", "--chdir"}, "timeout": {"-s", "-k", "--signal", "--kill-after"},
	"exec": {"-a"}, "time": {"-f", "-o"}, "ionice": {"-c", "-n"}, "nice": {"-n"}, "stdbuf": nil, "nohup": nil, "setsid": nil,
	"command": nil, "builtin": nil, "busybox": nil, "npx": nil, "bunx": nil, "uvx": nil,
}

// command notes what one simple command writes.
func (s *shell) command(cmd shellCommand, depth int) {
	for _, w := range cmd.writes {
		s.add(w, false)
	}
	if cmd.input != nil {
		s.fed = cmd.input
	}
	words := cmd.words
	for len(words) > 0 {
		first := words[0]
		name, value, assigns := strings.Cut(first.text, "=")
		switch {
		case slices.Contains(keywords, first.text):
			words = words[1:]
		case assigns && isVariable(name):
			if len(words) == 1 && first.known {
				s.assign(name, value, first)
			}
			words = words[1:]
		case carries(first.text):
			words = carried(words[1:], carriers[base(first.text)])
		default:
			s.program(base(first.text), words[1:], cmd.heredoc, depth)
			return
		}
	}
}

func isVariable(s string) bool {
	name, n := variable("$" + s)
	return name != "" && n == len(s)+1 && (s[0] < '0' || s[0] > '9')
}

func base(program string) string { return strings.TrimSuffix(filepath.Base(program), ".exe") }

func carries(program string) bool { _, ok := carriers[base(program)]; return ok }

// carried skips the flags and numbers of a carrier.
func carried(words []shellWord, valued []string) []shellWord {
	for len(words) > 0 && (strings.HasPrefix(words[0].text, "-") || isAmount(words[0].text)) {
		n := 1
		if slices.Contains(valued, words[0].text) {
			n = min(2, len(words))
		}
		words = words[n:]
	}
	return words
}

// isAmount reports whether a word is a number or a time, like 5 or 0.5m; sh,
// of which both letters are units, is none.
func isAmount(s string) bool {
	return strings.IndexAny(s, "0123456789.") == 0 && strings.Trim(s, "0123456789.smhd") == ""
}

// assign notes the value of a variable, as w, "name=value", has it.
func (s *shell) assign(name, value string, w shellWord) {
	_, pattern, _ := strings.Cut(w.pattern, "=")
	s.env[name] = shellWord{text: value, pattern: pattern, known: true}
}

// program notes what one program writes, by its arguments.
func (s *shell) program(name string, args []shellWord, heredoc string, depth int) {
	switch name {
	case "cd", "pushd", "popd":
		s.changeDir(name, args)
	case "export", "local", "declare", "typeset", "readonly":
		for _, a := range args {
			if name, value, ok := strings.Cut(a.text, "="); ok && a.known && isVariable(name) {
				s.assign(name, value, a)
			}
		}
	case "xargs":
		s.xargs(args, heredoc, depth)
	case "find":
		s.find(args, depth)
	case "tasklock":
		if words, ok := afterDashes(args); ok && len(args) > 0 && args[0].text == "run" {
			s.command(shellCommand{words: words, heredoc: heredoc}, depth)
		}
	case "bash", "sh", "zsh", "dash", "ksh", "eval":
		s.script(name, args, heredoc, depth)
	case "apply_patch":
		text := heredoc
		for _, a := range args {
			text += "\n" + a.text
		}
		s.out = append(s.out, patched(text, s.dir)...)
	case "tee", "truncate", "touch", "mkdir", "chmod", "chown", "chgrp":
		ops := operands(args, "-s", "-r", "-d", "-t", "-m", "--size", "--reference", "--date", "--mode")
		if name == "mkdir" { // a folder that is there stays as it is
			ops = slices.DeleteFunc(ops, func(w shellWord) bool { fi, err := os.Stat(s.path(w)); return err == nil && fi.IsDir() })
		}
		if strings.HasPrefix(name, "ch") && len(ops) > 0 && strings.Trim(args[0].text, "-rwxXst") != "" { // else "-x" is the mode
			ops = ops[1:]
		}
		s.each(ops, name[:2] == "ch" && has(args, "-R", "--recursive"))
	case "rm", "rmdir", "unlink", "shred":
		s.gone(operands(args))
	case "sqlite3":
		s.sqlite(args, heredoc)
	case "sed":
		s.inPlace(args, has(args, "-i", "--in-place"), "-e", "-f", "--expression", "--file", "-l", "--line-length")
	case "perl", "ruby":
		args = slices.DeleteFunc(slices.Clone(args), func(a shellWord) bool { // names of modules and folders
			return len(a.text) > 1 && a.text[0] == '-' && strings.IndexByte("MmIr", a.text[1]) >= 0
		})
		s.inPlace(args, hasCluster(args, 'i'), "-e", "-E")
	case "cp", "mv", "install", "ln", "rsync":
		s.copies(name, args)
	case "dd":
		for _, a := range args {
			if file, ok := strings.CutPrefix(a.text, "of="); ok && a.known {
				s.add(shellWord{text: file, known: true}, false)
			}
		}
	case "git":
		s.git(args)
	default:
		s.tool(name, args)
	}
}

func (s *shell) changeDir(name string, args []shellWord) {
	ops := operands(args)
	was := s.dir
	switch {
	case name == "popd":
		s.dir = "" // nobody knows where it goes on
		if n := len(s.dirs); n > 0 {
			s.dir, s.dirs = s.dirs[n-1], s.dirs[:n-1]
		}
	case len(ops) == 0:
		s.dir = s.env["HOME"].text
	case ops[0].text == "-":
		s.dir = s.env["OLDPWD"].text
	case !ops[0].known || ops[0].pattern != "":
		s.dir = ""
	default:
		s.dir = join(s.dir, ops[0].text)
	}
	if name == "pushd" {
		s.dirs = append(s.dirs, was)
	}
	s.env["PWD"], s.env["OLDPWD"] = exactly(s.dir), exactly(was)
}

// script follows sh -c and eval.
func (s *shell) script(name string, args []shellWord, heredoc string, depth int) {
	inner := s.inner()
	if name == "eval" {
		var text []string
		for _, a := range args {
			text = append(text, a.text)
		}
		heredoc = strings.Join(text, " ")
	} else if rest, given := scriptOf(args); given && len(rest) > 0 {
		heredoc = rest[0].text
		for i, w := range rest[1:] {
			if w.known {
				inner.env[strconv.Itoa(i)] = w
			}
		}
	}
	inner.run(heredoc, depth+1)
	s.out = append(s.out, inner.out...)
}

// scriptOf skips the flags of a shell, and reports whether one of them is -c.
func scriptOf(args []shellWord) (rest []shellWord, given bool) {
	for len(args) > 0 && (strings.HasPrefix(args[0].text, "-") || strings.HasPrefix(args[0].text, "+")) {
		flag := args[0].text
		args = args[1:]
		if strings.HasPrefix(flag, "--") {
			continue
		}
		given = given || strings.Contains(flag, "c")
		if strings.HasSuffix(flag, "o") || strings.HasSuffix(flag, "O") { // -euo pipefail
			args = args[min(1, len(args)):]
		}
	}
	return args, given
}

// inPlace is for programs that take a script, unless a flag has it, then files.
func (s *shell) inPlace(args []shellWord, writes bool, valued ...string) {
	if !writes {
		return
	}
	ops := operands(args, valued...)
	scripted := slices.ContainsFunc(args, func(a shellWord) bool {
		return strings.HasPrefix(a.text, "--expression") || strings.HasPrefix(a.text, "--file") ||
			strings.HasPrefix(a.text, "-") && !strings.HasPrefix(a.text, "--") && strings.ContainsAny(cluster(a.text), "efE")
	})
	if !scripted && len(ops) > 0 {
		ops = ops[1:]
	}
	s.each(ops, false)
}

// cluster is the letters of joined flags, up to one that takes the rest.
func cluster(flag string) string {
	letters := strings.TrimLeft(flag, "-")
	if i := strings.IndexByte(letters, 'i'); i >= 0 && strings.IndexByte(letters, 'e') > i && !strings.HasSuffix(letters, "e") {
		letters = letters[:i+1] // -i.orig
	}
	return letters
}

// copies notes the place that files are put into, and for mv where they were.
func (s *shell) copies(name string, args []shellWord) {
	ops := operands(args, "-t", "--target-directory", "-m", "-o", "-g", "-S", "--suffix")
	var to *shellWord
	for i, a := range args {
		if dir, ok := strings.CutPrefix(a.text, "--target-directory="); ok {
			to = &shellWord{text: dir, known: a.known}
		} else if a.text == "-t" || a.text == "--target-directory" {
			if i+1 < len(args) {
				to = &args[i+1]
			}
		}
	}
	if to == nil && len(ops) > 1 {
		to, ops = &ops[len(ops)-1], ops[:len(ops)-1]
	}
	if name == "mv" {
		s.gone(ops)
	}
	if to == nil {
		return
	}
	if name == "rsync" && slices.ContainsFunc(ops, func(w shellWord) bool { return strings.HasSuffix(w.text, "/") }) {
		s.add(*to, true) // what is in the folder, not the folder
		return
	}
	place := s.path(*to)
	if fi, err := os.Stat(place); to.known && to.pattern == "" && (err == nil && fi.IsDir() || strings.HasSuffix(to.text, "/")) {
		for _, from := range ops {
			inside := shellWord{text: join(to.text, base(from.text)), known: from.known}
			if from.pattern != "" {
				inside.pattern = join(to.text, filepath.Base(from.pattern))
			}
			s.add(inside, true)
		}
		return
	}
	s.add(*to, true)
}

func (s *shell) each(words []shellWord, tree bool) {
	for _, w := range words {
		s.add(w, tree)
	}
}

// gone notes what is taken away.
func (s *shell) gone(words []shellWord) {
	from := len(s.out)
	s.each(words, true)
	for i := range s.out[from:] {
		s.out[from+i].Gone = true
	}
}

func (s *shell) add(w shellWord, tree bool) {
	if !w.known || w.text == "" || s.dir == "" && !filepath.IsAbs(w.text) {
		return
	}
	t := Target{Path: s.path(w), Tree: tree}
	if w.pattern != "" {
		t.Path, t.Pattern, t.There = join(s.dir, w.pattern), true, w.there
	}
	s.out = append(s.out, t)
}

func (s *shell) path(w shellWord) string { return join(s.dir, w.text) }

// join is where a path leads from a folder.
func join(dir, path string) string {
	if filepath.IsAbs(path) || dir == "" {
		return path
	}
	return filepath.Join(dir, path)
}

// operands returns the words that are neither flags nor the values of those
// that take one.
func operands(args []shellWord, valued ...string) (out []shellWord) {
	for i := 0; i < len(args); i++ {
		switch t := args[i].text; {
		case t == "--":
			return append(out, args[i+1:]...)
		case slices.Contains(valued, t):
			i++
		case strings.HasPrefix(t, "-") && t != "-":
		default:
			out = append(out, args[i])
		}
	}
	return out
}

// has reports whether one of the flags is given, also with a value attached.
func has(args []shellWord, flags ...string) bool {
	return slices.ContainsFunc(args, func(a shellWord) bool {
		return slices.ContainsFunc(flags, func(f string) bool {
			return a.text == f || strings.HasPrefix(a.text, f+"=") ||
				len(f) == 2 && f[0] == '-' && f[1] == 'i' && strings.HasPrefix(a.text, "-") && !strings.HasPrefix(a.text, "--") && strings.ContainsRune(a.text, 'i')
		})
	})
}

// hasCluster reports whether a letter is among joined short flags.
func hasCluster(args []shellWord, letter byte) bool {
	return slices.ContainsFunc(args, func(a shellWord) bool {
		return strings.HasPrefix(a.text, "-") && !strings.HasPrefix(a.text, "--") && strings.IndexByte(a.text, letter) > 0
	})
}
