package main

import (
	"os"
	"path/filepath"
)

// A harness is a coding agent: where it comes from, how it learns where its model
// is, and how its tools are called.
type harness struct {
	name    string // as "tasklock agents install" calls it
	title   string
	npm     string // its package
	version string
	program string // in its package
	also    []string

	env     func(p place) []string
	prepare func(p place) error
	args    func(prompt string) []string // of a session without a terminal

	shell func(t turn, command string) toolCall
	write func(t turn, file string) toolCall
	spawn func(t turn, prompt string) toolCall // nil: it has no subagents
	mcp   func(name string) tool               // a tool of tasklock's server; nil: it has no MCP

	// cannot is what cannot be had in this harness, and why: those checks are played
	// and may fail.
	cannot map[string]string
	// untried checks are not played.
	untried []string
	variant string // how it runs, behind its version
}

// place is where one script is played.
type place struct {
	root, home, repo, bin string
	programs              string // of the harness
	model                 string // its address
}

// packages are what npm is to install.
func (h harness) packages() []string { return append([]string{h.npm + "@" + h.version}, h.also...) }

var harnesses = []harness{claude, codex, sandboxed, gemini, pi, opencode}

var protocols = []protocol{anthropic, openai, generate}

var claude = harness{
	name: "claude", title: "Claude Code", npm: "@anthropic-ai/claude-code", version: "2.1.325", program: "claude",
	env: func(p place) []string {
		return []string{
			"ANTHROPIC_BASE_URL=" + p.model, "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1", "CLAUDE_CONFIG_DIR=" + filepath.Join(p.home, ".claude"),
		}
	},
	prepare: func(p place) error {
		return writeFile(filepath.Join(p.home, ".claude", "settings.json"), `{"enableAllProjectMcpServers": true}`)
	},
	args: func(prompt string) []string {
		return []string{"-p", prompt, "--allowedTools", "Bash,Write,Edit,Read,Task,Agent,mcp__tasklock"}
	},
	shell: func(_ turn, command string) toolCall {
		return toolCall{tool: tool{name: "Bash"}, input: object{"command": command, "description": "a step of the script"}}
	},
	write: func(_ turn, file string) toolCall {
		return toolCall{tool: tool{name: "Write"}, input: object{"file_path": file, "content": "written\n"}}
	},
	spawn: func(t turn, prompt string) toolCall {
		return toolCall{tool: t.pick("Agent", "Task"), input: object{"description": "a part", "prompt": prompt, "subagent_type": "general-purpose", "run_in_background": false}}
	},
	mcp: func(name string) tool { return tool{name: "mcp__tasklock__" + name} },
}

// pick is the first of those tools that the harness has.
func (t turn) pick(names ...string) tool {
	for _, name := range names {
		for _, has := range t.tools {
			if has.name == name {
				return has
			}
		}
	}
	return tool{name: names[0]}
}

func writeFile(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o600)
}
