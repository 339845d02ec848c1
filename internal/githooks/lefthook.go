package githooks

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tasklock/tasklock/internal/repo"
)

// lefthookConfig is the configuration of lefthook in a worktree; empty: there
// is none.
func lefthookConfig(top string) string {
	for _, name := range []string{"lefthook", ".lefthook", ".config/lefthook", "lefthook-local", ".lefthook-local"} {
		for _, end := range []string{".yml", ".yaml", ".toml", ".json"} {
			if file := filepath.Join(top, filepath.FromSlash(name+end)); repo.Exists(file) {
				return file
			}
		}
	}
	return ""
}

// lefthookCommand are the lines of the guard as one of lefthook's commands.
// Lefthook skips a command without files: those that the hook excludes, or those of
// another pushed branch. So the guard names a file that always exists: the
// configuration.
func lefthookCommand(hook, config string) []string {
	call := "tasklock guard run " + hook
	lines := []string{"files: echo " + config}
	if hook == "pre-push" {
		call += ` "{1}" "{2}"`
		lines = append(lines, "use_stdin: true")
	}
	return append(lines, fmt.Sprintf(`run: 'if command -v tasklock >/dev/null 2>&1; then %s; else echo "%s" >&2; fi # {files}'`, call, absent))
}

var errLefthook = errors.New("its form leaves no place for the guard")

// lefthookByHand is what a person must write if we cannot.
func lefthookByHand(hook, config string) string {
	return fmt.Sprintf("write by hand, below %s and commands: tasklock: {%s}", hook, strings.Join(lefthookCommand(hook, config), ", "))
}

func lefthookMarks(hook string) (begin, end string) {
	return beginMark + " " + hook, endMark + " " + hook
}

// lefthookGuards reports whether a configuration calls the guard for a hook.
func lefthookGuards(text []byte, hook string) bool {
	var doc map[string]any
	if yaml.Unmarshal(text, &doc) != nil {
		return bytes.Contains(text, []byte("tasklock guard run "+hook)) // TOML or JSON, by hand
	}
	out, _ := yaml.Marshal(doc[hook])
	return bytes.Contains(out, []byte("tasklock guard run "+hook))
}

// lefthookCondition is the setting that keeps lefthook from running a hook
// sometimes, or always; empty: there is none. Git runs no guard either while it
// merges or rebases.
func lefthookCondition(text []byte, hook string) string {
	var doc map[string]struct{ Only, Skip any }
	_ = yaml.Unmarshal(text, &doc) // of what has another form, the rest is read
	settings := doc[hook]
	list, _ := settings.Skip.([]any)
	other := func(when any) bool { return when != "merge" && when != "rebase" && when != "merge-commit" }
	switch {
	case settings.Only != nil && settings.Only != true:
		return "only"
	case settings.Skip == true, slices.ContainsFunc(list, other):
		return "skip"
	}
	return ""
}

// lefthookInstall puts the guard into the configuration as whole lines between two
// marks, and reads it before and after: the rest must mean the same.
func lefthookInstall(text []byte, hook, config string) ([]byte, error) {
	rest := lefthookRemove(text, hook)
	before, after := map[string]any{}, map[string]any{}
	var doc yaml.Node
	if err := errors.Join(yaml.Unmarshal(rest, &before), yaml.Unmarshal(rest, &doc)); err != nil {
		return nil, err
	}
	if lefthookGuards(rest, hook) {
		return rest, nil // somebody's own
	}
	line, lines, err := lefthookPlace(&doc, hook, config)
	if err != nil {
		return nil, err
	}
	out := insertLines(rest, line, lines)
	if err := yaml.Unmarshal(out, &after); err != nil {
		return nil, err
	}
	if !lefthookGuards(out, hook) || !reflect.DeepEqual(withoutOurs(after, hook), withoutOurs(before, hook)) {
		return nil, errLefthook
	}
	return out, nil
}

// lefthookPlace is before which line (counted from 1; 0: at the end) which lines
// go in.
func lefthookPlace(doc *yaml.Node, hook, config string) (int, []string, error) {
	begin, end := lefthookMarks(hook)
	ours := func(indent int, head ...string) []string {
		pad := strings.Repeat(" ", indent)
		lines := []string{pad + begin}
		for i, l := range head {
			lines = append(lines, pad+strings.Repeat("  ", i)+l)
		}
		for _, l := range lefthookCommand(hook, config) {
			lines = append(lines, pad+strings.Repeat("  ", len(head))+l)
		}
		return append(lines, pad+end)
	}
	if len(doc.Content) == 0 || member(doc.Content[0], hook) == nil {
		return 0, ours(0, hook+":", "commands:", "tasklock:"), nil
	}
	at := member(doc.Content[0], hook)
	inner := at
	head := []string{"commands:", "tasklock:"}
	if jobs := member(at, "jobs"); jobs != nil {
		inner, head = jobs, []string{"- name: tasklock"}
	} else if commands := member(at, "commands"); commands != nil {
		inner, head = commands, []string{"tasklock:"}
	}
	if inner.Kind == yaml.AliasNode || inner.Style&yaml.FlowStyle != 0 || len(inner.Content) == 0 || inner.Content[0].Line == at.Line && at != inner {
		return 0, nil, errLefthook
	}
	indent := inner.Content[0].Column - 1
	if inner.Kind == yaml.SequenceNode {
		indent = max(inner.Column-1, 0) // where its dashes stand
	}
	return inner.Content[0].Line, ours(indent, head...), nil
}

// member is the value of a key in a block mapping.
func member(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// insertLines puts lines before a line of the text, 0: at its end.
func insertLines(text []byte, line int, lines []string) []byte {
	nl := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		nl = "\r\n"
	}
	piece := strings.Join(lines, nl) + nl
	at := 0
	for i := 1; i < line; i++ {
		at += bytes.IndexByte(text[at:], '\n') + 1
	}
	if line == 0 {
		if at = len(text); at > 0 && text[at-1] != '\n' { // the end stays without a newline
			piece = nl + strings.TrimSuffix(piece, nl)
		}
	}
	return bytes.Join([][]byte{text[:at], []byte(piece), text[at:]}, nil)
}

// lefthookRemove takes the guard of a hook out again.
func lefthookRemove(text []byte, hook string) []byte {
	begin, end := lefthookMarks(hook)
	from := bytes.Index(text, []byte(begin))
	if from < 0 {
		return text
	}
	n := bytes.Index(text[from:], []byte(end))
	if n < 0 {
		return text
	}
	to := from + n + len(end)
	from = bytes.LastIndexByte(text[:from], '\n') + 1
	if rest := text[to:]; len(rest) == 0 { // put behind a last line without an end
		from = len(bytes.TrimSuffix(bytes.TrimSuffix(text[:from], []byte("\n")), []byte("\r")))
	} else {
		to += bytes.IndexByte(rest, '\n') + 1
	}
	return append(bytes.Clone(text[:from]), text[to:]...)
}

// withoutOurs is the configuration without the guard.
func withoutOurs(doc map[string]any, hook string) map[string]any {
	h, ok := doc[hook].(map[string]any)
	if !ok {
		return doc
	}
	if commands, ok := h["commands"].(map[string]any); ok {
		if delete(commands, "tasklock"); len(commands) == 0 {
			delete(h, "commands")
		}
	}
	if jobs, ok := h["jobs"].([]any); ok && len(jobs) > 0 {
		if first, ok := jobs[0].(map[string]any); ok && first["name"] == "tasklock" {
			h["jobs"] = jobs[1:]
		}
	}
	if len(h) == 0 {
		delete(doc, hook)
	}
	return doc
}
