package legacy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tasklock/tasklock/store/driver"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) int64 { return now.Add(-d).Unix() }

func files(list map[string]string) *folder {
	m := fstest.MapFS{}
	for name, text := range list {
		m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return &folder{FS: m}
}

// summary is what a reading came to, in words.
func summary(s Source) (out []string) {
	for _, x := range s.Sections {
		out = append(out, fmt.Sprintf("section %s %d %v %v", x.Name, x.Priority, x.Skipped, x.DependsOn))
	}
	for _, t := range s.Tasks {
		archived := ""
		if t.Archived {
			archived = " archived"
		}
		out = append(out, strings.TrimRight(fmt.Sprintf("task %s %q %s %s %v%s", t.ID, t.Title, t.Status, t.Section, t.DependsOn, archived), " "))
	}
	for _, l := range s.Locks {
		left := "no end"
		if !l.Until.IsZero() {
			left = l.Until.Sub(now).String()
		}
		since := "ever"
		if !l.Since.IsZero() {
			since = now.Sub(l.Since).String()
		}
		where := strings.TrimSpace(l.Worktree + l.Host)
		if l.PID != 0 {
			where += fmt.Sprintf(":%d", l.PID)
		}
		out = append(out, fmt.Sprintf("lock %s %s %s since %s %s", l.Key, l.Owner, left, since, where))
	}
	if s.Expired > 0 {
		out = append(out, fmt.Sprintf("expired %d", s.Expired))
	}
	for _, p := range s.Problems {
		out = append(out, "problem "+p.Where)
	}
	for _, p := range s.Warnings {
		out = append(out, "warning "+p.Where)
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
		dir + "1.2-no-heartbeat.lock": fmt.Sprintf("session_id=f47ac10b\ncreated_at=%d\nworktree=/y\ncreated_iso=2026-03-01T11:00:00Z\n", ago(time.Hour)),
		dir + "1.3-json.lock":         fmt.Sprintf("{\n  \"session_id\": \"f47ac10b\",\n  \"created_at\": %d,\n  \"worktree\": \"/z\",\n  \"created_iso\": \"2026-03-01T11:00:00Z\"\n}\n", ago(time.Hour)),
		dir + "1.4-torn.lock":         "{\n  \"session_id\": \"f47ac10b\",\n  \"created_",
		dir + "8.1-twice-over.lock":   "session_id=a\n" + lockFile(ago(time.Hour), "/x"),
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
		dir + "cut-heartbeat.lock":    fmt.Sprintf("session_id=f47ac10b\ncreated_at=%d\nheartbeat=17723", ago(time.Hour)),
		dir + "mark.lock":             "\ufeff" + lockFile(ago(time.Minute), "/m"),
		dir + "note.txt":              "not a lock",
	}), "project", now)
	warned := func(name string) string { return "warning " + dir + name + ".lock" }
	want := []string{
		"lock rf f47ac10b 5m0s since 1h0m0s ", "lock 1.0-parse-tokens f47ac10b 4m0s since 1h0m0s /src/a=b",
		"lock 1.2-no-heartbeat f47ac10b no end since 1h0m0s /y", "lock 1.3-json f47ac10b no end since 1h0m0s /z", "lock 1.4-torn f47ac10b no end since ever ",
		"lock 2-empty unknown:2-empty.lock no end since ever ", "lock 3-cut f47ac10b no end since ever ",
		"lock 4-garbage unknown:4-garbage.lock no end since ever ", "lock 5-nobody unknown:5-nobody.lock 5m0s since 1h0m0s ",
		"lock 6-odd owner a/b 5m0s since 1h0m0s ", "lock 7-when f47ac10b no end since 1h0m0s ", "lock 8-twice a 5m0s since 1h0m0s ",
		"lock 8.1-twice-over a no end since 1h0m0s /x", "lock 9-escape_[2J f47ac10b 5m0s since 1h0m0s ", "lock cut-heartbeat f47ac10b no end since 1h0m0s ", "lock huge unknown:huge.lock no end since ever ",
		"lock mark f47ac10b 4m0s since 1h0m0s /m", "expired 1",
		warned("-rf"), warned("1.4-torn"), warned("2-empty"), warned("3-cut"), warned("4-garbage"), warned("5-nobody"), warned("6-odd owner"), warned("7-when"),
		warned("8-twice"), warned("8.1-twice-over"), warned("9-escape\x1b[2J"), warned("cut-heartbeat"), warned("huge"),
	}
	if diff := cmp.Diff(want, summary(s)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if got := slashed("v1-1.0-parse"); !cmp.Equal(got, []string{"v1/1.0-parse", "v1-1.0/parse", "v1/1.0/parse"}) {
		t.Errorf("%q", got)
	}
	if s, err := readCAT(files(map[string]string{".claude/cat/locks/keep": ""}), "project", now); err != nil || len(summary(s)) != 0 {
		t.Errorf("no locks: %v, %v", s, err)
	}
	foreign := files(map[string]string{"Cargo.lock": "[[package]]", "locks/yarn.lock": ""})
	for _, f := range []*folder{files(nil), foreign} {
		if s, err := readCAT(f, "project", now); !errors.Is(err, driver.ErrMissing) {
			t.Errorf("nothing of CAT: %v, %v", summary(s), err)
		}
	}
	for base, name := range map[string]string{"locks": "a.lock", "cat": "locks/a.lock"} {
		if s, err := readCAT(files(map[string]string{name: ""}), base, now); err != nil || len(s.Locks) != 1 {
			t.Errorf("an empty lock in %s: %v, %v", base, summary(s), err)
		}
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
		`task general/task-1 "again" pending  []`, `task task-4 "In a channel" pending  []`,
		`task swarm/task-1 "Parse" completed  []`, `task task-2 "Print it" in_progress  [swarm/task-1]`, `task task-3 "task-3" blocked  []`, `task task-5 "task-5" blocked  []`,
		`task task-6 "task-6" blocked  []`, `task task-7 "liar" pending  []`, `task task-8 "odd" blocked  []`, `task task-9 "task-9" blocked  []`,
		"lock task-2 SwiftRaven no end since 1h0m0s ", "lock task-5 unknown:task-5.json no end since ever ", "lock task-6 unknown:task-6.json no end since ever ",
		"lock task-8 unknown:task-8.json no end since ever ", "lock task-9 unknown:task-9.json no end since ever ",
		"lock task-4 pid-12345 8s since 2s :12345", "lock task-7 unknown:task-7.lock no end since 20101h46m40s ", "expired 1",
		"warning " + dir + "tasks/general/task-1.json", "warning " + dir + "tasks/task-1.json", "warning " + dir + "tasks/task-5.json", "warning " + dir + "tasks/task-6.json", "warning " + dir + "tasks/task-7.json",
		"warning " + dir + "tasks/task-8.json", "warning " + dir + "tasks/task-9.json", "warning " + dir + "locks/task-7.lock",
	}
	if diff := cmp.Diff(want, summary(s)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if s.Tasks[3].Description != "# Print\n\nall of it\n" {
		t.Errorf("%q", s.Tasks[3].Description)
	}
	if _, err := readPi(files(nil), now); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("nothing: %v", err)
	}
}

// An event that was cut has the next one behind it. Neither ends a claim: there,
// such a line does not count.
func TestPiLinesThatRanTogether(t *testing.T) {
	event := func(id, what, agent string) string {
		return fmt.Sprintf(`{"taskId":%q,"type":%q,"timestamp":"2026-03-01T11:00:00.000Z","agent":%q,"payload":{"title":"T"}}`, id, what, agent)
	}
	s, err := readPi(files(map[string]string{".pi/messenger/tasks/s.jsonl": strings.Join([]string{
		event("task-1", "created", ""), event("task-2", "created", ""), event("task-3", "created", ""), event("task-4", "created", ""),
		event("task-3", "claimed", "C"), event("task-4", "claimed", "D"),
		`{"taskId":"task-1","type":"cla` + event("task-2", "claimed", "B"),
		event("task-3", "released", "C")[:60],
		`{"taskId":"task-4","type":"prog` + event("task-4", "completed", "D"),
	}, "\n")}), now)
	want := []string{
		`task task-1 "T" in_progress  []`, `task task-2 "T" in_progress  []`, `task task-3 "T" in_progress  []`, `task task-4 "T" in_progress  []`,
		"lock task-1 unknown:s.jsonl no end since ever ", "lock task-2 B no end since 1h0m0s ", "lock task-3 C no end since 1h0m0s ", "lock task-4 D no end since 1h0m0s ",
	}
	for range 4 {
		want = append(want, "warning .pi/messenger/tasks/s.jsonl")
	}
	if diff := cmp.Diff(want, summary(s)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// The result names what was cut.
func TestCutTextsAreTold(t *testing.T) {
	dir := ".pi/messenger/swarm/tasks/"
	s, err := readPi(files(map[string]string{
		dir + "task-1.json": fmt.Sprintf(`{"id":"task-1","title":%q,"status":"todo"}`, strings.Repeat("x", 600)), dir + "task-1.md": strings.Repeat("x", 40<<10),
		dir + "task-2.json": `{"id":"task-2","title":"T","status":"todo"}`, dir + "task-2.md": strings.Repeat("x", maxFile+1),
	}), now)
	if err != nil || len(s.Tasks) != 2 || len(s.Warnings) != 3 {
		t.Errorf("%+v, %v", s.Warnings, err)
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
	if err != nil || len(s.Warnings) != 1 || s.Expired != 0 || len(s.Locks) != 1 || s.Locks[0].Owner != "unknown:x.lock" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAITasks(t *testing.T) {
	doc := func(head string) []byte { return []byte("---\n" + head + "---\n\n## Problem\n\ntext\n") }
	tasks := map[string][]byte{
		"aitasks/t109_lock_tasks.md":           doc("priority: high\ndepends: [108, t16_1]\nstatus: Ready\nlabels: [aitasks, bash]\n"),
		"aitasks/t16/t16_1_first_child.md":     doc("status: Implementing\nassigned_to: a@example.com\n"),
		"aitasks/archived/t108_old_one.md":     doc("status: Done\n"),
		"aitasks/archived/t107_bare.md":        []byte("no head at all"),
		"aitasks/archived/old.tar.gz":          []byte("packed"),
		"aitasks/t9_soft.md":                   doc("status: Implementing\nassigned_to: b@example.com\nupdated_at: 2026-03-01 11:00\neffort: low\nissue: https://example.com/9\n"),
		"aitasks/t10_nobody.md":                doc("status: Implementing\nassigned_to:\n"),
		"aitasks/t11_parent.md":                doc("status: Ready\nchildren_to_implement: [t16_1]\n"),
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
		"t16_1_lock.yaml": []byte("task_id: 16_1\nlocked_by: a@example.com\nlocked_at: 2026-02-13 14:30\nhostname: other\npid: -\npid_starttime: -\npid_starttime_kind: none\n"),
		"t16_2_lock.yaml": []byte("task_id: 16_2\nlocked_by: a@example.com\nlocked_at: 2026-02-13 14:30\nhostname: other\npid: 4711\npid_starttime: 112467\npid_starttime_kind: proc\n"),
		"t108_lock.yaml":  []byte("task_id: 108\nlocked_by: user@example.com\nlocked_at: 2026-02-13 14:30\n"),
		"t1_lock.yaml":    nil,
		"t2_lock.yaml":    []byte(""),
		"t3_lock.yaml":    []byte("task_id: 4\nlocked_by: x\nlocked_at: 2026-02-13 14:30\n"),
		"t4_lock.yaml":    []byte("task_id: 4\nlocked_by: \"\"\nlocked_at: 2026-02-13 14:30\n"),
		"t5_lock.yaml":    []byte("task_id: 5\nlocked_by: x\nlocked_at: yesterday\n"),
		"t6_lock.yaml":    []byte("\xff\xfe"),
		"README.md":       []byte("not a lock"),
	}
	s, err := AITasks(AITasksFiles{Tasks: tasks, Locks: locks, IDs: map[string][]byte{"next_id.txt": []byte("150\n")}}, now)
	want := []string{
		`task t109 "lock tasks" pending  [t108 t16_1]`, `task t10 "nobody" in_progress  []`, `task t110 "later" blocked  []`, `task t11 "parent" pending  [t16_1]`, `task t16_1 "first child" in_progress  []`, `task t1 "no head" pending  []`,
		`task t2 "no end" pending  []`, `task t3 "bad yaml" blocked  []`, `task t4 "bad status" blocked  []`, `task t5 "bad priority" pending  []`,
		`task t6 "bad depends" pending  []`, `task t7 "bomb" pending  [t5]`, `task t8 "huge" in_progress  []`, `task t9 "soft" in_progress  []`,
		`task t107 "bare" completed  [] archived`, `task t108 "old one" completed  [] archived`,
		"lock t108 user@example.com no end since 381h30m0s ", "lock t109 user@example.com no end since 381h30m0s my-pc",
		"lock t16_1 a@example.com no end since 381h30m0s other", "lock t16_2 a@example.com no end since 381h30m0s other:4711",
		"lock t1 unknown:t1_lock.yaml no end since ever ", "lock t2 unknown:t2_lock.yaml no end since ever ", "lock t3 x no end since 381h30m0s ",
		"lock t4 unknown:t4_lock.yaml no end since 381h30m0s ", "lock t5 x no end since ever ", "lock t6 unknown:t6_lock.yaml no end since ever ",
		"lock t10 unknown:t10_nobody.md no end since ever ", "lock t8 unknown:t8_huge.md no end since ever ", "lock t9 b@example.com no end since 1h0m0s ",
		"problem aitasks/archived/old.tar.gz", "problem aitasks/archived/sub/t110_another.md",
		"warning aitasks/t1_no_head.md", "warning aitasks/t2_no_end.md", "warning aitasks/t3_bad_yaml.md", "warning aitasks/t3_bad_yaml.md", "warning aitasks/t4_bad_status.md",
		"warning aitasks/t5_bad_priority.md", "warning aitasks/t6_bad_depends.md", "warning aitasks/t8_huge.md",
		"warning t1_lock.yaml", "warning t2_lock.yaml", "warning t3_lock.yaml", "warning t4_lock.yaml", "warning t5_lock.yaml", "warning t6_lock.yaml",
		"warning aitasks/t10_nobody.md", "warning aitasks/t8_huge.md", "warning aitasks/t9_soft.md",
	}
	if s.Next != 150 {
		t.Errorf("the next number is %d", s.Next)
	}
	if diff := cmp.Diff(want, summary(s)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	soft := s.Tasks[slices.IndexFunc(s.Tasks, func(t Task) bool { return t.ID == "t9" })]
	if want := "## Problem\n\ntext\n\nassigned_to: b@example.com\neffort: low\nissue: https://example.com/9"; soft.Description != want {
		t.Errorf("%q", soft.Description)
	}
	for _, f := range []AITasksFiles{{}, {Tasks: map[string][]byte{"aitasks/README.md": []byte("x")}, Locks: map[string][]byte{"README.md": []byte("x")}}} {
		if _, err := AITasks(f, now); !errors.Is(err, driver.ErrMissing) {
			t.Error(err)
		}
	}
}

// unlisted is a folder that cannot list one of its folders.
type unlisted struct {
	fs.FS
	dir string
}

func (u unlisted) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == u.dir {
		return nil, fs.ErrPermission
	}
	return fs.ReadDir(u.FS, name)
}

// Where a folder cannot be listed there may be locks: nothing is read at all.
func TestUnlistedFolder(t *testing.T) {
	list := map[string]string{
		".pi/messenger/tasks/a/task-1.json": "{}", ".pi/messenger/locks/task-1.lock": "1@2", ".claude/cat/locks/a.lock": "session_id=a",
	}
	for _, c := range []struct {
		dir  string
		read func(*folder) (Source, error)
	}{
		{".pi/messenger/tasks", func(f *folder) (Source, error) { return readPi(f, now) }},
		{".pi/messenger/tasks/a", func(f *folder) (Source, error) { return readPi(f, now) }},
		{".pi/messenger/locks", func(f *folder) (Source, error) { return readPi(f, now) }},
		{".claude/cat/locks", func(f *folder) (Source, error) { return readCAT(f, "x", now) }},
		{".", func(f *folder) (Source, error) { return readPercolate(f, f.list(".", ".json"), now) }},
	} {
		if _, err := c.read(&folder{FS: unlisted{files(list).FS, c.dir}}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", c.dir, err)
		}
	}
}
