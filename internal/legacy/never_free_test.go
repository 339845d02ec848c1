package legacy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
)

// A lockForm is one form of lock file that another system writes.
type lockForm struct {
	name    string
	example string
	read    func(text string) (Source, error)
	key     string
	over    func(text string) bool // it says itself, as a whole, that its time is over
}

var lockForms = []lockForm{
	{"CAT with heartbeat", fmt.Sprintf("session_id=a\ncreated_at=%d\nheartbeat=%d\nworktree=/w=1\ncreated_iso=2026-03-01T11:00:00Z\n", ago(time.Hour), ago(time.Minute)), inCAT, "v1-1.0-parse", catOver},
	{"CAT without heartbeat", fmt.Sprintf("session_id=a\ncreated_at=%d\nworktree=/w\ncreated_iso=2026-03-01T11:00:00Z\n", ago(time.Hour)), inCAT, "v1-1.0-parse", catOver},
	{"CAT in JSON", fmt.Sprintf(`{"session_id": "a", "created_at": %d, "worktree": "/w", "created_iso": "2026-03-01T11:00:00Z"}`, ago(time.Hour)), inCAT, "v1-1.0-parse", catOver},
	{"aitasks", "task_id: 7\nlocked_by: me@example.com\nlocked_at: 2026-02-13 14:30\nhostname: pc\npid: -\npid_starttime: -\npid_starttime_kind: none\n", func(text string) (Source, error) {
		return AITasks(AITasksFiles{Locks: map[string][]byte{"t7_lock.yaml": []byte(text)}}, now)
	}, "t7", never},
	{"pi", fmt.Sprintf("12345@%d", now.UnixMilli()-1000), func(text string) (Source, error) {
		return readPi(files(map[string]string{".pi/messenger/swarm/locks/task-1.lock": text}), now)
	}, "task-1", func(text string) bool {
		return regexp.MustCompile(`^\s*\d+\s*@\s*\d{13,}\.?\d*\s*$`).MatchString(text)
	}},
	{"Percolate", fmt.Sprintf(`{"process_id": "pod1-12345-a1b2c3", "acquired_at": %d.5, "expires_at": %d.5}`, ago(time.Minute), ago(-4*time.Minute)), func(text string) (Source, error) {
		row, err := json.Marshal([]map[string]string{{"key": "task_lock:digest:abc", "value": text}})
		if err != nil {
			return Source{}, err
		}
		return readPercolate(files(map[string]string{"locks.json": string(row)}), []string{"locks.json"}, now)
	}, "job:digest", func(text string) bool {
		return json.Valid([]byte(text)) && (strings.Contains(text, "expires_at") || strings.Contains(text, "released_at"))
	}},
}

func inCAT(text string) (Source, error) {
	return readCAT(files(map[string]string{".claude/cat/locks/v1-1.0-parse.lock": text}), "project", now)
}

func never(string) bool { return false }

// catOver finds a heartbeat that is a whole number of seconds, and the only one.
func catOver(text string) bool {
	return strings.Count(text, "heartbeat") == 1 && strings.Contains(text, "session_id") && regexp.MustCompile(`heartbeat\W+\d{10}`).MatchString(text)
}

// held imports a file and asks for its key as a stranger would.
func (f lockForm) held(t *testing.T, text string) {
	t.Helper()
	s, err := f.read(text)
	if err != nil {
		t.Fatalf("%s: %q: %v", f.name, text, err) // one file never spoils the rest
	}
	if s.Expired > 0 {
		if !f.over(text) {
			t.Errorf("%s: %q counts as over", f.name, text)
		}
		return
	}
	st := store.New(memstore.New())
	out, err := Adopt(t.Context(), st, AdoptRequest{Source: s, By: "me", Now: now, Force: true})
	if err != nil || len(out.LeftOut) > 0 {
		t.Fatalf("%s: %q: %+v, %v", f.name, text, out, err)
	}
	_, err = lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{f.key}, Owner: "a stranger"})
	got, is := err.(*lease.HeldError)
	if !is {
		t.Fatalf("%s: %q: a stranger gets the lock: %v", f.name, text, err)
	}
	if unknown := strings.HasPrefix(got.Owner, "unknown:"); unknown && len(out.Changed) == 0 {
		t.Errorf("%s: %q: held by %s without a warning", f.name, text, got.Owner)
	}
}

// Whatever bytes stand in a lock file, the lock is taken over, taken over with a
// warning, or held by unknown:<file>. It is never free.
func TestNeverFree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range lockForms {
		f.held(t, f.example)
		for _, text := range []string{"", "\x00", "\xff\xfe", "{", "{}", "null", "[]", "-", "@", "1@", "=", ":", "session_id=\n", strings.Repeat("x", maxFile+1)} {
			f.held(t, text)
		}
		for i := range len(f.example) {
			f.held(t, f.example[:i])
		}
		for range 200 {
			text := []byte(f.example)
			for range 1 + r.IntN(4) {
				switch i := r.IntN(len(text)); r.IntN(3) {
				case 0:
					text[i] = byte(r.IntN(256))
				case 1:
					text = append(text[:i], text[i+1:]...)
				default:
					text = append(text[:i:i], append([]byte{"\n\"={}:@-/0\x00\xff"[r.IntN(12)]}, text[i:]...)...)
				}
			}
			f.held(t, string(text))
		}
	}
}

func FuzzNeverFree(f *testing.F) {
	for i, form := range lockForms {
		f.Add(uint8(i), form.example)
	}
	f.Fuzz(func(t *testing.T, i uint8, text string) {
		lockForms[int(i)%len(lockForms)].held(t, text)
	})
}

// Whatever part of a log of pi is damaged: who holds a task by the lines that
// are whole, as pi reads it, holds it here.
func TestNeverFreeInALog(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	kinds := []string{"claimed", "released", "progress", "completed", "blocked", "unblocked", "reset", "archived", "claimed", "claimed"}
	for round := range 300 {
		var log []string
		for i := range 4 {
			log = append(log, fmt.Sprintf(`{"taskId":"task-%d","type":"created","timestamp":"2026-03-01T10:00:00.000Z","payload":{"title":"T"}}`, i))
		}
		for range 12 {
			log = append(log, fmt.Sprintf(`{"taskId":"task-%d","type":%q,"timestamp":"2026-03-01T11:00:00.000Z","agent":"A%d","payload":{}}`, r.IntN(4), kinds[r.IntN(len(kinds))], r.IntN(3)))
		}
		text := []byte(strings.Join(log, "\n") + "\n")
		for range r.IntN(4) {
			from := r.IntN(len(text))
			text = append(text[:from], text[min(len(text), from+r.IntN(80)):]...)
		}
		s, err := readPi(files(map[string]string{".pi/messenger/tasks/s.jsonl": string(text)}), now)
		if err != nil {
			t.Fatal(err)
		}
		holds := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			var e piEvent
			if json.Unmarshal([]byte(line), &e) != nil {
				continue
			}
			switch e.Type {
			case "claimed":
				holds[e.TaskID] = true
			case "released", "reset", "completed", "archived":
				delete(holds, e.TaskID)
			}
		}
		for id := range holds {
			if !s.locks[id] {
				t.Fatalf("%d: %s is free:\n%s", round, id, text)
			}
		}
	}
}
