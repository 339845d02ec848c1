package main

import (
	"fmt"
	"path/filepath"
)

var codex = harness{
	name: "codex", title: "Codex CLI", npm: "@openai/codex", version: "0.166.0", program: "codex",
	env: func(p place) []string { return []string{"CODEX_HOME=" + filepath.Join(p.home, ".codex")} },
	prepare: func(p place) error {
		return writeFile(filepath.Join(p.home, ".codex", "config.toml"), fmt.Sprintf(`model = "gpt-5.5"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "%s/v1"
wire_api = "responses"

[projects.%q]
trust_level = "trusted"
`, p.model, p.repo))
	},
	args: func(prompt string) []string {
		return []string{"exec", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust", prompt}
	},
	shell: func(t turn, command string) toolCall {
		c := toolCall{tool: t.pick("exec_command", "shell_command", "shell")}
		if c.name == "exec_command" {
			c.input = object{"cmd": command, "yield_time_ms": 120000}
		} else {
			c.input = object{"command": command, "timeout_ms": 120000}
		}
		return c
	},
	write: func(t turn, file string) toolCall {
		patch := "*** Begin Patch\n*** Add File: " + file + "\n+written\n*** End Patch\n"
		return toolCall{tool: t.pick("apply_patch"), input: object{"input": patch}, text: patch}
	},
	spawn: func(t turn, prompt string) toolCall {
		spawn := t.pick("spawn_agent")
		if spawn.space == "" { // the model would have to search for it
			spawn.space = "multi_agent_v1"
		}
		return toolCall{tool: spawn, input: object{"message": prompt}}
	},
	mcp: func(name string) tool { return tool{name: name, space: "mcp__tasklock"} },
}

// sandboxed is Codex as it comes: commands see no network, no process outside, and
// cannot write to .git.
var sandboxed = func() harness {
	h := codex
	h.variant = ", in its sandbox"
	h.args = func(prompt string) []string {
		return []string{"exec", "--sandbox", "workspace-write", "--dangerously-bypass-hook-trust", prompt}
	}
	h.cannot = map[string]string{commits: "its sandbox makes .git read-only"}
	h.untried = []string{nested, subagents} // a nested one would need the network, and subagents commit
	return h
}()
