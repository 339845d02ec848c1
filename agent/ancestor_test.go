package agent

import "testing"

func TestHarnessesByTheirCommandLines(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"claude"}, "claude"},
		{[]string{"claude", "/usr/local/bin/claude", "--resume"}, "claude"},
		{[]string{"node", "node", "/usr/lib/node_modules/@google/gemini-cli/dist/index.js"}, "gemini"},
		{[]string{"node", "node", "/home/a/.npm/bin/gemini"}, "gemini"},
		{[]string{"codex", "/opt/codex", "exec"}, "codex"},
		{[]string{"Claude.exe"}, "claude"},
		{[]string{"bash", "-bash"}, ""},
		{[]string{"vim", "vim", "claude.md"}, ""},
		{[]string{"bash", "bash", "/home/codex/run.sh"}, ""},
		{[]string{"python3", "python3", "-m", "claude"}, ""},
		{[]string{"node", "node", "--no-warnings=DEP0040", "--max-old-space-size=4096", "/usr/local/bin/gemini", "-p", "x"}, "gemini"},
		{[]string{"node", "node", "/home/a/node_modules/@openai/codex/bin/codex.js"}, "codex"},
		{[]string{"node", "node", "/home/claude/codex/node_modules/.bin/jest"}, ""}, // the folder of somebody
		{[]string{"make", "make", "codex"}, ""},
		{[]string{"codex-linux-san", "codex-linux-sandbox", "/src/codex"}, ""},
		{[]string{"bash", "bash", "-c", "gemini"}, ""},
		{[]string{"node", "node", "/x/node_modules/@google"}, ""},
		{[]string{"node", "node", "--version"}, ""},
		{nil, ""},
	} {
		if got := harnessOf(c.words); got != c.want {
			t.Errorf("%q: %q", c.words, got)
		}
	}
}
