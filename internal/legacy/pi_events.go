package legacy

import (
	"encoding/json"
	"slices"
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
		CreatedBy string     `json:"createdBy"`
		Message   string     `json:"message"`
		Summary   string     `json:"summary"`
		Evidence  piEvidence `json:"evidence"`
		Reason    string     `json:"reason"`
	} `json:"payload"`
}

// piSession reads the log of a session: the events make its tasks. An unreadable
// line may be a claim, so it counts as one.
func (s *Source) piSession(f *folder, name string) (out []piTask, err error) {
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
		if err := json.Unmarshal([]byte(line), &e); err == nil && e.TaskID != "" {
			at(e.TaskID).happen(e, n)
			continue
		}
		for _, piece := range pieces(line) {
			e := tornEvent(piece)
			if e.TaskID == "" {
				s.warning(name, "line %d cannot be read: %s", n, within(strings.TrimSpace(piece), 60))
				continue
			}
			at(e.TaskID).doubt("line %d cannot be read in full", n)
			if !e.ends() {
				at(e.TaskID).happen(e, n)
			}
		}
	}
	return out, nil
}

// pieces splits a line where an event begins: after a crash, a cut event has the
// next one on the same line.
func pieces(line string) (out []string) {
	const begin = `{"taskId"`
	for {
		i := strings.LastIndex(line, begin)
		if i <= 0 {
			break
		}
		line, out = line[:i], append(out, line[i:])
	}
	slices.Reverse(out)
	return append([]string{line}, out...)
}

// tornEvent is the readable part of an event. Without a type it is a claim.
func tornEvent(text string) (e piEvent) {
	if json.Unmarshal([]byte(text), &e) == nil && e.TaskID != "" {
		return e
	}
	fields := torn(text)
	e = piEvent{TaskID: fields["taskId"], Type: fields["type"], Agent: fields["agent"], Timestamp: fields["timestamp"]}
	if !slices.Contains(piEvents, e.Type) {
		e.Type = "claimed"
	}
	if e.Type == "created" {
		e.Payload.Title, e.Payload.Content = fields["title"], fields["content"]
	}
	return e
}

var piEvents = []string{"created", "claimed", "released", "progress", "completed", "blocked", "unblocked", "reset", "archived"}

// ends reports whether an event ends a claim. pi-messenger ignores an incomplete
// line, so the claim goes on.
func (e piEvent) ends() bool {
	return slices.Contains([]string{"released", "completed", "reset", "archived"}, e.Type)
}

// happen applies one event.
func (t *piTask) happen(e piEvent, line int) {
	p := e.Payload
	switch e.Type {
	case "created":
		if t.CreatedAt != "" && (t.Title != p.Title || t.content != p.Content) { // two agents used one number: the first task is lost there
			t.doubt("line %d: another task of this id replaces %q, which is not taken over", line, within(t.Title, 60))
		}
		t.Title, t.content, t.DependsOn, t.CreatedBy, t.CreatedAt = p.Title, p.Content, p.DependsOn, p.CreatedBy, e.Timestamp
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
