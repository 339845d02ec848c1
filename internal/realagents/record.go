package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// record keeps one event of each kind that the hooks of a run were given, without
// what differs from one run to the next: the tests of package harness read them.
func record(st *stage, dir string) error {
	dir = filepath.Join(dir, st.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(st.root, "events", "*.json"))
	if err != nil {
		return err
	}
	slices.Sort(files) // by time
	s := scrubber{stage: st, ids: map[string]string{}}
	done := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var e map[string]any
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		name := kind(strings.Split(filepath.Base(file), ".")[1], e) + ".json"
		s.learn(e)
		if done[name] {
			continue
		}
		done[name] = true
		if err := os.WriteFile(filepath.Join(dir, name), s.scrub(data), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// kind names what is alike: the event, its tool, whether a shell command writes, and
// whether a subagent is at work.
func kind(event string, e map[string]any) string {
	parts := []string{event}
	if tool, _ := e["tool_name"].(string); tool != "" {
		parts = append(parts, tool)
	}
	input, _ := e["tool_input"].(map[string]any)
	if command, _ := input["command"].(string); strings.Contains(command, ">src") {
		parts = append(parts, "writes")
	}
	if agent, _ := e["agent_id"].(string); agent != "" {
		parts = append(parts, "subagent")
	}
	return strings.Join(parts, "-")
}

// A scrubber replaces what belongs to one run.
type scrubber struct {
	*stage
	ids   map[string]string
	order []string
}

var (
	idKeys = []string{"session_id", "agent_id", "prompt_id", "turn_id", "tool_use_id", "tool_call_id", "call_id"}
	moving = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	paths  = regexp.MustCompile(`("(?:agent_)?transcript_path": ?)"[^"]*"`)
	groups = regexp.MustCompile(`PGID: \d+`)
	hexID  = regexp.MustCompile(`\b[0-9a-f]{16,17}\b`)
	longID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// learn gives the ids of an event names that are the same in every run.
func (s *scrubber) learn(e map[string]any) {
	for _, key := range idKeys {
		id, _ := e[key].(string)
		if id == "" || s.ids[id] != "" {
			continue
		}
		n := 1
		for _, name := range s.ids {
			if strings.HasPrefix(name, strings.TrimSuffix(key, "_id")+"-") {
				n++
			}
		}
		s.ids[id] = fmt.Sprintf("%s-%d", strings.TrimSuffix(key, "_id"), n)
		s.order = append(s.order, id)
	}
}

func (s *scrubber) scrub(data []byte) []byte {
	text := string(data)
	for path, name := range map[string]string{s.repo: "/repo", s.home: "/home/person"} {
		text = strings.ReplaceAll(text, path, name)
		text = strings.ReplaceAll(text, strings.NewReplacer("/", "-", ".", "-").Replace(path), strings.ReplaceAll(name, "/", "-"))
	}
	text = strings.ReplaceAll(text, s.root, "/run")
	slices.SortFunc(s.order, func(a, b string) int { return len(b) - len(a) })
	for _, id := range s.order {
		text = strings.ReplaceAll(text, id, s.ids[id])
	}
	text = moving.ReplaceAllString(text, "2026-11-01T10:00:00Z")
	text = paths.ReplaceAllString(text, `$1"/home/person/transcript.jsonl"`)
	text = groups.ReplaceAllString(text, "PGID: 1")
	text = hexID.ReplaceAllString(text, "0000000000000000")
	text = longID.ReplaceAllString(text, "00000000-0000-0000-0000-000000000000")
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return []byte(text)
	}
	return append(bytes.TrimSpace(b.Bytes()), '\n')
}
