package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

var pi = harness{
	name: "pi", title: "Pi", npm: "@earendil-works/pi-coding-agent", version: "0.87.1", program: "pi",
	also: []string{node("24.21.0")}, // it wants 22.19 or newer
	env: func(p place) []string {
		return []string{"PI_CODING_AGENT_DIR=" + filepath.Join(p.home, ".pi", "agent"), "PI_OFFLINE=1"}
	},
	prepare: func(p place) error {
		return writeFile(filepath.Join(p.home, ".pi", "agent", "models.json"), fmt.Sprintf(`{"providers": {"scripted": {
  "baseUrl": %q, "api": "anthropic-messages", "apiKey": "none", "models": [{"id": "scripted"}]
}}}
`, p.model))
	},
	args: func(prompt string) []string {
		return []string{"-p", prompt, "--provider", "scripted", "--model", "scripted", "--approve"}
	},
	shell: func(_ turn, command string) toolCall {
		return toolCall{tool: tool{name: "bash"}, input: object{"command": command}}
	},
	write: func(_ turn, file string) toolCall {
		return toolCall{tool: tool{name: "write"}, input: object{"path": file, "content": "written\n"}}
	},
}

// node is the package that holds Node for this machine.
func node(version string) string {
	platform := strings.NewReplacer("windows", "win").Replace(runtime.GOOS)
	arch := strings.NewReplacer("amd64", "x64").Replace(runtime.GOARCH)
	return "node-" + platform + "-" + arch + "@" + version
}
