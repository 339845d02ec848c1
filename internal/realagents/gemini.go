package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
)

var gemini = harness{
	name: "gemini", title: "Gemini CLI", npm: "@google/gemini-cli", version: "0.61.0", program: "gemini",
	env: func(p place) []string {
		return []string{"GOOGLE_GEMINI_BASE_URL=" + p.model, "GEMINI_API_KEY=none", "GEMINI_CLI_HOME=" + p.home, "GEMINI_CLI_TRUST_WORKSPACE=true"}
	},
	prepare: func(p place) error {
		return writeFile(filepath.Join(p.home, ".gemini", "settings.json"), `{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
  "privacy": {"usageStatisticsEnabled": false}
}
`)
	},
	args: func(prompt string) []string { return []string{"-p", prompt, "--yolo", "-m", "gemini-2.5-pro"} },
	shell: func(_ turn, command string) toolCall {
		return toolCall{tool: tool{name: "run_shell_command"}, input: object{"command": command, "description": "a step of the script"}}
	},
	write: func(_ turn, file string) toolCall {
		return toolCall{tool: tool{name: "write_file"}, input: object{"file_path": file, "content": "written\n"}}
	},
	spawn: func(_ turn, prompt string) toolCall {
		return toolCall{tool: tool{name: "invoke_agent"}, input: object{"agent_name": "generalist", "prompt": prompt}}
	},
	cannot: map[string]string{subagents: "its hooks are not told which subagent calls a tool"},
	mcp:    func(name string) tool { return tool{name: "mcp_tasklock_" + name} },
}

// generate is the API of Gemini.
var generate = protocol{path: regexp.MustCompile(`:(streamG|g)enerateContent$`), read: readGemini, write: writeGemini}

func readGemini(body []byte) (q request, err error) {
	var in struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Role  string
			Parts []struct {
				Text             string
				FunctionResponse struct{ Response json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return q, err
	}
	for _, t := range in.Tools {
		for _, f := range t.FunctionDeclarations {
			q.tools = append(q.tools, tool{name: f.Name})
		}
	}
	for _, c := range in.Contents {
		if c.Role == "model" {
			q.results = nil
			continue
		}
		for _, p := range c.Parts {
			if p.FunctionResponse.Response != nil {
				q.results = append(q.results, string(p.FunctionResponse.Response))
			} else {
				q.prompts = append(q.prompts, p.Text)
			}
		}
	}
	return q, nil
}

func writeGemini(w http.ResponseWriter, r *http.Request, q request, a answer) {
	var parts []object
	for _, c := range a.calls {
		parts = append(parts, object{"functionCall": object{"id": callID(), "name": c.name, "args": c.input}})
	}
	if len(parts) == 0 {
		parts = []object{{"text": lastWord}}
	}
	out := object{
		"candidates":    []object{{"index": 0, "finishReason": "STOP", "content": object{"role": "model", "parts": parts}}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20},
		"modelVersion":  "scripted",
	}
	if strings.Contains(r.URL.Path, "stream") {
		startEvents(w).send("", out)
		return
	}
	reply(w, out)
}
