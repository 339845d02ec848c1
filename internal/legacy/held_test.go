package legacy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

// What somebody may work on in another system is held here.
func TestHeld(t *testing.T) {
	ai := func(tasks, locks map[string]string) (Source, error) {
		f := AITasksFiles{Tasks: map[string][]byte{}, Locks: map[string][]byte{}}
		for name, text := range tasks {
			f.Tasks["aitasks/"+name] = []byte(text)
		}
		for name, text := range locks {
			f.Locks[name] = []byte(text)
		}
		return AITasks(f, now)
	}
	const lock50 = "task_id: 50\nlocked_by: me\nlocked_at: 2026-02-13 14:30\n"
	percolate := func(value string) (Source, error) {
		row := fmt.Sprintf(`[{"key": "task_lock:digest:abc", "value": %s}]`, value)
		return readPercolate(files(map[string]string{"locks.json": row}), []string{"locks.json"}, now)
	}
	steroids := func(rows string) (Source, error) {
		return Steroids(t.Context(), database(t, steroidsSchema+rows), now)
	}
	for _, c := range []struct {
		name string
		read func() (Source, error)
		held string
	}{
		{"a folder", func() (Source, error) {
			return ai(nil, map[string]string{"t7_lock.yaml/x": "", "t7_lock.yaml/y": ""})
		}, "t7 unknown:t7_lock.yaml"},
		{"a name that begins with a number", func() (Source, error) {
			return ai(map[string]string{"t50_2024_report.md": "---\nstatus: Ready\n---\n"}, map[string]string{"t50_lock.yaml": lock50})
		}, "t50 me"},
		{"a lock on t7, which is called tt7 there", func() (Source, error) {
			return ai(nil, map[string]string{"tt7_lock.yaml": "task_id: t7\nlocked_by: me\nlocked_at: 2026-02-13 14:30\n"})
		}, "t7 me"},
		{"a merge that went wrong", func() (Source, error) {
			return ai(map[string]string{"t61_x.md": "---\n<<<<<<< a\nstatus: Ready\n=======\nstatus: Implementing\n>>>>>>> b\nassigned_to: bob\ndepends: [16]\n---\n"}, nil)
		}, "t61 bob"},
		{"Percolate, never released", func() (Source, error) {
			return percolate(fmt.Sprintf(`{"process_id": "p", "acquired_at": %d, "expires_at": %d, "released_at": 0}`, ago(time.Minute), ago(-time.Minute)))
		}, "job:digest p"},
		{"Percolate, taken again", func() (Source, error) {
			return percolate(fmt.Sprintf(`{"process_id": "p", "acquired_at": %d, "expires_at": %d, "released_at": %d}`, ago(time.Minute), ago(-time.Minute), ago(time.Hour)))
		}, "job:digest p"},
		{"steroids, local time of elsewhere", func() (Source, error) {
			return steroids(`INSERT INTO task_locks VALUES ('a1', 'r', '2026-03-01 06:00:00', '2026-03-01 07:59:00', '2026-03-01 11:59:00');`)
		}, "a1 r"},
		{"steroids, a section whose letters are written in two parts", func() (Source, error) {
			return steroids("INSERT INTO sections VALUES ('s1', 'Cafe\u0301', 1, 50, 0);" + `INSERT INTO tasks VALUES ('a1', 'T', '', 'in_progress', 's1');
				INSERT INTO task_locks VALUES ('a1', 'r', '2026-03-01 11:30:00', '2026-03-01 12:59:00', '');`)
		}, "a1 r,section:Caf\u00e9 r"},
		{"steroids, ids of bytes", func() (Source, error) {
			return steroids(`INSERT INTO tasks VALUES (x'ff01', 'T', '', 'pending', NULL);
				INSERT INTO task_locks VALUES (x'ff01', 'r', '2026-03-01 11:30:00', '2026-03-01 12:59:00', '');`)
		}, "ff01 r"},
		{"pi, one lock file for the tasks of two channels", func() (Source, error) {
			todo := func(id string) string { return fmt.Sprintf(`{"id": %q, "title": "T", "status": "todo"}`, id) }
			return readPi(files(map[string]string{
				".pi/messenger/swarm/tasks/a/task-1.json": todo("task-1"), ".pi/messenger/swarm/tasks/b/task-1.json": todo("task-1"),
				".pi/messenger/swarm/locks/task-1.lock": fmt.Sprintf("12@%d", now.UnixMilli()-1000),
			}), now)
		}, "task-1 pid-12,a/task-1 pid-12,b/task-1 pid-12"},
	} {
		s, err := c.read()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		st := store.New(memstore.New())
		if out, err := Adopt(t.Context(), st, AdoptRequest{Source: s, By: "me", Now: now, Force: true}); err != nil || len(out.LeftOut) > 0 {
			t.Errorf("%s: %+v, %v", c.name, out, err)
		}
		for _, want := range strings.Split(c.held, ",") {
			key, owner, _ := strings.Cut(want, " ")
			_, err = lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{key}, Owner: "a stranger"})
			var held *lease.HeldError
			if !errors.As(err, &held) || held.Owner != owner {
				t.Errorf("%s: %s: %v, want it held by %s", c.name, key, err, owner)
			}
		}
	}
}

// Two tasks of aitasks may have one id. The second is named, and who works on it
// holds that id.
func TestHeldByTheSecond(t *testing.T) {
	s, err := AITasks(AITasksFiles{Locks: map[string][]byte{}, Tasks: map[string][]byte{
		"aitasks/t7_a.md": []byte("---\nstatus: Ready\n---\n"), "aitasks/t7_b.md": []byte("---\nstatus: Implementing\nassigned_to: bob\n---\n"),
		"aitasks/t8_a.md": []byte("---\nstatus: Ready\n---\n"), "aitasks/archived/t8_b.md": []byte("---\nstatus: Implementing\n---\n"),
	}}, now)
	if err != nil || len(s.Problems) != 2 || len(s.Locks) != 1 || s.Locks[0].Key != "t7" || s.Locks[0].Owner != "bob" {
		t.Errorf("%+v, %v", s, err)
	}
}

// A schedule is not there already because another has its name and its times.
func TestAnotherSchedule(t *testing.T) {
	st := store.New(memstore.New())
	for i, id := range []string{"a", "a", "b"} {
		s := Source{Jobs: []Job{{Name: "digest", Cron: "0 3 * * *", ID: id, where: "s.json, row 1"}}}
		out, err := Adopt(t.Context(), st, AdoptRequest{Source: s, By: "me", Now: now})
		if got := []int{out.Jobs, out.Already, len(out.LeftOut)}; err != nil || got[i] != 1 {
			t.Errorf("%s: %+v, %v", id, out, err)
		}
	}
}

// In the hour that comes twice a lock is over after the second one.
func TestHeldWhenClocksAreSetBack(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Skip(err)
	}
	path := database(t, steroidsSchema+`INSERT INTO task_locks VALUES ('a1', 'r', '2026-11-01 04:50:00', '2026-11-01T01:50:00', '2026-11-01 04:50:00');`)
	for at, held := range map[string]int{"2026-11-01T05:10:00Z": 1, "2026-11-01T06:10:00Z": 1, "2026-11-01T06:51:00Z": 0} {
		now, _ := time.Parse(time.RFC3339, at)
		if s, err := Steroids(t.Context(), path, now.In(zone)); err != nil || len(s.Locks) != held {
			t.Errorf("%s: %+v, %v", at, s, err)
		}
	}
}

// A clone of a repository of aitasks does not have the branch with the locks.
func TestLocksThatAreNotThere(t *testing.T) {
	f := AITasksFiles{Tasks: map[string][]byte{"aitasks/t7_x.md": []byte("---\nstatus: Ready\n---\n")}}
	for _, want := range []int{1, 0} {
		if s, err := AITasks(f, now); err != nil || len(s.Warnings) != want {
			t.Errorf("%+v, %v, want %d warnings", s, err, want)
		}
		f.Locks = map[string][]byte{} // nobody holds one
	}
}

// Two agents of pi that make a task at the same time give it the same id.
func TestTwoTasksOfOneID(t *testing.T) {
	made := func(title string) string {
		return fmt.Sprintf(`{"taskId":"task-1","type":"created","timestamp":"2026-03-01T10:00:00.000Z","payload":{"title":%q}}`+"\n", title)
	}
	s, err := readPi(files(map[string]string{".pi/messenger/tasks/s.jsonl": made("One") + made("Two")}), now)
	if err != nil || len(s.Tasks) != 1 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].Why, `"One"`) {
		t.Errorf("%+v, %v", s, err)
	}
}

// A task that was taken over before is held under the name it got then, though
// another session has one of that id now.
func TestHeldUnderTheNameItGot(t *testing.T) {
	st := store.New(memstore.New())
	event := func(kind, title string) string {
		return fmt.Sprintf(`{"taskId":"task-1","type":%q,"timestamp":"2026-03-01T10:00:00.000Z","agent":"A","payload":{"title":%q}}`+"\n", kind, title)
	}
	logs := map[string]string{".pi/messenger/tasks/s1.jsonl": event("created", "One")}
	for range 3 {
		s, err := readPi(files(logs), now)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := Adopt(t.Context(), st, AdoptRequest{Source: s, By: "me", Now: now, Force: true}); err != nil || len(out.LeftOut) > 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		logs[".pi/messenger/tasks/s1.jsonl"] = event("created", "One") + event("claimed", "")
		logs[".pi/messenger/tasks/s2.jsonl"] = event("created", "Two")
	}
	_, err := lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{"task-1"}, Owner: "a stranger"})
	if held := (*lease.HeldError)(nil); !errors.As(err, &held) || held.Owner != "A" {
		t.Error(err)
	}
	if _, err := task.Show(t.Context(), st, "s1/task-1"); err == nil {
		t.Error("the task is there twice")
	}
	if _, err := task.Show(t.Context(), st, "s2/task-1"); err != nil {
		t.Error(err)
	}
}

// A released lock is over, whatever its expiry says.
func TestPercolateReleased(t *testing.T) {
	for _, value := range []string{`{"process_id": "p", "released_at": %d, "expires_at": 0}`, `{"process_id": "p", "acquired_at": 1772366000, "released_at": %d.5}`} {
		row := fmt.Sprintf(`[{"key": "task_lock:digest:abc", "value": `+value+`}]`, ago(time.Minute))
		s, err := readPercolate(files(map[string]string{"l.json": row}), []string{"l.json"}, now)
		if err != nil || s.Expired != 1 {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// A task that is there already under the other name of a lock of CAT is held.
func TestHeldUnderItsOtherName(t *testing.T) {
	st := store.New(memstore.New())
	if _, err := task.Add(t.Context(), st, task.AddRequest{Tasks: []task.New{{ID: "v1/1.0-parse", Title: "Parse"}}, By: "me"}); err != nil {
		t.Fatal(err)
	}
	s, err := inCAT(fmt.Sprintf("session_id=a\ncreated_at=%d\n", ago(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out, err := Adopt(t.Context(), st, AdoptRequest{Source: s, By: "me", Now: now, Force: true})
		if err != nil || out.Locks != 1 || len(out.LeftOut)+len(out.Changed) > 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		for _, key := range []string{"v1/1.0-parse", "v1-1.0-parse"} {
			_, err = lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{key}, Owner: "a stranger"})
			if held := (*lease.HeldError)(nil); !errors.As(err, &held) || held.Owner != "a" {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}

// Where somebody here holds that name, it is named, and the name there is held too.
func TestHeldByAnotherUnderItsOtherName(t *testing.T) {
	st := store.New(memstore.New())
	if _, err := lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{"v1/1.0-parse"}, Owner: "z"}); err != nil {
		t.Fatal(err)
	}
	s, err := inCAT(fmt.Sprintf("session_id=a\ncreated_at=%d\n", ago(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	out, err := Adopt(t.Context(), st, AdoptRequest{Source: s, By: "me", Now: now, Force: true})
	if err != nil || out.Locks != 1 || len(out.LeftOut) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	for key, owner := range map[string]string{"v1/1.0-parse": "z", "v1-1.0-parse": "a"} {
		_, err = lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{key}, Owner: "a stranger"})
		if held := (*lease.HeldError)(nil); !errors.As(err, &held) || held.Owner != owner {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// What differs from there is named, and a dry run names the same.
func TestNamed(t *testing.T) {
	st := store.New(memstore.New())
	for _, name := range []string{"Core", "Web"} {
		if _, err := task.SetSection(t.Context(), st, task.SectionRequest{Name: name, New: true, By: "me"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := task.Add(t.Context(), st, task.AddRequest{Tasks: []task.New{{ID: "t9", Title: "Ours"}}, By: "me"}); err != nil {
		t.Fatal(err)
	}
	src := Source{
		Sections: []Section{{Name: "Core", Skipped: true}, {Name: "Web", DependsOn: []string{"Core"}}, {Name: "New"}},
		Jobs:     []Job{{Name: "nightly", Cron: "0 3 * * *", Spec: strings.Repeat("x", 20<<10), where: "s.json, row 1"}},
	}
	for _, x := range []task.New{{ID: "a", Section: "New"}, {ID: "b", Section: "New"}, {ID: "t9", Title: "Theirs"}} {
		src.addTask(Task{Past: task.Past{New: x, Status: task.InProgress}, where: x.ID + ".md"})
		src.addLock(Lock{Key: x.ID, Owner: "of " + x.ID, Since: now, Worktree: "/w\x00", where: x.ID + ".lock"}, now)
	}
	var said [2][]string
	for i, dry := range []bool{true, false} {
		out, err := Adopt(t.Context(), st, AdoptRequest{Source: src, By: "me", Now: now, Force: true, DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range slices.Concat(out.Changed, out.LeftOut) {
			said[i] = append(said[i], p.Where+": "+p.Why)
		}
		said[i] = append(said[i], fmt.Sprint(out.Tasks, out.Sections, out.Locks, out.Jobs, out.Already))
	}
	if diff := cmp.Diff(said[1], said[0]); diff != "" {
		t.Errorf("a dry run says something else:\n%s", diff)
	}
	for _, want := range []string{
		"section Core: is skipped there", "section Web: depends on Core there", "a.lock: the lock on a is held by of a: ",
		"b.lock: the lock on b is held by of b without the lock on section:New, which of a holds", "t9.md: t9 is held here by of t9", "t9.md: t9: another task",
		"s.json, row 1: nightly: its spec is cut",
	} {
		if !slices.ContainsFunc(said[1], func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%q is not among\n%s", want, strings.Join(said[1], "\n"))
		}
	}
}
