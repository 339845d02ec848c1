package rewrite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const owner = "claude:s1/sub1"

// lines are commands and what becomes of them: § stands for " --owner NAME", ¤ for
// "TASKLOCK_OWNER=NAME ". Without either the command stays as it is.
var lines = []string{
	// Simple calls: the flag stands behind all words, before redirections and comments.
	`tasklock acquire path:src§`,
	`tasklock acquire path:src/** path:docs/*.md§`,
	`tasklock acquire k --reason "for the tests"§`,
	`tasklock acquire k --reason=x --ttl 5m§`,
	`tasklock list --json§`,
	`tasklock --json list§`,
	`tasklock --store sqlite:/x list§`,
	`tasklock next --claim --json§ | cat`,
	`tasklock list§ >out.txt 2>&1`,
	`tasklock list§ 2>/dev/null # with a comment: tasklock release k`,
	`tasklock show >out.txt k§`,
	`tasklock heartbeat --all§;`,
	`tasklock release k§ &`,
	`  tasklock   release    k§   `,
	"tasklock acquire \\\n  path:a \\\n  path:b§\n",
	`./bin/tasklock release k§`,
	`"$PWD"/bin/tasklock release k§`,
	`"$PWD/bin/tasklock" release k§`,
	`'tasklock' "release" k§`,
	`\tasklock release k§`,
	`tasklock tasks complete t1 --summary 'it'"'"'s done'§`,
	`tasklock acquire "a b" 'c d' e\ f§`,
	`tasklock acquire k --reason ""§`,
	`tasklock acquire ünïcode§ && echo ünï`,

	// Before "--", and before what may be several words.
	`tasklock run k§ -- make test`,
	`tasklock run k --ttl 5m§ -- tasklock check k --mine`,
	`tasklock run k§ -- sh -c 'tasklock check k; git commit'`,
	`tasklock tasks add§ -- --odd-title`,
	`K=a; tasklock release§ $K`,
	`tasklock release§ $(echo a b)`,
	`set -- release a; tasklock§ "$@"`,
	`K=a; tasklock release "$K"§`,
	`K=a; tasklock acquire x --reason "$K" y§`,
	`R=a; tasklock acquire x§ --reason $R`,
	`f() { tasklock§ "$@"; }; f release k`,
	`A=(a b); tasklock release§ "${A[@]}" c`,
	`C=release; tasklock§ $C k`,
	`tasklock acquire k§ --reason`,
	`tasklock acquire k --wait --reason`,

	// Lists, pipes, loops, groups, substitutions.
	`tasklock acquire a§ && tasklock acquire b§ || tasklock release a§; tasklock list§`,
	`tasklock list§ | grep x; echo done`,
	`if ! tasklock check k§; then tasklock acquire k§; fi`,
	`until tasklock acquire k --no-wait§; do break; done`,
	`for k in a b; do tasklock acquire "$k"§; done`,
	`(cd /; tasklock list§) && { tasklock whoami§; }`,
	`T=$(tasklock acquire k --json§); echo "$T"`,
	`echo "token: $(tasklock show k§ | cut -c1-3)"`,
	"echo `tasklock show k§`",
	`cat <(tasklock list§) /dev/null`,
	`case x in x) tasklock list§ ;; tasklock) ;; esac`,
	`time tasklock list§`,
	`tasklock acquire "$(tasklock id x§)"§`,
	`[ -n "$(tasklock list§)" ] && echo some`,
	`tasklock list§ |& cat`,

	// What carries a command.
	`env tasklock list§`,
	`env FOO=1 tasklock list§`,
	`timeout 60 tasklock acquire k --wait 50s§`,
	`timeout -k 5 60 tasklock acquire k§`,
	`command tasklock list§; nohup tasklock list§; nice -n 5 tasklock list§`,
	`exec tasklock list§`,
	`echo a b | xargs tasklock release§`,
	`echo a b | xargs -n 1 -I{} tasklock release {}§`,
	`FOO=1 tasklock list§`,
	`TASKLOCK_OWNER=worker tasklock acquire k§`,
	`export TASKLOCK_OWNER=worker; tasklock acquire k§`,

	// Scripts in quotes.
	`sh -c 'tasklock acquire k§'`,
	`bash -lc 'tasklock acquire k§ && make test' || true`,
	`bash -euo pipefail -c 'tasklock list§ | cat'`,
	`bash -c "tasklock acquire k§"`,
	`bash -c "tasklock acquire \"a b\" '\$x'§; echo \"\\\\\""`,
	`K=a; bash -c "tasklock acquire k --reason '$K'§"`,
	`K=a; bash -c "tasklock release§ $K"`,
	`eval 'tasklock list§'`,
	`sh -c 'sh -c "tasklock list§"'`,
	`timeout 5 sh -c 'tasklock "$1" k§' _ list`,
	`sh -c 'tasklock§ "$@"' _ release k`,
	`sh -c 'tasklock '"list§"`,
	`sh -c 'tasklock acquire k --reason '\''a b'\''§'`,
	`sh -c 'tasklock acquire '\''a b'\'' c§; ¤git commit -m '\''x y'\'''`,
	`eval 'sh -c '\''tasklock list§'\'''`,
	`sh -c 'echo '\''tasklock list'\'''`,
	`sh -c 'echo $1; tasklock list§' tasklock 'tasklock list'`,

	// git, where there is a guard.
	`¤git commit -m x`,
	`cd sub && ¤git commit -am "tasklock: x" && ¤git push origin HEAD`,
	`git add . && ¤git -c user.name=x -C sub commit -m 'git push' && git status`,
	`FOO=1 ¤git push`,
	`¤timeout 60 git push`,
	`env FOO=1 ¤git push`,
	`¤command git push`,
	`¤git merge --continue; ¤git rebase --continue; ¤git cherry-pick --continue; ¤git pull`,
	`¤git ci -m x`,
	`sh -c '¤git commit -m x'`,
	`bash -c "¤git commit -m \"a b\""`,
	`V=commit; ¤git $V -m x`,
	"¤git commit -m \"$(cat <<'EOF'\ntasklock list\ngit push\nEOF\n)\"",
	`tasklock acquire k§ && ¤git commit -m x && tasklock release k§`,
	`TASKLOCK_OWNER=me ¤git push`,
	`! ¤git push`,
	`if ¤git push; then :; fi`,
	`x=$(¤git push 2>&1); echo "$x"`,
	`¤exec git push`,

	// Not ours, or named already: byte for byte as it was.
	`tasklock acquire k --owner zed`,
	`tasklock --owner zed acquire k`,
	`tasklock acquire k --owner=zed`,
	`O=zed; tasklock acquire k --owner "$O"`,
	`O=zed; tasklock acquire k --owner=$O`,
	`TASKLOCK_OWNER=claude:s1/own tasklock acquire k`,
	`TASKLOCK_OWNER=claude:s1/own git commit -m x`,
	`env TASKLOCK_OWNER=claude:s1 tasklock list`,
	`export TASKLOCK_OWNER=claude:s1/own; tasklock acquire k; git push`,
	`tasklock`,
	`tasklock --version`,
	`tasklock --help`,
	`tasklock help acquire`,
	`tasklock version`,
	`echo tasklock acquire k`,
	`echo "tasklock acquire k"; echo 'tasklock list'`,
	`printf '%s\n' tasklock list # tasklock list`,
	`timeout 5 echo tasklock list`,
	`grep -rn "tasklock acquire" .`,
	`cat tasklock.txt mytasklock tasklock/list`,
	`./tasklock.sh list; tasklockx list; my-tasklock list`,
	`command -v tasklock; type tasklock; command -v git push`,
	"cat <<EOF\ntasklock acquire k\n$(tasklock list)\nEOF",
	"bash <<'EOF'\ntasklock acquire k\nEOF",
	`X="tasklock acquire k"; echo "$X"`,
	`X=tasklock; $X list`,
	`sh -c "tasklock list $(echo k)"`,
	`sh -c tasklock\ list`,
	`sh -c $'tasklock list'`,
	`sh tasklock list`,
	`eval tasklock list`,
	`tasklock() { echo fake "$@"; }; tasklock list`,
	`alias tasklock=echo; tasklock list`,
	`git() { echo fake "$@"; }; git push; tasklock list`,
	`git status && git log --oneline -- push && git diff && git add commit`,
	`git --version; git`,
	`git cherry -v && git range-diff a b c && git merge-tree a b && git read-tree -n HEAD && git rerere status`,
	`gitk commit; echo git push; "git push"`,
	`sudo git push`,
	`tasklock list 'unclosed`,
	`tasklock list && (`,
	"echo `tasklock show \\\"k\\\"`",
	`tasklock list\`,
	"tasklock list\r\n",
	`()tasklock list`,
	`[[ tasklock = git ]] && ((tasklock = 1))`,
	`for tasklock in list; do echo $tasklock; done`,
}

func mark(line, owner string) (plain, want string) {
	return strings.NewReplacer("§", "", "¤", "").Replace(line),
		strings.NewReplacer("§", " --owner "+quoted(owner), "¤", "TASKLOCK_OWNER="+quoted(owner)+" ").Replace(line)
}

func request(command string) Request {
	return Request{Command: command, Owner: owner, Session: "claude:s1", Guarded: func([]string) bool { return true }}
}

func TestLines(t *testing.T) {
	for _, line := range lines {
		command, want := mark(line, owner)
		got := request(command).Do()
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", command, got, want)
		}
		if again := request(got).Do(); again != got {
			t.Errorf("%s\nonce  %s\ntwice %s", command, got, again)
		}
	}
}

// If git's own hooks are switched off, a call names the guard's folder; and calls
// of tasklock that find their owner are left alone.
func TestHooks(t *testing.T) {
	for command, want := range map[string]string{
		`tasklock list && git commit -m x`:     `tasklock list && TASKLOCK_OWNER=claude:s1/a git -c core.hooksPath='/a b' commit -m x`,
		`cd x; env A=b /usr/bin/git -C y push`: `cd x; env A=b TASKLOCK_OWNER=claude:s1/a /usr/bin/git -c core.hooksPath='/a b' -C y push`,
		`sh -c 'git commit'`:                   `sh -c 'git commit'`, // quotes in quotes
		`git status; tasklock list`:            `git status; tasklock list`,
	} {
		r := Request{Command: command, Owner: "claude:s1/a", Session: "claude:s1", Guarded: func([]string) bool { return true }, Hooks: "/a b", Named: true}
		got := r.Do()
		if r.Command = got; got != want || r.Do() != got {
			t.Errorf("%s\n got %s\nwant %s", command, got, want)
		}
	}
}

// What bash does with a line is the truth: with the owner in it, the same programs
// run with the same words, and every one that acts in somebody's name has its own.
func TestLinesByExecution(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	for i, line := range lines {
		command, want := mark(line, owner)
		if want == command { // and so it stays: TestLines
			continue
		}
		before, beforeOut := runLine(t, bash, command)
		names := []string{owner}
		if i < 40 {
			names = append(names, "claude:s1/it's a \"$b\"")
		}
		for _, name := range names {
			r := request(command)
			r.Owner = name
			text := r.Do()
			if text == command {
				continue
			}
			after, afterOut := runLine(t, bash, text)
			if len(before) != len(after) || beforeOut != afterOut {
				t.Errorf("%s\nran %q and printed %q\nran %q and printed %q", text, before, beforeOut, after, afterOut)
				continue
			}
			for i := range after {
				if got := after[i].without(name); got != before[i].without(name) || after[i].must() && !after[i].named(name) {
					t.Errorf("%s\nran %q in place of %q", text, after[i], before[i])
				}
			}
		}
	}
}

// ran is one call of a program as it saw itself.
type ran struct {
	program, env string
	words        []string
}

// named reports whether the program got the name, before "--".
func (r ran) named(name string) bool {
	if r.program == "git" {
		return r.env == name
	}
	words := r.words
	if end := slices.Index(words, "--"); end >= 0 {
		words = words[:end]
	}
	i := slices.Index(words, "--owner")
	return i >= 0 && i+1 < len(words) && words[i+1] == name
}

// without is the call as it would be without the name.
func (r ran) without(name string) string {
	words := slices.Clone(r.words)
	if r.program == "tasklock" && r.named(name) {
		i := slices.Index(words, "--owner")
		words = slices.Delete(words, i, i+2)
	}
	return fmt.Sprintf("%s %q", r.program, words)
}

// must reports whether a call acts in somebody's name: in the table above all of
// tasklock's do, where one does.
func (r ran) must() bool {
	verbs := []string{"commit", "push", "merge", "rebase", "cherry-pick", "pull", "ci"}
	return r.program == "tasklock" || slices.ContainsFunc(r.words, func(w string) bool { return slices.Contains(verbs, w) })
}

var seconds = regexp.MustCompile(`[0-9.]+s`) // of time

// runLine runs a command with programs that only note how they were called.
func runLine(t *testing.T, bash, command string) (calls []ran, out string) {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	for _, d := range []string{bin, filepath.Join(dir, "sub"), filepath.Join(dir, "log")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	fake := "#!/bin/sh\nf=$(mktemp \"$LOG/XXXXXX\")\n{ printf '%s\\0' \"${0##*/}\" \"$TASKLOCK_OWNER\" \"$@\"; } >\"$f\"\necho ran\n"
	for _, name := range []string{"tasklock", "git"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(fake), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bash, "-c", command)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "LOG=" + filepath.Join(dir, "log"), "HOME=" + dir}
	b, _ := cmd.CombinedOutput() // also of lines that are wrong
	files, err := filepath.Glob(filepath.Join(dir, "log", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
		calls = append(calls, ran{fields[0], fields[1], fields[2:]})
	}
	slices.SortFunc(calls, func(a, b ran) int { return strings.Compare(a.without(owner), b.without(owner)) })
	return calls, seconds.ReplaceAllString(strings.ReplaceAll(string(b), dir, ""), "")
}

// Whatever the command is, nothing of it is lost, and twice is the same as once.
func FuzzDo(f *testing.F) {
	for _, line := range lines {
		command, _ := mark(line, "")
		f.Add(command)
	}
	flag, variable := " --owner "+owner, ownerVariable+"="+owner+" "
	f.Fuzz(func(t *testing.T, command string) {
		if strings.Contains(command, owner) {
			return
		}
		got := request(command).Do()
		if strings.NewReplacer(flag, "", variable, "").Replace(got) != command {
			t.Errorf("%q became %q", command, got)
		}
		if again := request(got).Do(); again != got {
			t.Errorf("%q became %q, then %q", command, got, again)
		}
	})
}
