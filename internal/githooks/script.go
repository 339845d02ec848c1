package githooks

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// Names are the hooks of git that the guard serves.
var Names = []string{"pre-commit", "pre-push"}

const (
	ownMark    = "# tasklock guard" // second line of a file that is all ours
	beginMark  = "# tasklock:begin"
	endMark    = "# tasklock:end"
	keptEnd    = ".before-tasklock" // what was there, beside ours
	keptFolder = "before-tasklock"  // in which it is called by its own name
	absent     = "tasklock is not installed on this machine, so nobody checks here which files others have locked"
)

// block are the lines that call the guard, for the beginning of a shell hook. The
// rest of the hook also reads git's input of pre-push.
func block(hook string) string {
	call := fmt.Sprintf("\ttasklock guard run %s \"$@\" || exit 1\n", hook)
	if hook == "pre-push" {
		call = `	tasklock_input=$(cat)
	printf '%s\n' "$tasklock_input" | tasklock guard run pre-push "$@" || exit 1
	if [ -n "$tasklock_input" ]; then
		exec <<tasklock_end
$tasklock_input
tasklock_end
	else
		exec </dev/null
	fi
`
	}
	return beginMark + ": refuses what touches paths that others have locked; see \"tasklock guard --help\"\n" +
		"if command -v tasklock >/dev/null 2>&1; then\n" + call +
		"else\n\techo \"" + absent + "\" >&2\nfi\n" + endMark + "\n"
}

// ownScript is a hook that is all ours.
func ownScript(hook string) []byte {
	return []byte("#!/bin/sh\n" + ownMark + "\n" + block(hook))
}

// chainScript is a hook that is all ours and calls the former one, by its own name,
// with the same arguments and the same input.
func chainScript(hook string) []byte {
	return fmt.Appendf(ownScript(hook), `before="$(dirname "$0")/%s/%s"
[ -x "$before" ] || before="$0%s"
if [ -x "$before" ]; then
	exec "$before" "$@"
fi
`, keptFolder, hook, keptEnd)
}

// ours reports whether a hook is all ours, of this or an earlier version.
func ours(script []byte) bool {
	_, rest, _ := bytes.Cut(script, []byte("\n"))
	return bytes.HasPrefix(rest, []byte(ownMark))
}

// guards reports whether a hook calls the guard.
func guards(script []byte) bool {
	from, _ := findGuard(script)
	return from >= 0 || ours(script) && bytes.Contains(script, []byte("tasklock guard run"))
}

// findGuard is where our lines begin and end; -1: nowhere.
func findGuard(script []byte) (from, to int) {
	from = bytes.Index(script, []byte(beginMark))
	if from < 0 || from > 0 && script[from-1] != '\n' {
		return -1, -1
	}
	n := bytes.Index(script[from:], []byte("\n"+endMark))
	if n < 0 {
		return -1, -1
	}
	to = from + n + len("\n"+endMark)
	if to < len(script) {
		to++ // the end of the line
	}
	return from, to
}

// withGuard puts our lines below the first line of a script that names the
// shell, or at the top.
func withGuard(script []byte, hook string) []byte {
	block := []byte(block(hook))
	if from, to := findGuard(script); from >= 0 {
		if script[to-1] != '\n' {
			block = bytes.TrimSuffix(block, []byte("\n"))
		}
		return bytes.Join([][]byte{script[:from], block, script[to:]}, nil)
	}
	at := 0
	if bytes.HasPrefix(script, []byte("#!")) {
		if at = bytes.IndexByte(script, '\n') + 1; at == 0 { // a single line without an end, and so it stays
			return bytes.Join([][]byte{script, {'\n'}, bytes.TrimSuffix(block, []byte("\n"))}, nil)
		}
	}
	return bytes.Join([][]byte{script[:at], block, script[at:]}, nil)
}

// withoutGuard takes our lines out; nil if nothing else is left.
func withoutGuard(script []byte) []byte {
	from, to := findGuard(script)
	if from < 0 {
		return script
	}
	rest := append(bytes.Clone(script[:from]), script[to:]...)
	if script[to-1] != '\n' {
		rest = bytes.TrimSuffix(rest, []byte("\n"))
	}
	if len(rest) == 0 || string(rest) == "#!/bin/sh\n"+ownMark+"\n" {
		return nil
	}
	return rest
}

// inShell reports whether a hook is a script for a usual shell.
func inShell(script []byte) bool {
	if !utf8.Valid(script) || bytes.IndexByte(script, 0) >= 0 {
		return false
	}
	first, _, _ := strings.Cut(string(script), "\n")
	words := strings.Fields(strings.TrimPrefix(first, "#!"))
	if !strings.HasPrefix(first, "#!") || len(words) == 0 {
		return !strings.HasPrefix(first, "#!")
	}
	if path.Base(words[0]) == "env" && len(words) > 1 {
		words = words[len(words)-1:]
	}
	switch path.Base(words[0]) {
	case "sh", "bash", "dash", "ash", "ksh", "zsh":
		return true
	}
	return false
}
