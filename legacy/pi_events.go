package legacy

import (
	"encoding/json"
	"strings"
)

// piEvent is a line in the log of a session.
type piEvent struct {
	TaskID    string `json:"taskId"`
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	Agent     string `json:"agent"`
	Payload   struct {
		Title     string     `json:"title"`
		Content   string     `json:"content"`
		DependsOn []string   `json:"dependsOn"`
		Message   string     `json:"message"`
		Summary   string     `json:"summary"`
		Evidence  piEvidence `json:"evidence"`
		Reason    string     `json:"reason"`
	} `json:"payload"`
}

// piSession reads the log of a session: its tasks are what the events made of
// them. A line that cannot be read may be a claim, so it counts as one.
func (s *Source) piSession(f folder, name string) (out []piTask, err error) {
	text, err := f.readUpTo(name, maxLog)
	if err != nil {
		return nil, err
	}
	index := map[string]int{}
	at := func(id string) *piTask {
		if _, there := index[id]; !there {
			index[id] = len(out)
			out = append(out, piTask{ID: id, Status: "todo", where: name})
		}
		return &out[index[id]]
	}
	n := 0
	for line := range strings.Lines(text) {
		if n++; strings.TrimSpace(line) == "" {
			continue
		}
		var e piEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.TaskID == "" {
			fields := torn(line)
			if e.TaskID == "" {
				e.TaskID = fields["taskId"]
			}
			if e.TaskID == "" {
				s.warning(name, "line %d cannot be read: %s", n, within(strings.TrimSpace(line), 60))
				continue
			}
			at(e.TaskID).doubt("line %d cannot be read in full", n)
			if e.Type, e.Agent = fields["type"], fields["agent"]; e.Type == "" {
				e.Type = "claimed"
			}
			e.Timestamp = fields["timestamp"]
		}
		at(e.TaskID).happen(e, n)
	}
	return out, nil
}

// happen applies one event.
func (t *piTask) happen(e piEvent, line int) {
	p := e.Payload
	switch e.Type {
	case "created":
		t.Title, t.content, t.DependsOn, t.CreatedAt = p.Title, p.Content, p.DependsOn, e.Timestamp
	case "claimed":
		if t.Status = "in_progress"; !t.claimed || e.Agent != "" {
			t.claimed, t.ClaimedBy, t.ClaimedAt = true, e.Agent, e.Timestamp
		}
	case "released", "reset":
		t.Status, t.claimed, t.ClaimedBy, t.ClaimedAt = "todo", false, "", ""
		if e.Type == "reset" {
			t.BlockedReason, t.Summary, t.Evidence, t.CompletedBy, t.CompletedAt = "", "", piEvidence{}, "", ""
		}
	case "progress":
		t.ProgressLog = append(t.ProgressLog, piNote{e.Timestamp, e.Agent, p.Message})
	case "completed":
		t.Status, t.Summary, t.Evidence, t.CompletedBy, t.CompletedAt = "done", p.Summary, p.Evidence, e.Agent, e.Timestamp
	case "blocked":
		t.Status, t.BlockedReason = "blocked", p.Reason
	case "unblocked":
		if t.Status, t.BlockedReason = "todo", ""; t.claimed {
			t.Status = "in_progress"
		}
	case "archived":
		t.Status = "archived"
	default:
		t.doubt("line %d: event %q is not known", line, within(e.Type, 40))
	}
}
