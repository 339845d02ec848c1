package harness

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"sync"
)

// paragraph is our text in a file of guidance.
var paragraph = &block{begin: "<!-- tasklock:begin -->", end: "<!-- tasklock:end -->", text: agentsText}

// guidanceFiles are all files that may have a paragraph of ours.
var guidanceFiles = []string{"AGENTS.md", "AGENTS.override.md", "CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"}

// guidance is the file in which the harness reads our paragraph. It also lists the
// files in which an earlier version or setting had it, so that Remove finds them;
// Install does not change those.
func (s Setup) guidance() []File {
	const what = "a paragraph about tasklock"
	at := s.guidanceFile()
	if at == cursorRule {
		return []File{{Path: at, What: what, whole: cursorRuleText, Guidance: true}}
	}
	out := []File{{Path: at, What: what, block: paragraph, Guidance: true}}
	for _, name := range guidanceFiles {
		if name != at {
			out = append(out, File{Path: name, What: what, block: paragraph, Guidance: true, Former: true})
		}
	}
	return out
}

// guidanceFile is the file that the harness reads: each has its own rules for a
// project with files of several harnesses.
func (s Setup) guidanceFile() string {
	switch s.Harness {
	case "claude": // reads AGENTS.md only where there is no CLAUDE.md
		if s.Local {
			return "CLAUDE.local.md"
		}
		for _, name := range []string{"CLAUDE.md", ".claude/CLAUDE.md"} {
			if text := s.read(name); text != nil && !imports(text, "AGENTS.md") {
				return name
			}
		}
	case "gemini":
		names := s.geminiContext()
		if slices.Contains(names, "AGENTS.md") {
			return "AGENTS.md"
		}
		if text := s.read(names[0]); imports(text, "AGENTS.md") {
			return "AGENTS.md"
		}
		return names[0]
	case "codex": // reads the override in place of the other
		if s.read("AGENTS.override.md") != nil {
			return "AGENTS.override.md"
		}
	case "cursor":
		if s.Local {
			return cursorRule
		}
	case "pi", "opencode": // read CLAUDE.md only where there is no AGENTS.md
		if s.read("AGENTS.md") == nil && s.read("CLAUDE.md") != nil {
			return "CLAUDE.md"
		}
	}
	return "AGENTS.md"
}

// geminiContext are the names of Gemini's files of guidance: those in the
// project's settings, else in the user's, else its own.
func (s Setup) geminiContext() []string {
	for _, name := range []string{".gemini/settings.json", "~/.gemini/settings.json"} {
		var settings struct {
			Context struct {
				FileName names `json:"fileName"`
			}
			Old names `json:"contextFileName"`
		}
		if json.Unmarshal(plainJSON(s.read(name)), &settings) != nil {
			continue
		}
		if found := append(settings.Context.FileName, settings.Old...); len(found) > 0 {
			return found
		}
	}
	return []string{"GEMINI.md"}
}

// names is one text or a list of them.
type names []string

func (n *names) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var one string
		err := json.Unmarshal(b, &one)
		*n = names{one}
		return err
	}
	return (*words)(n).UnmarshalJSON(b)
}

var fenced = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("(?s)```.*?```|`[^`\n]*`") })

// imports reports whether a file of guidance includes another one: "@NAME" in its
// text, but not in code.
func imports(text []byte, name string) bool {
	return regexp.MustCompile(`(^|\s)@(\./)?` + regexp.QuoteMeta(name) + `(\s|$)`).Match(fenced().ReplaceAll(bytes.ReplaceAll(text, []byte("\r"), nil), nil))
}

// cursorRule is guidance for one person; in other harnesses such a file would
// replace the project's.
const cursorRule = ".cursor/rules/tasklock.mdc"

const cursorRuleText = "---\ndescription: tasklock\nalwaysApply: true\n---\n<!-- " + wholeMark + " \"tasklock agents install cursor\" -->\n" + agentsText + "\n"
