package legacy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

// sources are fixtures in each form that each system writes or wrote.
func sources(t *testing.T) map[string]func() (Source, error) {
	cat := map[string]string{}
	for i, f := range lockForms[:3] {
		cat[fmt.Sprintf(".claude/cat/locks/v%d-1.0-parse.lock", i)] = f.example
	}
	cat[".claude/cat/locks/bad.lock"] = "{"
	swarm, session := ".pi/messenger/swarm/", ".pi/messenger/tasks/"
	old := map[string]string{
		swarm + "tasks/task-1.json": `{"id":"task-1","title":"Parse","status":"done","depends_on":[],"summary":"s","evidence":{"commits":["c"]},"completed_by":"A"}`,
		swarm + "tasks/task-2.json": `{"id":"task-2","title":"Print","status":"in_progress","depends_on":["task-1"],"claimed_by":"SwiftRaven","claimed_at":"2026-03-01T11:00:00.000Z"}`,
		swarm + "tasks/task-3.json": `{"id":"task-3","title":"Torn","stat`,
		swarm + "locks/task-9.lock": fmt.Sprintf("12345@%d", now.UnixMilli()-1000),
	}
	events := map[string]string{session + "main.jsonl": strings.Join([]string{
		`{"taskId":"task-1","type":"created","timestamp":"2026-01-01T00:00:00.000Z","channel":"general","payload":{"title":"One"}}`,
		`{"taskId":"task-2","type":"created","timestamp":"2026-01-01T00:00:01.000Z","channel":"general","payload":{"title":"Two","dependsOn":["task-1"],"content":"text"}}`,
		`{"taskId":"task-1","type":"claimed","timestamp":"2026-01-01T00:01:00.000Z","channel":"general","agent":"A","payload":{}}`,
		`{"taskId":"task-3","type":"claim`,
	}, "\n"), session + "other.jsonl": `{"taskId":"task-1","type":"created","timestamp":"2026-01-01T00:00:00.000Z","payload":{"title":"Another"}}`}
	ai := AITasksFiles{
		Tasks: map[string][]byte{
			"aitasks/t5_now.md": []byte("---\nstatus: Implementing\ndepends: [4]\n---\ntext"), "aitasks/t6_next.md": []byte("---\nstatus: Ready\ndepends: [5]\n---\n"),
			"aitasks/archived/t4_old.md": []byte("old"),
		},
		Locks: map[string][]byte{"t5_lock.yaml": []byte(lockForms[3].example), "t4_lock.yaml": []byte("\xff")},
		IDs:   map[string][]byte{"next_id.txt": []byte("20")},
	}
	db := database(t, steroidsSchema+`
INSERT INTO sections VALUES ('s1', 'Backend', 2, 50, 0), ('s2', 'UI/Web', 1, 50, 0);
INSERT INTO section_dependencies VALUES ('d1', 's2', 's1');
INSERT INTO tasks VALUES ('a1', 'One', '', 'in_progress', 's1'), ('a2', 'Two', '', 'in_progress', 's2'), ('a3', 'Three', '', 'merge_pending', 's2');
INSERT INTO task_dependencies VALUES ('e1', 'a3', 'a1');
INSERT INTO task_locks VALUES ('a1', 'r1', '2026-03-01T11:30:00', '2026-03-01T12:30:00', ''), ('a2', 'r2', '2026-03-01T11:30:00', '2026-03-01T12:30:00', ''), ('a3', 'r1', 'x', 'y', '');
INSERT INTO section_locks VALUES ('s1', 'r1', '2026-03-01T11:30:00', '2026-03-01T12:30:00');`)
	percolate := files(map[string]string{"p.json": fmt.Sprintf(`{"schedules": [{"id": "1", "name": "a", "cron": "0 6 * * *"}, {"id": "2", "name": "b", "cron": "@daily"}],
 "settings": [{"key": "task_lock:a:1", "value": %q}]}`, lockForms[5].example)})
	return map[string]func() (Source, error){
		"CAT":          func() (Source, error) { return readCAT(files(cat), "project", now) },
		"pi, tasks":    func() (Source, error) { return readPi(files(old), now) },
		"pi, sessions": func() (Source, error) { return readPi(files(events), now) },
		"aitasks":      func() (Source, error) { return AITasks(ai, now) },
		"steroids":     func() (Source, error) { return Steroids(t.Context(), db, now) },
		"Percolate":    func() (Source, error) { return readPercolate(percolate, []string{"p.json"}, now) },
	}
}

var errKilled = errors.New("killed")

// mortal is a store whose user is killed at a commit: before it, or after it and
// before the answer.
type mortal struct {
	driver.Store
	left  int // commits before that
	after bool
	die   func()
}

func (m *mortal) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if m.left--; m.left > 0 {
		return m.Store.Commit(ctx, b)
	}
	if m.left == 0 && m.after {
		_, _ = m.Store.Commit(ctx, b)
	}
	m.die()
	return 0, errKilled
}

// A take-over that is killed at any of its commits and repeated has the same
// result as one that is not; in between nobody gets a task that is held there.
func TestAdoptKilled(t *testing.T) {
	for name, read := range sources(t) {
		t.Run(name, func(t *testing.T) {
			adopt := func(d driver.Store) (AdoptResult, error) {
				s, err := read()
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if m, ok := d.(*mortal); ok {
					m.die = cancel
				}
				return Adopt(ctx, store.New(d), AdoptRequest{Source: s, By: "me", From: "there", Now: now, Force: true})
			}
			whole := memstore.New()
			if out, err := adopt(whole); err != nil || len(out.LeftOut) > 0 || out.Locks == 0 {
				t.Fatalf("%+v, %v", out, err)
			}
			want := content(t, whole)
			kills := 0
			for _, after := range []bool{false, true} {
				for n := 1; ; n++ {
					d := memstore.New()
					if _, err := adopt(&mortal{Store: d, left: n, after: after}); err == nil {
						break
					}
					kills++
					notFree(t, d, read)
					if out, err := adopt(d); err != nil || len(out.LeftOut) > 0 {
						t.Fatalf("killed at commit %d, and repeated: %+v, %v", n, out, err)
					}
					if diff := cmp.Diff(want, content(t, d)); diff != "" {
						t.Fatalf("killed at commit %d (after: %v), and repeated: %s", n, after, diff)
					}
				}
			}
			if kills < 4 {
				t.Errorf("%d kills", kills)
			}
			if _, err := adopt(whole); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, content(t, whole)); diff != "" {
				t.Errorf("repeated: %s", diff)
			}
		})
	}
}

// notFree asks for every task that is there already and held in the source.
func notFree(t *testing.T, d driver.Store, read func() (Source, error)) {
	t.Helper()
	s, err := read()
	if err != nil {
		t.Fatal(err)
	}
	there := content(t, d)
	for _, l := range s.Locks {
		if there["task/"+l.Key]+there["archive/"+l.Key] == "" {
			continue
		}
		_, err := lease.Acquire(t.Context(), store.New(d), lease.AcquireRequest{Keys: []string{l.Key}, Owner: "stranger", DryRun: true})
		var held *lease.HeldError
		if !errors.As(err, &held) || held.Owner != l.Owner {
			t.Errorf("%s is on the list, and not held by %s: %v", l.Key, l.Owner, err)
		}
	}
}

var (
	clockTime = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"|\d{8}T[0-9.]+Z`)
	chance    = regexp.MustCompile(`"call":"[a-z0-9]+",?`)
)

// content is what a store holds, without its history and the present time.
func content(t *testing.T, d driver.Store) map[string]string {
	t.Helper()
	snap, err := d.Read(t.Context(), driver.Query{Ranges: []driver.Range{
		{Prefix: "task/"}, {Prefix: "archive/"}, {Prefix: "section/"}, {Prefix: "ready/"}, {Prefix: "open/"}, {Prefix: "counter/"}, {Prefix: "name/"},
		{Prefix: "lock/"}, {Prefix: "lease/"}, {Prefix: "job/"}, {Prefix: "text/"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	recent := func(text string) string {
		at := strings.Trim(text, `"`)
		for _, layout := range []string{time.RFC3339Nano, "20060102T150405.000000000Z"} {
			if when, err := time.Parse(layout, at); err == nil && time.Since(when).Abs() < 24*time.Hour {
				return "now"
			}
		}
		return text
	}
	out := map[string]string{}
	for _, rec := range snap.Records {
		value := chance.ReplaceAllString(string(rec.Value), "")
		out[clockTime.ReplaceAllStringFunc(rec.Key, recent)] = clockTime.ReplaceAllStringFunc(value, recent)
	}
	return out
}
