package legacy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tasklock/tasklock/store/driver"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) int64 { return now.Add(-d).Unix() }

func files(list map[string]string) folder {
	m := fstest.MapFS{}
	for name, text := range list {
		m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return folder{m}
}

// summary is what a reading came to, in words.
func summary(s Source) (out []string) {
	for _, x := range s.Sections {
		out = append(out, fmt.Sprintf("section %s %d %v %v", x.Name, x.Priority, x.Skipped, x.DependsOn))
	}
	for _, t := range s.Tasks {
		out = append(out, strings.TrimRight(fmt.Sprintf("task %s %q %s %s %v", t.ID, t.Title, t.Status, t.Section, t.DependsOn), " "))
	}
	for _, l := range s.Locks {
		left := "no end"
		if !l.Until.IsZero() {
			left = l.Until.Sub(now).String()
		}
		out = append(out, fmt.Sprintf("lock %s %s %s %s%s", l.Key, l.Owner, left, l.Worktree, l.Host))
	}
	if s.Expired > 0 {
		out = append(out, fmt.Sprintf("expired %d", s.Expired))
	}
	for _, p := range s.Problems {
		out = append(out, "problem "+p.Where)
	}
	return out
}

func TestCAT(t *testing.T) {
	lockFile := func(heartbeat int64, worktree string) string {
		return fmt.Sprintf("session_id=f47ac10b\ncreated_at=%d\nheartbeat=%d\nworktree=%s\ncreated_iso=2026-03-01T11:00:00Z\n", ago(time.Hour), heartbeat, worktree)
	}
	dir := ".claude/cat/locks/"
	s, err := readCAT(files(map[string]string{
		dir + "1.0-parse-tokens.lock": lockFile(ago(time.Minute), "/src/a=b"),
		dir + "1.1-stale.lock":        lockFile(ago(6*time.Minute), "/x"),
		dir + "2-empty.lock":          "",
		dir + "3-cut.lock":            "session_id=f47ac10b\ncreated_at=17",
		dir + "4-garbage.lock":        "\x00\xff\xfe",
		dir + "5-nobody.lock":         strings.Replace(lockFile(ago(0), ""), "f47ac10b", "", 1),
		dir + "6-odd owner.lock":      strings.Replace(lockFile(ago(0), ""), "f47ac10b", "a//b", 1),
		dir + "7-when.lock":           strings.Replace(lockFile(ago(0), ""), "heartbeat=", "heartbeat=9", 1),
		dir + "8-twice.lock":          "session_id=a\n" + lockFile(ago(0), ""),
		dir + "-rf.lock":              lockFile(ago(0), ""),
		dir + "9-escape\x1b[2J.lock":  lockFile(ago(0), ""),
		dir + "huge.lock":             strings.Repeat("x", maxFile+1),
		dir + "note.txt":              "not a lock",
	}), now)
	want := []string{
		"lock 1.0-parse-tokens f47ac10b 4m0s /src/a=b", "expired 1",
		"problem " + dir + "-rf.lock", "problem " + dir + "2-empty.lock", "problem " + dir + "3-cut.lock", "problem " + dir + "4-garbage.lock",
		"problem " + dir + "5-nobody.lock", "problem " + dir + "6-odd owner.lock", "problem " + dir + "7-when.lock", "problem " + dir + "8-twice.lock",
		"problem " + dir + "9-escape\x1b[2J.lock", "problem " + dir + "huge.lock",
	}
	if diff := cmp.Diff(want, summary(s)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if s, err := readCAT(files(map[string]string{".claude/cat/locks/keep": ""}), now); err != nil || len(summary(s)) != 0 {
		t.Errorf("no locks: %v, %v", s, err)
	}
	if _, err := readCAT(files(nil), now); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := CAT(filepath.Join(t.TempDir(), "none"), now); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("no folder: %v", err)
	}
}

func TestPi(t *testing.T) {
	dir := ".pi/messenger/swarm/"
	s, err := readPi(files(map[string]string{
		dir + "tasks/task-1.json":         `{"id":"task-1","title":"Parse","status":"done","depends_on":[],"more":{"x":1}}`,
		dir + "tasks/task-2.json":         `{"id":"task-2","title":"Print\nit","status":"in_progress","depends_on":["task-1"],"claimed_by":"SwiftRaven","claimed_at":"2026-03-01T11:00:00.000Z"}`,
		dir + "tasks/task-3.json":         `{"id":"task-3","title":"","status":"blocked"}`,
		dir + "tasks/general/task-4.json": `{"id":"task-4","title":"In a channel","status":"todo"}`,
		dir + "tasks/task-2.md":           "# Print\n\nall of it\n",
		dir + "tasks/task-5.json":         ``,
		dir + "tasks/task-6.json":         `{"id":"task-6","title":"cut`,
		dir + "tasks/task-7.json":         `{"id":"task-1","title":"liar","status":"todo"}`,
		dir + "tasks/task-8.json":         `{"id":"task-8","title":"odd","status":"perhaps"}`,
		dir + "tasks/task-9.json":         `["no","object"]`,
		dir + "tasks/general/task-1.json": `{"id":"task-1","title":"again","status":"todo"}`,
		dir + "locks/task-2.lock":         fmt.Sprintf("12345@%d", now.UnixMilli()-1000),
		dir + "locks/task-4.lock":         fmt.Sprintf("12345@%d\n", now.UnixMilli()-2000),
		dir + "locks/task-3.lock":         fmt.Sprintf("12345@%d", now.UnixMilli()-11000),
		dir + "locks/task-5.lock":         "",
		dir + "locks/task-6.lock":         "12345@soon",
		dir + "locks/task-7.lock":         "-1@1700000000000",
		dir + "locks/task-8.lock":         "99999999999999999999@1",
	}), now)
	want := []string{
		`task task-1 "Parse" completed  []`, `task task-2 "Print it" in_progress  [task-1]`, `task task-3 "task-3" blocked  []`, `task task-4 "In a channel" pending  []`,
		"lock task-2 SwiftRaven no end ", "lock task-4 pid-12345 8s ", "expired 1",
		"problem " + dir + "tasks/task-5.json", "problem " + dir + "tasks/task-6.json", "problem " + dir + "tasks/task-7.json",
		"problem " + dir + "tasks/task-8.json", "problem " + dir + "tasks/task-9.json", "problem " + dir + "tasks/general/task-1.json",
		"problem " + dir + "locks/task-5.lock", "problem " + dir + "locks/task-6.lock", "problem " + dir + "locks/task-7.lock", "problem " + dir + "locks/task-8.lock",
	}
	if diff := cmp.Diff(want, summary(s)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if s.Tasks[1].Description != "# Print\n\nall of it\n" {
		t.Errorf("%q", s.Tasks[1].Description)
	}
	if _, err := readPi(files(nil), now); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("nothing: %v", err)
	}
}

// Links that lead out of the folder are not followed.
func TestLinksStayInside(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret.lock")
	if err := os.WriteFile(outside, []byte("1@1700000000000"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "locks"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "locks", "x.lock")); err != nil {
		t.Skip(err)
	}
	s, err := Pi(dir, now)
	if err != nil || len(s.Problems) != 1 || s.Expired+len(s.Locks) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAITasks(t *testing.T) {
	doc := func(head string) []byte { return []byte("---\n" + head + "---\n\n## Problem\n\ntext\n") }
	tasks := map[string][]byte{
		"aitasks/t109_lock_tasks.md":           doc("priority: high\ndepends: [108, t16_1]\nstatus: Ready\nlabels: [aitasks, bash]\n"),
		"aitasks/t16/t16_1_first_child.md":     doc("status: Implementing\nassigned_to: a@example.com\n"),
		"aitasks/archived/t108_old_one.md":     doc("status: Done\n"),
		"aitasks/t110_later.md":                doc("status: Postponed\npriority: low\n"),
		"aitasks/README.md":                    []byte("# not a task"),
		"aiplans/p1_plan.md":                   []byte("a plan"),
		"aitasks/t1_no_head.md":                []byte("# just text"),
		"aitasks/t2_no_end.md":                 []byte("---\nstatus: Ready\n"),
		"aitasks/t3_bad_yaml.md":               doc("status: [\n"),
		"aitasks/t4_bad_status.md":             doc("status: Perhaps\n"),
		"aitasks/t5_bad_priority.md":           doc("priority: utmost\n"),
		"aitasks/t6_bad_depends.md":            doc("depends: [../x]\n"),
		"aitasks/t7_bomb.md":                   doc("labels: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\ndepends: 5\n"),
		"aitasks/t8_huge.md":                   nil,
		"aitasks/archived/sub/t110_another.md": doc("status: Done\n"),
	}
	locks := map[string][]byte{
		"t109_lock.yaml":  []byte("task_id: 109\nlocked_by: user@example.com\nlocked_at: 2026-02-13 14:30\nhostname: my-pc\n"),
		"t16_1_lock.yaml": []byte("task_id: 16_1\nlocked_by: a@example.com\nlocked_at: 2026-02-13 14:30\nhostname: other\n"),
		"t108_lock.yaml":  []byte("task_id: 108\nlocked_by: user@example.com\nlocked_at: 2026-02-13 14:30\n"),
		"t1_lock.yaml":    nil,
		"t2_lock.yaml":    []byte(""),
		"t3_lock.yaml":    []byte("task_id: 4\nlocked_by: x\nlocked_at: 2026-02-13 14:30\n"),
		"t4_lock.yaml":    []byte("task_id: 4\nlocked_by: \"\"\nlocked_at: 2026-02-13 14:30\n"),
		"t5_lock.yaml":    []byte("task_id: 5\nlocked_by: x\nlocked_at: yesterday\n"),
		"t6_lock.yaml":    []byte("\xff\xfe"),
		"README.md":       []byte("not a lock"),
	}
	s, err := AITasks(tasks, locks, now)
	want := []string{
		`task t110 "another" completed  []`, `task t108 "old one" completed  []`, `task t109 "lock tasks" pending  [t108 t16_1]`, `task t16_1 "first child" in_progress  []`,
		"lock t109 user@example.com no end my-pc", "lock t16_1 a@example.com no end other", "expired 1",
		"problem aitasks/t110_later.md", "problem aitasks/t1_no_head.md",
		"problem aitasks/t2_no_end.md", "problem aitasks/t3_bad_yaml.md", "problem aitasks/t4_bad_status.md", "problem aitasks/t5_bad_priority.md",
		"problem aitasks/t6_bad_depends.md", "problem aitasks/t7_bomb.md", "problem aitasks/t8_huge.md",
		"problem t1_lock.yaml", "problem t2_lock.yaml", "problem t3_lock.yaml", "problem t4_lock.yaml", "problem t5_lock.yaml", "problem t6_lock.yaml",
	}
	if diff := cmp.Diff(want, summary(s)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := AITasks(nil, nil, now); !errors.Is(err, driver.ErrMissing) {
		t.Error(err)
	}
}
