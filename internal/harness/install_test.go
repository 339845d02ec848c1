package harness

import (
	"encoding/json"
	"strings"
	"testing"
)

// A file that was there and said nothing is there again; one that was made goes.
func TestInstallIntoNothing(t *testing.T) {
	for _, harness := range Installable() {
		files, _ := Setup{Harness: harness}.Files()
		for _, f := range files {
			before := []byte(f.blank())
			switch {
			case f.Former || f.whole != "":
				continue
			case f.entries == nil:
				before = []byte{}
			}
			if after, err := f.Remove(before); err != nil || after == nil || string(after) != string(before) {
				t.Errorf("%s: %q had nothing of ours, is %q: %v", f.Path, before, after, err)
			}
			for _, before := range [][]byte{nil, before} {
				once, err := f.Install(before)
				if err != nil {
					t.Fatal(err)
				}
				if twice, err := f.Install(once); err != nil || string(twice) != string(once) {
					t.Errorf("%s %q: again: %v\n%s", f.Path, before, err, twice)
				}
				if after, err := f.Remove(once); err != nil || (after == nil) != (before == nil) || string(after) != string(before) {
					t.Errorf("%s: was %q, is %q: %v", f.Path, before, after, err)
				}
			}
		}
	}
}

// Installed, everything that was there is there, and the same again changes
// nothing; removed, every byte is as it was.
func TestInstallAndRemove(t *testing.T) {
	texts := map[string][]string{
		".json": {
			"", "{}", "{}\n", "{ }", "{\n\n}\n", `{"a":1}`, "{\n\t\"a\": 1\n}\n",
			"{\n    \"permissions\": {\"allow\": [\"Bash(ls:*)\"]},\n    \"z\": [1, 2,3], \"a\": null\n}",
			`{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"mine"}]}]},"mcpServers":{"other":{"command":"x"}}}`,
			"{\n  \"version\": 1,\n  \"hooks\": {\n    \"preToolUse\": [\n      {\"command\": \"./x.sh\"}\n    ],\n    \"SessionStart\": [ {\"hooks\": []} ]\n  }\n}\n",
			"{\r\n  \"a\": \"\\\"}{\\\\\"\r\n}\r\n",
			"// mine\n{\n  \"a\": 1, // one\n  /* two, */ \"b\": [1, 2,],\n}\n",
			`{"hooks": {}, "mcpServers": {}, "mcp": {}}`, "{\n  \"hooks\": {\n  },\n  \"mcpServers\": {  }\n}", `{"hooks":{"PreToolUse":[],"SessionStart":[ ],"preToolUse":[], "BeforeTool":[]}}`,
			"{ // mine\n}", "{\n  \"a\": 1 // \"}\n  // last\n}\n", "{\"a\":1,}", "\ufeff{\"a\": 1}",
			"{\r\n\t\"hooks\": {\r\n\t\t\"PreToolUse\": [ // mine\r\n\t\t\t{\"hooks\": [{\"command\": \"mine\"}]}, // and this\r\n\t\t],\r\n\t}\r\n}",
			"  {\"hooks\": {\"Stop\": [ {\"hooks\": [ {\"type\": \"command\", \"command\": \"say\"} ] } ] } }  ",
		},
		".md": {"", "# Rules\n", "# Rules", "# Rules\n\n\n", "a\r\nb\r\n"},
		".toml": {
			"", "model = \"x\"\n", "[a]\nb = 1", "a = 1\r\n\r\n[b]\r\nc = 2\r\n", "# only a comment", "[mcp_servers]\n", "[mcp_servers.other]\ncommand = \"x\" # mine\n",
			"[mcp_servers.tasklock]\ncommand = \"/opt/tasklock\"\n", "[mcp_servers]\ntasklock = { command = \"x\" }\n", "mcp_servers.tasklock.command = \"x\"\n",
			"mcp_servers = { tasklock = { command = \"x\" } }",
		},
		".ts": {""},
		".js": {""},
	}
	for _, harness := range Installable() {
		files, err := Setup{Harness: harness}.Files()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			for _, before := range texts[f.Path[strings.LastIndexByte(f.Path, '.'):]] {
				var text []byte
				if before != "" {
					text = []byte(before)
				}
				once, err := f.Install(text)
				if err != nil {
					t.Errorf("%s %q: %v", f.Path, before, err)
					continue
				}
				if twice, err := f.Install(once); err != nil || string(twice) != string(once) {
					t.Errorf("%s %q: again: %v\n%s\n%s", f.Path, before, err, once, twice)
				}
				if strings.HasSuffix(f.Path, ".json") {
					keeps(t, f.Path, before, once)
				}
				if strings.Contains(before, "\r\n") && strings.Count(string(once), "\r\n") != strings.Count(string(once), "\n") {
					t.Errorf("%s: lines end in two ways:\n%q", f.Path, once)
				}
				after, err := f.Remove(once)
				if err != nil || string(after) != before {
					t.Errorf("%s: %v: was\n%q\nis\n%q\nwith ours\n%s", f.Path, err, before, after, once)
				}
				if again, err := f.Remove(after); err != nil || string(again) != string(after) {
					t.Errorf("%s: removed again: %q, %v", f.Path, again, err)
				}
			}
		}
	}
}

// keeps: the document is valid, and what was there says the same.
func keeps(t *testing.T, path, before string, after []byte) {
	t.Helper()
	var was, is map[string]json.RawMessage
	if err := json.Unmarshal(plainJSON(after), &is); err != nil {
		t.Errorf("%s %q: %v\n%s", path, before, err, after)
		return
	}
	if !strings.Contains(string(after), "tasklock") {
		t.Errorf("%s: nothing of ours in\n%s", path, after)
	}
	if before == "" {
		return
	}
	if err := json.Unmarshal(plainJSON([]byte(before)), &was); err != nil {
		t.Fatal(err)
	}
	for _, comment := range []string{"// mine", "1, // one", "/* two, */ \"b\"", "1 // \"}\n  // last", "]}, // and this"} {
		if strings.Contains(before, comment) && !strings.Contains(string(after), comment) {
			t.Errorf("%s: the comment %s has lost what it is about:\n%s", path, comment, after)
		}
	}
	for key, value := range was {
		if key != "hooks" && key != "mcpServers" && key != "mcp" && string(is[key]) != string(value) {
			t.Errorf("%s: %s was %s, is %s", path, key, value, is[key])
		}
	}
	for _, mine := range []string{`"mine"`, `"./x.sh"`, `"say"`, `"other"`} {
		if strings.Contains(before, mine) != strings.Contains(string(after), mine) {
			t.Errorf("%s: %s is lost in\n%s", path, mine, after)
		}
	}
}

// A table that is there twice keeps Codex from starting, and so does a file that cannot be read.
func TestCodexConfigCanAlwaysBeRead(t *testing.T) {
	ours := string(codexServer.block.install(nil))
	for before, want := range map[string]string{
		"[mcp_servers.tasklock]\ncommand = \"x\"\n":          "[mcp_servers.tasklock]\ncommand = \"x\"\n",
		"[mcp_servers.tasklock]\ncommand = \"x\"\n\n" + ours: "[mcp_servers.tasklock]\ncommand = \"x\"\n", // of an earlier version
		"a = 1\n\n" + ours: "a = 1\n\n" + ours,
		"mcp_servers = { other = { command = \"x\" } }\n": "",
		"mcp_servers = 7\n":               "",
		"[a\n":                            "",
		"[a]\nb = 1\n[a]\nc = 1\n":        "",
		"[[mcp_servers]]\nname = \"x\"\n": "",
		"[mcp_servers.\"tasklock\"]\nurl = \"https://x.example\"": "[mcp_servers.\"tasklock\"]\nurl = \"https://x.example\"",
	} {
		got, err := codexServer.install([]byte(before))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%q: %v: %q", before, err, got)
		}
	}
	if got, err := codexServer.remove([]byte("a = 1\n\n" + ours + "late = 2\n")); err == nil {
		t.Errorf("a key went to another table: %s", got)
	}
	if got, err := codexServer.remove([]byte("[mcp_servers.tasklock]\ncommand = \"x\"\n\n" + ours)); err != nil || string(got) != "[mcp_servers.tasklock]\ncommand = \"x\"\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// The paragraph stands where the harness reads.
func TestGuidanceIsWhereTheHarnessReads(t *testing.T) {
	for _, c := range []struct {
		harness string
		there   map[string]string
		want    string
	}{
		{"claude", nil, "AGENTS.md"},
		{"claude", map[string]string{"AGENTS.md": "x"}, "AGENTS.md"},
		{"claude", map[string]string{"AGENTS.md": "x", "CLAUDE.md": "y"}, "CLAUDE.md"},
		{"claude", map[string]string{"CLAUDE.md": ""}, "CLAUDE.md"},
		{"claude", map[string]string{".claude/CLAUDE.md": "y"}, ".claude/CLAUDE.md"},
		{"claude", map[string]string{"CLAUDE.md": "# Us\r\n\r\n@AGENTS.md\r\n"}, "AGENTS.md"},
		{"claude", map[string]string{"CLAUDE.md": "see `@AGENTS.md` and a@AGENTS.md"}, "CLAUDE.md"},
		{"gemini", map[string]string{"AGENTS.md": "x"}, "GEMINI.md"},
		{"gemini", map[string]string{"GEMINI.md": "@./AGENTS.md"}, "AGENTS.md"},
		{"gemini", map[string]string{".gemini/settings.json": "{ // x\n\"context\": {\"fileName\": [\"X.md\", \"AGENTS.md\"]}}"}, "AGENTS.md"},
		{"gemini", map[string]string{"~/.gemini/settings.json": `{"context": {"fileName": "NOTES.md"}}`}, "NOTES.md"},
		{"codex", map[string]string{"AGENTS.md": "x", "CLAUDE.md": "y"}, "AGENTS.md"},
		{"codex", map[string]string{"AGENTS.override.md": "x"}, "AGENTS.override.md"},
		{"cursor", map[string]string{"CLAUDE.md": "x"}, "AGENTS.md"},
		{"opencode", map[string]string{"CLAUDE.md": "x"}, "CLAUDE.md"},
		{"pi", map[string]string{"CLAUDE.md": "x", "AGENTS.md": "x"}, "AGENTS.md"},
	} {
		s := Setup{Harness: c.harness, Read: func(name string) []byte {
			if text, ok := c.there[name]; ok {
				return []byte(text)
			}
			return nil
		}}
		files, err := s.Files()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Guidance && !f.Former && f.Path != c.want {
				t.Errorf("%s with %q: %s, want %s", c.harness, c.there, f.Path, c.want)
			}
		}
	}
}

func TestInstallLeavesAloneWhatItCannotRead(t *testing.T) {
	for _, bad := range []string{"{", "[]", "null", "/* comment\n{}", `{"a":1,,}`, "{,}", "{//}", "x", `{"hooks":[]}`, `{"hooks":{"PreToolUse":{}}}`, `{"mcpServers":7}`} {
		for _, harness := range []string{"claude", "gemini"} {
			files, _ := Setup{Harness: harness}.Files()
			failed := false
			for _, f := range files {
				if strings.HasSuffix(f.Path, ".json") {
					_, err := f.Install([]byte(bad))
					failed = failed || err != nil
				}
			}
			if bad == `{"hooks":{"PreToolUse":{}}}` && harness == "gemini" {
				continue // another event there
			}
			if !failed {
				t.Errorf("%s: %s was accepted", harness, bad)
			}
		}
	}
	files, _ := Setup{Harness: "pi"}.Files()
	if _, err := files[0].Install([]byte("export default 1")); err == nil {
		t.Error("somebody's own extension was replaced")
	}
}

// An entry of an earlier version is replaced, one that was changed by hand stays.
func TestInstallReplacesItsOwn(t *testing.T) {
	files, _ := Setup{Harness: "claude"}.Files()
	old := `{"hooks":{"PreToolUse":[{"matcher":"Edit","hooks":[{"type":"command","command":"tasklock hook claude PreToolUse"}]}]}}`
	text, err := files[0].Install([]byte(old))
	if err != nil || strings.Count(string(text), "PreToolUse") != 2 || strings.Contains(string(text), `"Edit"`) {
		t.Errorf("%v\n%s", err, text)
	}
	twice := `{"hooks":{"SessionEnd":[{"hooks":[{"type":"command","command":"tasklock hook claude SessionEnd"}]},{"hooks":[{"command":"mine"}]},{"hooks":[{"type":"command","command":"tasklock","args":["hook","claude","SessionEnd"]}]}]}}`
	if text, err := files[0].Install([]byte(twice)); err != nil || strings.Count(string(text), "hook claude SessionEnd") != 1 || !strings.Contains(string(text), "mine") {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := files[0].Remove([]byte(twice)); err != nil || strings.Contains(string(text), "tasklock") || !strings.Contains(string(text), "mine") {
		t.Errorf("%v\n%s", err, text)
	}
	mine := `{"mcpServers":{"tasklock":{"command":"/opt/tasklock","args":["mcp"]}}}`
	if text, err := files[1].Install([]byte(mine)); err != nil || string(text) != mine {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := files[1].Remove([]byte(mine)); err != nil || string(text) != mine {
		t.Errorf("%v\n%s", err, text)
	}
}

// A mark whose other half was lost does not make ours of what follows it.
func TestInstallWithHalfABlock(t *testing.T) {
	files, err := Setup{Harness: "pi"}.Files()
	if err != nil {
		t.Fatal(err)
	}
	agents := files[1]
	for _, before := range []string{
		"# x\n<!-- tasklock:begin -->\nmine\n",
		"# x\n<!-- tasklock:end -->\nmine\n",
		"<!-- tasklock:end -->\nmine\n<!-- tasklock:begin -->\n",
	} {
		text, err := agents.Install([]byte(before))
		if err == nil {
			text, err = agents.Install(text)
		}
		if err != nil || strings.Count(string(text), agentsText) != 1 {
			t.Errorf("%q: %v: %s", before, err, text)
		}
		if text, err = agents.Remove(text); err != nil || string(text) != before {
			t.Errorf("%q: %v: removed: %q", before, err, text)
		}
	}
}

// A command of somebody's own that goes on after ours is not ours.
func TestInstallKeepsLongerCommands(t *testing.T) {
	own := `{"hooks":[{"type":"command","command":"tasklock hook claude Stop && say done"}]}`
	if mine, alone := oursIn([]byte(own)); alone || len(mine) > 0 {
		t.Error("taken for ours")
	}
}

// A harness puts a person's hook beside ours, into the same element: that is set
// up, and removed only ours goes.
func TestInstallBesideOthers(t *testing.T) {
	for _, strict := range []bool{false, true} {
		files, _ := Setup{Harness: "claude", Strict: strict}.Files()
		f := files[0]
		text, _ := f.Install(nil)
		at := strings.Index(string(text), `"timeout": 5`)
		at += strings.Index(string(text[at:]), "}") + 1
		mixed := string(text[:at]) + ",\n {\"command\": \"mine\"} // <mine>\n" + string(text[at:])
		mixed = strings.Replace(mixed, `"PostToolUse": [`, `"PostToolUse": [{"hooks": [{"command": "first"}]}, `, 1)
		if got, err := f.Install([]byte(mixed)); err != nil || string(got) != mixed {
			t.Errorf("%v: was\n%s\nis\n%s", err, mixed, got)
		}
		after, err := f.Remove([]byte(mixed))
		if err != nil || strings.Contains(string(after), "tasklock") || strings.Count(string(after), "mine") != 2 || strings.Count(string(after), "first") != 1 {
			t.Errorf("%v:\n%s", err, after)
		}
		if _, err := parseJSON(after); err != nil {
			t.Errorf("%v:\n%s", err, after)
		}
		other, _ := Setup{Harness: "claude", Strict: !strict}.Files()
		if got, err := other[0].Install([]byte(mixed)); err != nil || strings.Count(string(got), "tasklock hook claude SessionStart") != 1 || strings.Count(string(got), "tasklock hook claude PreToolUse") != 1 || strings.Count(string(got), "mine") != 2 {
			t.Errorf("%v:\n%s", err, got)
		}
	}
}

func TestTextsAreShort(t *testing.T) {
	for name, text := range map[string]string{"guide": Guide, "agents": agentsText} {
		if n := tokens(text); n > 400 {
			t.Errorf("%s has about %d tokens", name, n)
		}
	}
}

// tokens is a rough count that errs upwards: a token for each short word, more
// for long ones, one for each mark.
func tokens(text string) (n int) {
	for _, w := range strings.Fields(text) {
		letters := strings.Trim(w, ".,:;()`\"-")
		n += 1 + (len(letters)-1)/7
		n += strings.Count(w, ":") + strings.Count(w, "/")
	}
	return n
}

func FuzzInstall(f *testing.F) {
	f.Add([]byte(`{"hooks":{"PreToolUse":[]},"mcpServers":{}}`))
	f.Add([]byte("{ // c\n \"hooks\": {}, /* x */ \"mcpServers\": {\"a\": 1,},}"))
	f.Add([]byte("{\n \"a\" : [ {} , {\"b\":[]} ]\n}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		files, _ := Setup{Harness: "gemini"}.Files()
		once, err := files[0].Install(text)
		if err != nil {
			return
		}
		if !json.Valid(plainJSON(once)) {
			t.Fatalf("%q became %q", text, once)
		}
		after, err := files[0].Remove(once)
		if err != nil || after != nil && !json.Valid(plainJSON(after)) {
			t.Fatalf("%q became %q: %v", text, after, err)
		}
		if !strings.Contains(string(text), "tasklock") && len(strings.TrimSpace(string(text))) > 0 && string(text) != "{\n}\n" && string(after) != string(text) {
			t.Fatalf("%q was not put back: %q", text, after)
		}
	})
}
