package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded are the events that real harnesses gave their hooks, as "make harnesses"
// records them (-record), one of each kind: HARNESS/EVENT[-TOOL][-writes][-subagent].json.
const recorded = "testdata/events"

// Every event that a real harness sends is understood: who, where, and what it
// would write.
func TestRecordedEvents(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(recorded, "*", "*.json"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d events are recorded: %v", len(files), err)
	}
	for _, file := range files {
		harness := filepath.Base(filepath.Dir(file))
		kind := strings.TrimSuffix(filepath.Base(file), ".json")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(kind, "-")
		e, err := ParseEvent(harness, name, data)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if e.What != Meaning(harness, name) || !strings.HasPrefix(e.Session, "session-") || e.Dir != "/repo" {
			t.Errorf("%s: %+v", file, e)
		}
		if strings.HasSuffix(kind, "-subagent") != strings.HasPrefix(e.Agent, "agent-") {
			t.Errorf("%s: agent %q", file, e.Agent)
		}
		edits := strings.Contains(kind, "-writes") || strings.Contains(strings.ToLower(kind), "-write") || strings.Contains(kind, "apply_patch")
		if edits = edits && e.What == BeforeTool; !edits {
			if len(e.Targets) > 0 {
				t.Errorf("%s: writes %+v", file, e.Targets)
			}
			continue
		}
		if len(e.Targets) != 1 || !strings.HasPrefix(filepath.ToSlash(e.Targets[0].Path), "/repo/src/") {
			t.Errorf("%s: writes %+v", file, e.Targets)
		}
	}
}

// What a harness was seen to send has a meaning here, and what has one was seen,
// of the harnesses that can be driven.
func TestRecordedEventsAreAll(t *testing.T) {
	for _, harness := range []string{"claude", "codex", "gemini", "pi", "opencode"} {
		for name, what := range hookNames[harness] {
			if (harness == "pi") && (what == AgentStart || what == AgentStop) {
				continue // it has no subagents
			}
			if files, _ := filepath.Glob(filepath.Join(recorded, harness, name+"*.json")); len(files) == 0 {
				t.Errorf("%s: no %s is recorded", harness, name)
			}
		}
	}
}
