package harness

import (
	"strings"
	"testing"
)

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		harness, name, json  string
		what                 What
		session, sub, writes string
	}{
		{
			"claude", "PreToolUse", `{"session_id":"s1","transcript_path":"/t.jsonl","cwd":"/w","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"/w/src/a.go","old_string":"a","new_string":"b"},"tool_use_id":"toolu_1"}`,
			BeforeTool, "s1", "", "src/a.go",
		},
		{"claude", "PreToolUse", `{"session_id":"s1","agent_id":"a7","agent_type":"Explore","cwd":"/w","tool_name":"Write","tool_input":{"file_path":"/w/x","content":"…"}}`, BeforeTool, "s1", "a7", "x"},
		{"claude", "PreToolUse", `{"session_id":"s1","cwd":"/w","tool_name":"NotebookEdit","tool_input":{"notebook_path":"/w/n.ipynb"}}`, BeforeTool, "s1", "", "n.ipynb"},
		{"claude", "PreToolUse", `{"session_id":"s1","cwd":"/w/src","tool_name":"Bash","tool_input":{"command":"echo x > a.go","description":"d"}}`, BeforeTool, "s1", "", "src/a.go"},
		{"claude", "PreToolUse", `{"session_id":"s1","cwd":"/w","tool_name":"Read","tool_input":{"file_path":"/w/x"}}`, BeforeTool, "s1", "", ""},
		{"claude", "PreToolUse", `{"session_id":"s1","cwd":"/w","tool_name":"mcp__fs__move_file","tool_input":{"source":"x","destination":"y"}}`, BeforeTool, "s1", "", "x y"},
		{"claude", "PreToolUse", `{"session_id":"s1","cwd":"/w","tool_name":"mcp__fs__write_file","tool_input":{"path":"x"}}`, BeforeTool, "s1", "", "x"},
		{"claude", "PostToolUse", `{"session_id":"s1","tool_name":"Write","tool_input":{"file_path":"/w/x"}}`, AfterTool, "s1", "", ""},
		{"claude", "UserPromptSubmit", `{"session_id":"s1","prompt":"hi"}`, Other, "s1", "", ""},
		{"claude", "Stop", `{"session_id":"s1","stop_hook_active":false}`, Other, "s1", "", ""},
		{"claude", "SubagentStop", `{"session_id":"s1","agent_id":"a7"}`, AgentStop, "s1", "a7", ""},
		{
			"codex", "PreToolUse", `{"session_id":"t1","turn_id":"u","cwd":"/w","tool_name":"apply_patch","tool_input":{"command":"*** Begin Patch\n*** Add File: new.go\n+x\n*** Delete File: old.go\n*** End Patch"}}`,
			BeforeTool, "t1", "", "new.go old.go",
		},
		{"codex", "PreToolUse", `{"session_id":"t1","cwd":"/w","tool_name":"Bash","tool_input":{"command":["bash","-lc","rm x"]}}`, BeforeTool, "t1", "", "tree:x"},
		{"codex", "PreToolUse", `{"session_id":"t1","cwd":"/w","tool_name":"shell","tool_input":{"command":["rm","a b"],"workdir":"src"}}`, BeforeTool, "t1", "", "tree:src/a b"},
		{
			"gemini", "BeforeTool", `{"session_id":"g1","hook_event_name":"BeforeTool","cwd":"/w","timestamp":"2026-11-01T10:00:00Z","tool_name":"write_file","tool_input":{"file_path":"src/a.go","content":"x"}}`,
			BeforeTool, "g1", "", "src/a.go",
		},
		{"gemini", "BeforeTool", `{"session_id":"g1","cwd":"/w","tool_name":"run_shell_command","tool_input":{"command":"tee x","directory":"sub"}}`, BeforeTool, "g1", "", "sub/x"},
		{"gemini", "SessionEnd", `{"session_id":"g1","reason":"exit"}`, SessionEnd, "g1", "", ""},
		{
			"cursor", "beforeShellExecution", `{"conversation_id":"c1","generation_id":"g","hook_event_name":"beforeShellExecution","workspace_roots":["/w"],"command":"rm x","cwd":""}`,
			BeforeTool, "c1", "", "tree:x",
		},
		{"cursor", "preToolUse", `{"conversation_id":"c1","tool_name":"StrReplace","tool_input":{"path":"/w/x"},"cwd":"/w"}`, BeforeTool, "c1", "", "x"},
		{"cursor", "stop", `{"conversation_id":"c1","status":"completed"}`, Other, "c1", "", ""},
		{"claude", "PreToolUse", `{"session_id":7,"cwd":[1],"tool_name":{},"tool_input":"x"}`, BeforeTool, "", "", ""},
		{"claude", "PreToolUse", `{"session_id":"s","tool_name":"Bash","tool_input":{"command":{"a":1}}}`, BeforeTool, "s", "", ""},
		{"claude", "PreToolUse", `{}`, BeforeTool, "", "", ""},
	} {
		e, err := ParseEvent(c.harness, c.name, []byte(c.json))
		if err != nil {
			t.Errorf("%s: %v", c.json, err)
			continue
		}
		var writes []string
		for _, target := range e.Targets {
			path := strings.TrimPrefix(target.Path, "/w/")
			if target.Tree {
				path = "tree:" + path
			}
			writes = append(writes, path)
		}
		if e.What != c.what || e.Session != c.session || e.Agent != c.sub || strings.Join(writes, " ") != c.writes {
			t.Errorf("%s: %+v, writes %q", c.json, e, writes)
		}
	}
}

func TestEventsThatSayNothing(t *testing.T) {
	for _, data := range []string{"", " \n", "null", "[]", `"x"`, "{", `{"session_id":`, `{"tool_input":{"command":"\ud800"`, "\x00\xff", strings.Repeat(`{"a":`, 20_000)} {
		if e, err := ParseEvent("claude", "PreToolUse", []byte(data)); err == nil || e.What != BeforeTool || len(e.Targets) > 0 {
			t.Errorf("%.40q: %+v, %v", data, e, err)
		}
	}
	if _, err := ParseEvent("emacs", "PreToolUse", []byte("{}")); err == nil {
		t.Error("emacs has hooks")
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add("claude", "PreToolUse", []byte(`{"session_id":"s","tool_name":"Bash","tool_input":{"command":"rm x"}}`))
	f.Add("cursor", "preToolUse", []byte(`{"tool_name":"apply_patch","tool_input":{"command":["a"]}}`))
	f.Fuzz(func(t *testing.T, harness, name string, data []byte) {
		e, err := ParseEvent(harness, name, data)
		if err != nil && len(e.Targets) > 0 {
			t.Errorf("%+v, %v", e, err)
		}
	})
}
