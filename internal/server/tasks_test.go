package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/server"
	"github.com/tasklock/tasklock/task"
)

// claimed is what next and claim answer.
type claimed struct {
	State, LeaseID, Owner string
	Token                 int64
	Keys                  []struct {
		Key   string
		Token int64
	}
	Tasks []struct{ ID, Title, Status, Progress, ClaimedBy string }

	Repeated bool
}

func parse[T any](w *world, r reply) (out T) {
	w.Helper()
	if err := json.Unmarshal([]byte(r.text), &out); err != nil {
		w.Fatal(err, r.text)
	}
	return out
}

func (w *world) take(status int, path, key, request string, body object) claimed {
	w.Helper()
	return parse[claimed](w, w.must(status, "POST", path, key, request, body))
}

// of is what the verbs need to know of a claim.
func (c claimed) of(task string, more object) object {
	body := object{"task": task, "lease": c.LeaseID}
	for _, k := range c.Keys {
		if k.Key == task {
			body["token"] = k.Token
		}
	}
	for name, v := range more {
		body[name] = v
	}
	return body
}

func (w *world) add(key string, titles ...string) []string {
	w.Helper()
	list := []object{}
	for _, t := range titles {
		list = append(list, object{"title": t})
	}
	var ids []string
	for _, t := range w.take(200, "/v1/tasks/add", key, id(), object{"tasks": list}).Tasks {
		ids = append(ids, t.ID)
	}
	return ids
}

func (w *world) status(task string) string {
	w.Helper()
	out := parse[struct{ Status string }](w, w.must(200, "GET", "/v1/tasks/show?task="+task, w.key(access.Viewer, "").Secret, "", nil))
	return out.Status
}

// TestTasks is the life of tasks, by curl as it were.
func TestTasks(t *testing.T) {
	w := newWorld(t)
	worker, viewer, operator := w.key(access.Worker, "ci").Secret, w.key(access.Viewer, "").Secret, w.key(access.Operator, "ops").Secret
	if c := w.take(200, "/v1/tasks/next", worker, id(), object{}); c.State != "none" || len(c.Tasks) != 0 {
		t.Errorf("%+v", c)
	}
	added := w.take(200, "/v1/tasks/add", worker, id(), object{"tasks": []object{
		{"title": "one", "section": "S", "priority": 100}, {"title": "two", "dependsOn": []string{"one"}}, {"title": "part", "parent": "t1"},
	}})
	if len(added.Tasks) != 3 || added.Tasks[2].ID != "t1_1" {
		t.Fatalf("%+v", added)
	}
	w.must(404, "POST", "/v1/tasks/claim", worker, id(), object{"tasks": []string{"nothing"}})

	first := id()
	c := w.take(200, "/v1/tasks/next", worker, first, object{"section": "S"})
	if c.State != "acquired" || c.Owner != "ci/"+first || len(c.Tasks) != 1 || c.Tasks[0].ID != "t1" || c.Tasks[0].ClaimedBy != c.Owner {
		t.Fatalf("%+v", c)
	}
	if lk, err := lease.Check(t.Context(), w.st, lease.CheckRequest{Key: "t1"}); err != nil || lk.Lock.PID != 0 || lk.Lock.Host != "" {
		t.Errorf("%+v %v", lk.Lock, err)
	}
	w.must(200, "POST", "/v1/locks/renew", worker, "", object{"lease": c.LeaseID, "token": c.Token})
	if out := parse[struct{ Progress string }](w, w.must(200, "POST", "/v1/tasks/progress", worker, "", c.of("t1", object{"note": "half"}))); out.Progress != "half" {
		t.Errorf("%+v", out)
	}
	for _, filter := range []string{"", "?status=in_progress", "?owner=ci", "?section=S", "?status=in_progress&status=blocked"} {
		if r := w.must(200, "GET", "/v1/tasks"+filter, viewer, "", nil); !strings.Contains(r.text, `"t1"`) {
			t.Errorf("%s: %s", filter, r.text)
		}
	}
	w.must(400, "GET", "/v1/tasks?nothing=1", viewer, "", nil)
	for _, repeated := range []bool{false, true} { // a lost reply
		out := w.take(200, "/v1/tasks/complete", worker, "", c.of("t1", object{"result": object{"summary": "done", "commits": []string{"abc"}}}))
		if out.Repeated != repeated || out.Tasks[0].Status != "completed" {
			t.Errorf("%+v", out)
		}
	}
	if counts := parse[task.Stats](w, w.must(200, "GET", "/v1/tasks/counts", viewer, "", nil)); counts.Status[task.Completed] != 1 || counts.Total != 3 {
		t.Errorf("%+v", counts)
	}

	c = w.take(200, "/v1/tasks/claim", worker, id(), object{"tasks": []string{"t2", "t1_1"}})
	if c.State != "acquired" || len(c.Tasks) != 2 || len(c.Keys) != 2 {
		t.Fatalf("%+v", c)
	}
	w.must(423, "POST", "/v1/tasks/claim", worker, id(), object{"tasks": []string{"t2"}, "wait": "0s"})
	w.take(200, "/v1/tasks/fail", worker, "", c.of("t2", object{"reason": "no"}))
	w.take(200, "/v1/tasks/unclaim", worker, "", c.of("t1_1", nil))
	if w.status("t2") != "failed" || w.status("t1_1") != "pending" {
		t.Errorf("%s, %s", w.status("t2"), w.status("t1_1"))
	}
	w.take(200, "/v1/tasks/block", worker, "", object{"task": "t1_1", "reason": "waits for a person"})
	if w.status("t1_1") != "blocked" {
		t.Error(w.status("t1_1"))
	}
	w.take(200, "/v1/tasks/unblock", worker, "", object{"task": "t1_1"})
	c = w.take(200, "/v1/tasks/claim", worker, id(), object{"tasks": []string{"t1_1"}})
	w.must(403, "POST", "/v1/tasks/block", worker, "", object{"task": "t1_1"}) // another client with the same key
	w.take(200, "/v1/tasks/block", worker, "", c.of("t1_1", object{"reason": "why"}))

	w.take(200, "/v1/tasks/reset", operator, "", object{"tasks": []string{"t2"}})
	w.take(200, "/v1/tasks/archive", operator, "", object{"closed": true})
	if r := w.must(200, "GET", "/v1/tasks?archived=true", viewer, "", nil); !strings.Contains(r.text, `"t1"`) || w.status("t2") != "pending" {
		t.Error(r.text)
	}
}

// TestRepeatedWork: the same request again has one effect and the same answer, at any
// server; the same Idempotency-Key for something else is refused.
func TestRepeatedWork(t *testing.T) {
	w := newWorld(t)
	other := w.serve(server.Options{})
	ci, bob, operator := w.key(access.Worker, "ci").Secret, w.key(access.Worker, "bob").Secret, w.key(access.Operator, "ops").Secret
	w.job("nightly")
	w.add(ci, "one", "two", "three", "four")
	for _, c := range []struct {
		path, key    string
		body, differ object
		same         func(reply) string
	}{
		{"/v1/tasks/add", ci, object{"tasks": []object{{"title": "x"}}}, object{"tasks": []object{{"title": "y"}}}, func(r reply) string { return parse[claimed](w, r).Tasks[0].ID }},
		{"/v1/tasks/next", ci, object{}, object{"label": "x"}, func(r reply) string { return parse[claimed](w, r).Tasks[0].ID + r.LeaseID }},
		{"/v1/tasks/claim", ci, object{"tasks": []string{"t3"}, "wait": "0s"}, object{"tasks": []string{"t4"}, "wait": "0s"}, func(r reply) string { return fmt.Sprint(r.LeaseID, r.Token) }},
		{"/v1/locks/acquire", ci, object{"keys": []string{"k"}}, object{"keys": []string{"k"}, "ttl": "5m"}, func(r reply) string { return fmt.Sprint(r.LeaseID, r.Token) }},
		{"/v1/jobs/trigger", operator, object{"job": "nightly"}, object{"job": "other"}, func(r reply) string { return parse[struct{ RunID string }](w, r).RunID }},
	} {
		request := id()
		w.must(400, "POST", c.path, c.key, "", c.body)
		first := c.same(w.must(200, "POST", c.path, c.key, request, c.body))
		if again := c.same(w.at(other, 200, "POST", c.path, c.key, request, c.body)); again != first || first == "" {
			t.Errorf("%s: %q after %q", c.path, again, first)
		}
		if r := w.at(other, 422, "POST", c.path, c.key, request, c.differ); r.Code != "REQUEST_ID_USED" {
			t.Errorf("%s: %+v", c.path, r)
		}
		if c.key == ci && c.path == "/v1/tasks/add" { // of another owner it is another request
			if r := c.same(w.must(200, "POST", c.path, bob, request, c.body)); r == first {
				t.Errorf("%s: %q", c.path, r)
			}
		}
	}
	// A repeated reset does not undo what was done since.
	request := id()
	reset := object{"tasks": []string{"t4"}}
	w.take(200, "/v1/tasks/reset", operator, request, reset)
	c := w.take(200, "/v1/tasks/claim", ci, id(), object{"tasks": []string{"t4"}})
	w.take(200, "/v1/tasks/complete", ci, "", c.of("t4", nil))
	if out := w.take(200, "/v1/tasks/reset", operator, request, reset); !out.Repeated || w.status("t4") != "completed" {
		t.Errorf("%+v", out)
	}
	if r := w.must(200, "GET", "/v1/jobs/show?job=nightly", operator, "", nil); !strings.Contains(r.text, `"triggered":1`) {
		t.Error(r.text)
	}
	if counts := parse[task.Stats](w, w.must(200, "GET", "/v1/tasks/counts", ci, "", nil)); counts.Total != 6 || counts.Status[task.InProgress] != 2 {
		t.Errorf("%+v", counts)
	}
}

// TestClaimsWait: a claim of what another client has goes into the queue, and goes on
// with the same Idempotency-Key, also with another wait.
func TestClaimsWait(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Worker, "ci").Secret
	w.add(key, "one")
	c := w.take(200, "/v1/tasks/claim", key, id(), object{"tasks": []string{"t1"}})
	second := id()
	if r := w.must(202, "POST", "/v1/tasks/claim", key, second, object{"tasks": []string{"t1"}, "wait": "1ms"}); r.State != "queued" || r.Position != 1 {
		t.Errorf("%+v", r)
	}
	w.take(200, "/v1/tasks/unclaim", key, "", c.of("t1", nil))
	if r := w.take(200, "/v1/tasks/claim", key, second, object{"tasks": []string{"t1"}}); r.State != "acquired" || r.Tasks[0].ID != "t1" {
		t.Errorf("%+v", r)
	}
	done := make(chan reply)
	go func() {
		r, _ := w.call("POST", "/v1/tasks/next", key, id(), object{"wait": "50s"})
		done <- r
	}()
	w.add(key, "two")
	if r := <-done; r.State != "acquired" {
		t.Errorf("%+v", r)
	}
}

// TestClaimsOfOthers: a token opens nothing without the lease of the claim, and that
// lease must be below the owner of the access key.
func TestClaimsOfOthers(t *testing.T) {
	w := newWorld(t)
	ci, bob, below := w.key(access.Worker, "ci").Secret, w.key(access.Worker, "bob").Secret, w.key(access.Worker, "ci2").Secret
	w.add(ci, "one")
	c := w.take(200, "/v1/tasks/next", ci, id(), object{})
	mine := w.take(200, "/v1/tasks/add", bob, id(), object{"tasks": []object{{"title": "of bob"}}}).Tasks[0].ID
	own := w.take(200, "/v1/tasks/claim", bob, id(), object{"tasks": []string{mine}})
	show := func() string { // but for the heartbeat, whose time is counted from its age
		i := parse[task.Info](w, w.must(200, "GET", "/v1/tasks/show?task=t1", ci, "", nil))
		return fmt.Sprint(i.Status, i.Token, i.ClaimLease, i.Progress, i.UpdatedAt, i.Lock != nil)
	}
	before := show()
	verbs := []string{"complete", "fail", "unclaim", "block", "progress"}
	attack := func(when string) {
		t.Helper()
		for _, verb := range verbs {
			path := "/v1/tasks/" + verb
			for _, key := range []string{bob, below} {
				w.must(403, "POST", path, key, "", c.of("t1", nil))
			}
			body := c.of("t1", nil)
			body["lease"] = own.LeaseID // its own, with the token of another owner
			if r := w.must(412, "POST", path, bob, "", body); r.Code != "LEASE_LOST" {
				t.Errorf("%s, %s: %+v", when, verb, r)
			}
			for _, hole := range []object{{"lease": ""}, {"token": 0}, {"token": -1}} {
				w.must(400, "POST", path, bob, "", c.of("t1", hole))
			}
		}
		if now := show(); now != before {
			t.Errorf("%s: %s, before: %s", when, now, before)
		}
	}
	attack("while it is claimed")
	w.take(200, "/v1/tasks/complete", ci, "", c.of("t1", nil))
	before = show()
	attack("when it is completed")
	w.take(200, "/v1/tasks/complete", bob, "", own.of(mine, nil))
	w.must(403, "POST", "/v1/tasks/block", bob, "", w.take(200, "/v1/tasks/claim", ci, id(), object{"tasks": w.add(ci, "two")}).of("t3", nil))
}

// TestSectionsOverHTTP: a lock on a task of an exclusive section is one on the section
// too, whichever operation takes it, and clients that share a key exclude each other there.
func TestSectionsOverHTTP(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Worker, "ci").Secret
	w.take(200, "/v1/tasks/add", key, id(), object{"tasks": []object{{"title": "one", "section": "S"}, {"title": "two", "section": "S"}}})
	g := w.must(200, "POST", "/v1/locks/acquire", key, id(), object{"keys": []string{"t1"}})
	if lk, err := lease.Check(t.Context(), w.st, lease.CheckRequest{Key: "section:S"}); err != nil || lk.Lock == nil || lk.Lock.LeaseID != g.LeaseID {
		t.Errorf("%+v %v", lk, err)
	}
	if c := w.take(200, "/v1/tasks/next", key, id(), object{}); c.State != "none" {
		t.Errorf("%+v", c)
	}
	w.must(423, "POST", "/v1/tasks/claim", key, id(), object{"tasks": []string{"t2"}, "wait": "0s"})
}

// TestOneKeyManyClaimers: sixteen clients with one access key, at two servers, work
// through fifty tasks: each goes to one of them.
func TestOneKeyManyClaimers(t *testing.T) {
	const tasks, clients = 50, 16
	w := newWorld(t)
	servers := []*replica{w.replica, w.serve(server.Options{})}
	key := w.key(access.Worker, "ci").Secret
	titles := make([]string, tasks)
	for i := range titles {
		titles[i] = fmt.Sprint("task ", i)
	}
	ids := w.add(key, titles...)
	var mu sync.Mutex
	var got []string
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for round := 0; ; round++ {
				at := servers[(i+round)%2]
				r, err := at.call("POST", "/v1/tasks/next", key, id(), object{})
				if err != nil || r.status != 200 {
					t.Errorf("%+v %v", r, err)
					return
				}
				if r.State == "none" {
					return
				}
				var c claimed
				if err := json.Unmarshal([]byte(r.text), &c); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got = append(got, c.Tasks[0].ID)
				mu.Unlock()
				if r, err := servers[i%2].call("POST", "/v1/tasks/complete", key, "", c.of(c.Tasks[0].ID, nil)); err != nil || r.status != 200 {
					t.Errorf("%+v %v", r, err)
				}
			}
		})
	}
	all.Wait()
	slices.Sort(ids)
	if slices.Sort(got); !slices.Equal(got, ids) {
		t.Errorf("%d tasks went to %d claims: %q", len(ids), len(got), got)
	}
	if counts := parse[task.Stats](w, w.must(200, "GET", "/v1/tasks/counts", key, "", nil)); counts.Status[task.Completed] != tasks {
		t.Errorf("%+v", counts)
	}
}
