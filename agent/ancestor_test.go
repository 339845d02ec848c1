package agent

import "testing"

func TestHarnessesByTheirCommandLines(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  bool
	}{
		{[]string{"claude"}, true},
		{[]string{"claude", "/usr/local/bin/claude", "--resume"}, true},
		{[]string{"node", "node", "/usr/lib/node_modules/@google/gemini-cli/dist/index.js"}, true},
		{[]string{"node", "node", "/home/a/.npm/bin/gemini"}, true},
		{[]string{"codex", "/opt/codex", "exec"}, true},
		{[]string{"Claude.exe"}, true},
		{[]string{"bash", "-bash"}, false},
		{[]string{"vim", "vim", "claude.md"}, false},
		{[]string{"bash", "bash", "/home/codex/run.sh"}, false},
		{[]string{"python3", "python3", "-m", "claude"}, false},
		{nil, false},
	} {
		if got := fits(c.words); got != c.want {
			t.Errorf("%q: %v", c.words, got)
		}
	}
}
