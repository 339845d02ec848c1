package identity

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
		// On macOS the name is node, whatever runs in it.
		{[]string{"node", "node", "/opt/homebrew/bin/gemini"}, "gemini"},
		{[]string{"node", "/opt/homebrew/Cellar/node/25.1.0/bin/node", "--max-old-space-size=8192", "/opt/homebrew/bin/gemini", "--yolo"}, "gemini"},
		{[]string{"node", "node", "/Users/a/.npm/_npx/1f2e/node_modules/.bin/gemini"}, "gemini"},
		{[]string{"node", "node", "/Users/a/Library/pnpm/global/5/.pnpm/@google+gemini-cli@0.61.0/node_modules/@google/gemini-cli/dist/index.js"}, "gemini"},
		{[]string{"node", "node", "-r", "dotenv", "/opt/homebrew/bin/gemini"}, "gemini"},
		{[]string{"node", "node", "/Users/gemini/server.js"}, ""},
		{[]string{"node", "node", "server.js", "gemini"}, ""},
		{[]string{"node", "node", "--require", "gemini", "server.js"}, ""},
		{[]string{"node", "node", "-e", "gemini"}, ""},
		{[]string{"node", "node", "/Users/a/gemini-app/node_modules/vite/bin/vite.js"}, ""},
		{[]string{"node", "node", "/Users/a/node_modules/gemini-client/cli.js"}, ""},
		{[]string{"node"}, ""},
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
