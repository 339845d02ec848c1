package server_test

import (
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/task"
)

// job makes a job, which nobody can do over HTTP.
func (w *world) job(name string) {
	w.Helper()
	job := schedule.Job{Name: name, Cron: "@daily", Command: []string{"true"}, Env: map[string]string{"PASSWORD": "hunter2"}}
	if _, err := schedule.Apply(w.Context(), w.st, schedule.ApplyRequest{Jobs: []schedule.Job{job}, By: "test"}); err != nil {
		w.Fatal(err)
	}
}

func TestSectionsAndPools(t *testing.T) {
	w := newWorld(t)
	worker, operator := w.key(access.Worker, "ci").Secret, w.key(access.Operator, "ops").Secret
	w.take(200, "/v1/tasks/add", worker, id(), object{"tasks": []object{{"title": "one", "section": "S"}}})
	w.must(404, "POST", "/v1/sections/update", operator, "", object{"section": "nothing", "priority": 1})
	w.must(200, "POST", "/v1/sections/update", operator, "", object{"section": "S", "priority": 7, "workers": 3})
	w.must(200, "POST", "/v1/sections/skip", operator, "", object{"section": "S"})
	if c := w.take(200, "/v1/tasks/next", worker, id(), object{}); c.State != "none" {
		t.Errorf("a task of a skipped section: %+v", c)
	}
	out := parse[task.SectionsResult](w, w.must(200, "GET", "/v1/sections", worker, "", nil))
	if len(out.Sections) != 1 || !out.Sections[0].Skipped || out.Sections[0].Priority != 7 || out.Sections[0].Workers != 3 {
		t.Errorf("%+v", out)
	}
	w.must(200, "POST", "/v1/sections/skip", operator, "", object{"section": "S", "off": true})
	if c := w.take(200, "/v1/tasks/next", worker, id(), object{}); c.State != "acquired" {
		t.Errorf("%+v", c)
	}
	w.must(404, "GET", "/v1/sections?section=nothing", worker, "", nil)

	w.must(200, "POST", "/v1/pools/set", operator, "", object{"pool": "tests", "slots": 2, "reason": "small"})
	w.must(400, "POST", "/v1/pools/set", operator, "", object{"pool": "tests", "slots": 0})
	w.must(200, "POST", "/v1/locks/acquire", worker, id(), object{"keys": []string{"pool:tests"}})
	if r := w.must(200, "GET", "/v1/pools", worker, "", nil); !strings.Contains(r.text, `"used":1`) || !strings.Contains(r.text, `"small"`) {
		t.Error(r.text)
	}
	w.add(worker, "slotted")
	if c := w.take(200, "/v1/tasks/next", worker, id(), object{"pool": "tests"}); c.State != "acquired" || len(c.Keys) != 2 {
		t.Errorf("%+v", c)
	}
	w.add(worker, "no slot")
	w.must(423, "POST", "/v1/tasks/next", worker, id(), object{"pool": "tests"})
}

func TestJobs(t *testing.T) {
	w := newWorld(t)
	w.job("nightly")
	viewer, operator := w.key(access.Viewer, "").Secret, w.key(access.Operator, "ops").Secret
	w.must(404, "POST", "/v1/jobs/trigger", operator, id(), object{"job": "nothing"})
	for _, read := range []string{"/v1/jobs", "/v1/jobs/show?job=nightly"} {
		r := w.must(200, "GET", read, viewer, "", nil)
		if !strings.Contains(r.text, `"nightly"`) || !strings.Contains(r.text, "PASSWORD") || strings.Contains(r.text, "hunter2") {
			t.Errorf("%s: %s", read, r.text)
		}
	}
	for _, change := range []string{"pause", "resume"} {
		r := w.must(200, "POST", "/v1/jobs/"+change, operator, "", object{"job": "nightly"})
		if out := parse[struct{ Paused bool }](w, r); out.Paused != (change == "pause") || strings.Contains(r.text, "hunter2") {
			t.Errorf("%s: %s", change, r.text)
		}
	}
	if out := parse[schedule.TriggerResult](w, w.must(200, "POST", "/v1/jobs/trigger", operator, id(), object{"job": "nightly"})); out.RunID == "" {
		t.Errorf("%+v", out)
	}
	w.must(200, "GET", "/v1/fires?job=nightly&limit=5", viewer, "", nil)
	w.must(400, "GET", "/v1/fires?limit=501", viewer, "", nil)
	w.must(404, "GET", "/v1/fires?job=nothing", viewer, "", nil)
	for _, path := range []string{"/v1/runners", "/v1/schedulers"} {
		if r := w.must(200, "GET", path, viewer, "", nil); !strings.Contains(r.text, strings.TrimPrefix(path, "/v1/")) {
			t.Errorf("%s: %s", path, r.text)
		}
	}
	for _, path := range []string{"/v1/jobs/add", "/v1/jobs/apply", "/v1/jobs/remove", "/v1/jobs/update"} { // remote execution
		w.must(404, "POST", path, operator, id(), object{})
	}
}

// wanted is who may do what with tasks, sections, pools and jobs.
var wanted = map[access.Role][]string{
	access.Viewer: {
		"GET /v1/tasks", "GET /v1/tasks/show", "GET /v1/tasks/counts", "GET /v1/sections", "GET /v1/pools",
		"GET /v1/jobs", "GET /v1/jobs/show", "GET /v1/fires", "GET /v1/runners", "GET /v1/schedulers",
		"GET /v1/locks", "GET /v1/locks/show", "GET /v1/locks/check", "GET /v1/locks/wait",
	},
	access.Worker: {
		"POST /v1/tasks/next", "POST /v1/tasks/claim", "POST /v1/tasks/complete", "POST /v1/tasks/fail", "POST /v1/tasks/unclaim",
		"POST /v1/tasks/block", "POST /v1/tasks/unblock", "POST /v1/tasks/progress", "POST /v1/tasks/add",
		"POST /v1/locks/acquire", "POST /v1/locks/renew", "POST /v1/locks/release",
	},
	access.Operator: {
		"POST /v1/tasks/reset", "POST /v1/tasks/archive", "POST /v1/sections/update", "POST /v1/sections/skip", "POST /v1/pools/set",
		"POST /v1/jobs/trigger", "POST /v1/jobs/pause", "POST /v1/jobs/resume", "POST /v1/locks/break", "POST /v1/cleanup",
	},
}

// TestRoles: every operation of the server refuses everybody without a key, each lower
// role, and a peer. Those of the table have the role that is written there.
func TestRoles(t *testing.T) {
	w := newWorld(t)
	roles := w.server.Roles()
	for role, list := range wanted {
		for _, name := range list {
			if roles[name] != role {
				t.Errorf("%s needs the role %q, want %s", name, roles[name], role)
			}
		}
	}
	keys := map[access.Role]string{}
	for _, role := range access.Roles {
		keys[role] = w.key(role, "ci").Secret
	}
	for name, need := range roles {
		method, path, _ := strings.Cut(name, " ")
		refused(w, 401, method, path, "")
		refused(w, 401, method, path, "tl_wrong_key")
		for _, role := range access.Roles {
			if !role.Allows(need) {
				refused(w, 403, method, path, keys[role])
			}
		}
	}
}

// refused requires that a request gets no further than its key.
func refused(w *world, status int, method, path, key string) {
	w.Helper()
	code := map[int]string{401: "UNAUTHORIZED", 403: "PERMISSION_DENIED"}[status]
	var body any
	if method == "POST" {
		body = "no JSON"
	}
	if r := w.must(status, method, path, key, id(), body); r.Code != code {
		w.Errorf("%s %s: %+v", method, path, r)
	}
}
