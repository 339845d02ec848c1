package main

import (
	"fmt"
	"path/filepath"
)

var opencode = harness{
	name: "opencode", title: "OpenCode", npm: "opencode-ai", version: "1.18.33", program: "opencode",
	env: func(place) []string {
		return []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"}
	},
	prepare: func(p place) error {
		return writeFile(filepath.Join(p.home, ".config", "opencode", "opencode.json"), fmt.Sprintf(`{
  "model": "scripted/scripted", "small_model": "scripted/scripted", "autoupdate": false, "share": "disabled", "permission": {"*": "allow"},
  "provider": {"scripted": {
    "npm": "@ai-sdk/anthropic", "name": "scripted", "options": {"baseURL": "%s/v1", "apiKey": "none"},
    "models": {"scripted": {"name": "scripted", "tool_call": true, "limit": {"context": 200000, "output": 8000}}}
  }}
}
`, p.model))
	},
	args: func(prompt string) []string { return []string{"run", "--auto", prompt} },
	shell: func(_ turn, command string) toolCall {
		return toolCall{tool: tool{name: "bash"}, input: object{"command": command, "description": "a step of the script"}}
	},
	write: func(_ turn, file string) toolCall {
		return toolCall{tool: tool{name: "write"}, input: object{"filePath": file, "content": "written\n"}}
	},
	spawn: func(_ turn, prompt string) toolCall {
		return toolCall{tool: tool{name: "task"}, input: object{"description": "a part", "prompt": prompt, "subagent_type": "general"}}
	},
	mcp: func(name string) tool { return tool{name: "tasklock_" + name} },
}
