package tasklock_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// comings are the systems of the page, in its order.
var comings = []coming{
	{"steroids", steroidsFixture, map[string]string{
		"STORE": "sqlite:DIR/st.db", "ID": "12345678-58cc-4372-a567-0e02b2c3d479", "TITLE": "Fix bug", "RUNNER": "runner-2", "NAME": "API/Web", "TEXT": "it is gone",
	}, []comingRow{
		{command: "tasklock migrate --from steroids:.steroids/steroids.db --to STORE --force", prints: `3 tasks, 2 sections and 1 lock`},
		{command: "tasklock config set store STORE", then: []string{"0 tasks show ID ~ ^status: +in_progress$.*^claimed by: +runner-1$"}},
		{command: "tasklock list", prints: "ID-is-there|12345678-58cc"},
		{command: "tasklock show ID", prints: "runner-1"},
		{command: "tasklock tasks show 12345678", prints: "^title: +Fix bug$"},
		{command: "tasklock tasks update TITLE --status in_progress --no-wait --owner RUNNER", exit: 6, prints: "runner-1"},
		{command: "tasklock break ID --reason TEXT", then: []string{"1 check ID ~ free"}},
		{command: "tasklock tasks update TITLE --status in_progress --owner RUNNER", then: []string{"0 tasks show ID ~ ^claimed by: +runner-2$"}},
		{command: "tasklock tasks claim ID --owner RUNNER"},
		{command: "tasklock heartbeat ID --owner RUNNER", then: []string{"0 check ID ~ runner-2"}},
		{command: "tasklock tasks complete ID --owner RUNNER", then: []string{"0 tasks show ID ~ ^status: +completed$", "1 check ID"}},
		{command: "tasklock sections list", prints: `API/Web.*Backend`},
		{command: "tasklock next --section NAME --claim --owner RUNNER", prints: "Write docs", then: []string{"0 check section:NAME ~ runner-2"}},
		{command: "tasklock cleanup"},
		{command: "tasklock sections add Frontend", then: []string{"0 sections list ~ Frontend"}},
		{command: "tasklock runner start -- COMMAND", then: []string{"0 tasks show later-1 ~ ^status: +completed$"}},
		{command: "tasklock config show"},
	}},
	{"pi-messenger, swarm", piFixture, map[string]string{
		"STORE": "sqlite:DIR/st.db", "PROJECT": "DIR/project", "ID": "task-2", "KEY": "task-1", "AGENT": "SwiftRaven", "OTHER": "CalmFox", "A": "x", "B": "y", "TITLE": "Ship it", "TEXT": "waits for a key",
	}, []comingRow{
		{command: "tasklock migrate --from pi:PROJECT --to STORE --force", prints: `3 tasks, 0 sections and 1 lock`},
		{command: "tasklock config set store STORE", then: []string{"0 tasks show KEY ~ ^claimed by: +CalmFox$.*^progress: +half$"}},
		{command: "tasklock run ID -- COMMAND", then: []string{"1 check ID"}},
		{command: "tasklock acquire ID --wait 5s --owner AGENT", then: []string{"0 check ID ~ SwiftRaven"}},
		{command: "tasklock acquire ID --no-wait --owner OTHER", exit: 6},
		{command: "tasklock check ID"},
		{command: "tasklock release ID --owner AGENT", then: []string{"1 check ID"}},
		{command: "tasklock run ID -- COMMAND", then: []string{"1 check ID"}},
		{command: "tasklock acquire A B --owner AGENT", then: []string{"0 check A ~ SwiftRaven", "0 check B ~ SwiftRaven"}},
		{command: "tasklock tasks add TITLE", prints: "t1"},
		{command: "tasklock tasks claim ID --owner AGENT", then: []string{"0 tasks show ID ~ ^claimed by: +SwiftRaven$"}},
		{command: "tasklock tasks unclaim ID --owner AGENT", then: []string{"0 tasks show ID ~ ^status: +pending", "1 check ID"}},
		{command: "tasklock tasks block ID --reason TEXT --owner AGENT", then: []string{"0 tasks show ID ~ ^blocked because: +waits for a key$"}},
		{command: "tasklock tasks unblock ID --owner AGENT", then: []string{"0 tasks show ID ~ ^status: +pending"}},
		{command: "tasklock tasks complete ID --summary TEXT --owner AGENT", then: []string{"0 tasks show ID ~ ^status: +completed$.*^result: +waits for a key$"}},
		{command: "tasklock tasks reset ID --cascade", then: []string{"0 tasks show ID ~ ^status: +pending", "0 tasks show task-3 ~ ^waits for: +task-2$"}},
		{command: "tasklock break KEY --reason TEXT", then: []string{"1 check KEY"}},
	}},
	{"Percolate, scheduler locks", percolateFixture, map[string]string{
		"STORE": "sqlite:DIR/st.db", "FOLDER": "DIR/export", "NAME": "daily-digest", "TEXT": "the pod is gone",
	}, []comingRow{
		{command: "tasklock migrate --from percolate:FOLDER --to STORE --force", prints: `2 jobs and 1 lock`},
		{command: "tasklock config set store STORE"},
		{command: "tasklock jobs list", prints: "daily-digest.*weekly"},
		{command: "tasklock jobs show NAME", prints: "paused"},
		{command: "tasklock list --kind job", prints: "job:daily-digest.*pod-1-12345-a1b2c3"},
		{command: "tasklock show job:NAME", prints: "pod-1-12345-a1b2c3"},
		{command: "tasklock break job:NAME --reason TEXT", then: []string{"1 check job:NAME"}},
		{command: "tasklock jobs apply --file jobs.yaml", then: []string{"0 jobs show NAME ~ tasklock version", "0 jobs show NAME ~ paused"}},
		{command: `tasklock jobs add nightly --cron "0 3 * * *" -- COMMAND`},
		{command: "tasklock jobs pause nightly", then: []string{"0 jobs show nightly ~ paused"}},
		{command: "tasklock jobs resume NAME", then: []string{`0 jobs show NAME --json ~ "paused":false`}},
		{command: "tasklock scheduler", stays: true},
		{command: "tasklock jobs trigger NAME"},
		{command: "tasklock jobs history NAME --limit 20", until: true, prints: "\tdone\t"},
		{command: "tasklock run job:NAME --skip-if-locked -- COMMAND", then: []string{"1 check job:NAME"}},
		{command: "tasklock whoami", prints: "tester"},
	}},
	{"aitasks", aitasksFixture, map[string]string{
		"REMOTE": "DIR/remote.git", "ID": "t5", "KEY": "t16_1", "ME": "me@example.com", "NAME": "release", "TITLE": "Second child", "TEXT": "left us",
	}, []comingRow{
		{command: "tasklock migrate --from aitasks:REMOTE --to git:REMOTE --force", prints: `4 tasks, 0 sections and 3 locks`},
		{command: "tasklock config set store git:REMOTE", then: []string{"0 tasks show ID ~ ^status: +in_progress$.*^claimed by: +me@example.com$"}},
		{command: "tasklock list", prints: "t16_1.*t4.*t5"},
		{command: "tasklock list --offline", prints: "t16_1.*t4.*t5"},
		{command: "tasklock check ID", prints: "me@example.com"},
		{command: "tasklock list --older-than 3d", prints: "Warning: t5 is held by me@example.com since"},
		{command: "tasklock cleanup --archived", prints: "Freed t4", then: []string{"1 check t4", "0 check ID"}},
		{command: "tasklock release ID --owner ME", then: []string{"1 check ID"}},
		{command: "tasklock break KEY --reason TEXT", then: []string{"1 check KEY"}},
		{command: "tasklock tasks claim ID --owner ME", then: []string{"0 tasks show ID ~ ^claimed by: +me@example.com$"}},
		{command: "tasklock acquire NAME --owner ME", then: []string{"0 check NAME ~ me@example.com"}},
		{command: "tasklock tasks complete ID --owner ME", then: []string{"0 tasks show ID ~ ^status: +completed$", "1 check ID"}},
		{command: "tasklock tasks archive ID", then: []string{"4 tasks claim ID ~ archived"}},
		{command: "tasklock id next", prints: "^20$"},
		{command: "tasklock tasks list --ready", prints: "t16_1"},
		{command: "tasklock tasks add TITLE --parent t16", prints: "t16_2"},
		{command: "tasklock init --store git:REMOTE"},
	}},
	{"CAT", catFixture, map[string]string{
		"STORE": "sqlite:DIR/st.db", "PROJECT": "DIR/project", "ID": "v1/1.0-parse", "SESSION": "f47ac10b-58cc", "AGENT": "reviewer", "PATH": "/src/parse", "TEXT": "it hangs",
	}, []comingRow{
		{command: "tasklock migrate --from cat:PROJECT --to STORE --force", prints: `0 tasks, 0 sections and 3 locks`},
		{command: "tasklock config set store STORE", then: []string{"0 check 1.0-heart ~ f47ac10b-58cc", "0 check 1.1-lines ~ f47ac10b-58cc"}},
		{command: "tasklock tasks import plan.md", then: []string{"0 tasks show t1 ~ Print the tree"}},
		{command: "tasklock list", prints: "v1-1.0-parse"},
		{command: "tasklock check ID", prints: "f47ac10b-58cc"},
		{command: "tasklock heartbeat ID --owner SESSION"},
		{command: "tasklock update ID --worktree PATH --owner SESSION", then: []string{"0 show ID ~ /src/parse"}},
		{command: "tasklock release ID --owner SESSION", then: []string{"1 check v1-1.0-parse"}},
		{command: "tasklock acquire ID --owner SESSION --worktree PATH", then: []string{"0 check v1-1.0-parse ~ f47ac10b-58cc"}},
		{command: "tasklock break ID --reason TEXT", then: []string{"1 check v1-1.0-parse"}},
		{command: "tasklock cleanup --stale-minutes 5 --force", then: []string{"0 check 1.1-lines"}},
		{command: "tasklock acquire ID --owner SESSION/AGENT", then: []string{"6 acquire ID --owner OTHER --no-wait"}},
		{command: "tasklock session end --owner SESSION", then: []string{"1 check ID", "1 check 1.0-heart", "1 check 1.1-lines"}},
	}},
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func steroidsFixture(t *testing.T, dir string) {
	put(t, dir, map[string]string{".steroids/config.yaml": ""})
	conn, err := sqlite.OpenConn(filepath.Join(dir, ".steroids", "steroids.db"), sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stamp := func(d time.Duration) string { return time.Now().Add(d).UTC().Format("2006-01-02T15:04:05") }
	err = sqlitex.ExecuteScript(conn, fmt.Sprintf(`
CREATE TABLE sections (id TEXT PRIMARY KEY, name TEXT NOT NULL, position INTEGER NOT NULL, priority INTEGER DEFAULT 50, skipped INTEGER DEFAULT 0);
CREATE TABLE tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'pending', section_id TEXT REFERENCES sections(id));
CREATE TABLE task_dependencies (id TEXT PRIMARY KEY, task_id TEXT NOT NULL, depends_on_task_id TEXT NOT NULL);
CREATE TABLE task_locks (task_id TEXT PRIMARY KEY, runner_id TEXT NOT NULL, acquired_at TEXT NOT NULL, expires_at TEXT NOT NULL, heartbeat_at TEXT NOT NULL);
INSERT INTO sections (id, name, position) VALUES ('s1', 'Backend', 2), ('s2', 'API/Web', 1);
INSERT INTO tasks VALUES ('12345678-58cc-4372-a567-0e02b2c3d479', 'Fix bug', 'in_progress', 's1'), ('docs-1', 'Write docs', 'pending', 's2'), ('later-1', 'Later', 'pending', NULL);
INSERT INTO task_dependencies VALUES ('d1', 'later-1', '12345678-58cc-4372-a567-0e02b2c3d479');
INSERT INTO task_locks VALUES ('12345678-58cc-4372-a567-0e02b2c3d479', 'runner-1', '%s', '%s', '%s');`, stamp(-time.Minute), stamp(time.Hour), stamp(-time.Minute)), nil)
	if err != nil {
		t.Fatal(err)
	}
}

func piFixture(t *testing.T, dir string) {
	put(t, dir, map[string]string{"project/.pi/messenger/tasks/main.jsonl": strings.Join([]string{
		`{"taskId":"task-1","type":"created","timestamp":"2026-01-01T00:00:00.000Z","channel":"general","payload":{"title":"Parse"}}`,
		`{"taskId":"task-2","type":"created","timestamp":"2026-01-01T00:00:01.000Z","channel":"general","payload":{"title":"Print"}}`,
		`{"taskId":"task-3","type":"created","timestamp":"2026-01-01T00:00:02.000Z","channel":"general","payload":{"title":"Ship","dependsOn":["task-2"]}}`,
		`{"taskId":"task-1","type":"claimed","timestamp":"2026-01-01T00:01:00.000Z","channel":"general","agent":"CalmFox","payload":{}}`,
		`{"taskId":"task-1","type":"progress","timestamp":"2026-01-01T00:02:00.000Z","channel":"general","agent":"CalmFox","payload":{"message":"half"}}`,
	}, "\n")})
}

func percolateFixture(t *testing.T, dir string) {
	now := time.Now().Unix()
	put(t, dir, map[string]string{
		"export/schedules.json": `[{"id": "abc-1", "name": "daily-digest", "cron": "0 6 * * *", "spec": {"task": "digest"}, "disabled": false},
 {"id": "abc-2", "name": "weekly", "cron": "0 6 * * sun", "spec": {}, "disabled": true}]`,
		"export/locks.json": fmt.Sprintf(`[{"id": "x", "key": "task_lock:daily-digest:abc-1", "value": "{\"process_id\": \"pod-1-12345-a1b2c3\", \"acquired_at\": %d.5, \"expires_at\": %d.5}"}]`, now-10, now+290),
		"jobs.yaml":         "jobs:\n  daily-digest:\n    cron: \"0 6 * * *\"\n    command: [tasklock, version]\n",
	})
}

func aitasksFixture(t *testing.T, dir string) {
	put(t, dir, map[string]string{
		"aitask-data/aitasks/t5_now.md":             "---\nstatus: Implementing\npriority: high\n---\nNow.\n",
		"aitask-data/aitasks/t16_parent.md":         "---\nstatus: Ready\n---\nAll.\n",
		"aitask-data/aitasks/t16/t16_1_child.md":    "---\nstatus: Implementing\n---\nPart.\n",
		"aitask-data/aitasks/archived/t4_before.md": "No head at all.\n",
		"aitask-locks/t5_lock.yaml":                 "task_id: 5\nlocked_by: me@example.com\nlocked_at: 2026-01-01 12:31\nhostname: pc\npid: -\npid_starttime: -\npid_starttime_kind: none\n",
		"aitask-locks/t16_1_lock.yaml":              "task_id: 16_1\nlocked_by: other@example.com\nlocked_at: 2026-01-01 12:31\nhostname: pc2\npid: 4711\npid_starttime: 112467\npid_starttime_kind: proc\n",
		"aitask-locks/t4_lock.yaml":                 "task_id: 4\nlocked_by: me@example.com\nlocked_at: 2026-01-01 12:31\nhostname: pc\n",
		"aitask-ids/next_id.txt":                    "20\n",
	})
	git := func(in string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = filepath.Join(dir, in)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git(".", "init", "-q", "--bare", "remote.git")
	for _, branch := range []string{"aitask-data", "aitask-locks", "aitask-ids"} {
		git(branch, "init", "-q")
		git(branch, "add", ".")
		git(branch, "commit", "-qm", branch)
		git(branch, "push", "-q", "../remote.git", "HEAD:refs/heads/"+branch)
	}
}

func catFixture(t *testing.T, dir string) {
	locks, now := "project/.claude/cat/locks/", time.Now().Unix()
	put(t, dir, map[string]string{
		locks + "1.0-heart.lock":    fmt.Sprintf("session_id=f47ac10b-58cc\ncreated_at=%d\nheartbeat=%d\nworktree=/src/a\ncreated_iso=2026-01-01T00:00:00Z\n", now-600, now),
		locks + "1.1-lines.lock":    fmt.Sprintf("session_id=f47ac10b-58cc\ncreated_at=%d\nworktree=/src/b\ncreated_iso=2026-01-01T00:00:00Z\n", now-600),
		locks + "v1-1.0-parse.lock": fmt.Sprintf("{\n  \"session_id\": \"f47ac10b-58cc\",\n  \"created_at\": %d,\n  \"worktree\": \"/src/c\",\n  \"created_iso\": \"2026-01-01T00:00:00Z\"\n}\n", now-600),
		"plan.md":                   "- [ ] Print the tree\n",
	})
}
