package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/mcpserver"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/task"
)

func TestFewTools(t *testing.T) {
	c := newWorld(t).stdio("alice")
	var names []string
	size := len(c.s.InitializeResult().Instructions)
	for tool, err := range c.s.Tools(t.Context(), nil) {
		c.w.must(err)
		names = append(names, tool.Name)
		text, err := json.Marshal(tool)
		c.w.must(err)
		size += len(text)
		if strings.Contains(tool.Name+tool.Description, "force") || strings.Contains(tool.Name, "break") {
			t.Errorf("%s: %s", tool.Name, tool.Description)
		}
	}
	if got := strings.Join(names, " "); got != "acquire add claim complete release status tasks wait" {
		t.Error(got)
	}
	// names, descriptions and schemas, also what clients keep from the model
	if tokens := float64(size) / 3.5; len(names) > 8 || tokens > 1200 {
		t.Errorf("%d tools cost each session about %.0f tokens, at most 8 and 1,200", len(names), tokens)
	}
}

// TestNormalPath: claim, work, complete, in one call each.
func TestNormalPath(t *testing.T) {
	w := newWorld(t)
	ids := w.addTasks("Core", "Parse tokens", "Print the tree")
	c := w.stdio("alice")
	r := w.want(c.call("claim", args{}), "acquired")
	if r.Task != ids[0] || r.Lease == "" || r.Token == 0 || r.Tokens["section:Core"] != r.Token || r.Text != "Parse tokens" || r.UntrustedText != "" {
		t.Errorf("%+v", r)
	}
	if !w.locked(ids[0]) {
		t.Error("a claim is a lock")
	}
	w.want(c.call("claim", args{}), "nothing_ready") // the section is taken
	done := w.want(c.call("complete", args{"lease": r.Lease, "summary": "with tests", "commits": []string{"4f2a1c0"}}), "completed")
	if done.Task != ids[0] || w.locked(ids[0]) || w.locked("section:Core") {
		t.Errorf("%+v", done)
	}
	w.want(c.call("complete", args{"lease": r.Lease}), "completed") // the reply may have been lost
	w.want(c.call("release", args{"lease": r.Lease}), "completed")
	show, err := task.Show(t.Context(), w.st, ids[0])
	w.must(err)
	if show.Status != task.Completed || show.Result.Summary != "with tests" {
		t.Errorf("%+v", show)
	}

	r = w.want(c.call("claim", args{"task": "Print the tree"}), "acquired")
	w.want(c.call("complete", args{"lease": r.Lease, "outcome": "failed", "summary": "no paper"}), "failed")
	w.want(c.call("claim", args{"task": ids[0]}), "error")
	w.want(c.call("claim", args{"task": "Parse tokens", "section": "Core"}), "error")
	w.want(c.call("claim", args{"task": "no such"}), "error")
}

// TestTaskTools: a session can see the list, read a task whole, and add to it.
func TestTaskTools(t *testing.T) {
	w := newWorld(t)
	c := w.stdio("alice")
	long := strings.Repeat("Zeile über Zeile\n", 1000) + "the end"
	first := w.want(c.call("add", args{"title": "Port the parser", "description": long, "section": "Core", "priority": 1}), "added")
	second := w.want(c.call("add", args{"title": "Ship\tit", "depends_on": []string{first.Task}}), "added")
	w.want(c.call("add", args{"title": ""}), "error")
	w.want(c.call("add", args{"title": "x", "depends_on": []string{"no such"}}), "error")

	list := w.want(c.call("tasks", args{}), "listed")
	if len(list.Tasks) != 2 || list.Tasks[1].Task != first.Task || list.Tasks[1].State != "ready" || list.Tasks[1].Section != "Core" || list.Tasks[0].State != "pending" || list.Tasks[0].Title != "Ship it" {
		t.Errorf("%+v", list)
	}
	if l := w.want(c.call("tasks", args{"status": "ready"}), "listed"); len(l.Tasks) != 1 || l.Tasks[0].Title != "Port the parser" {
		t.Errorf("%+v", l)
	}
	if l := w.want(c.call("tasks", args{"status": "completed", "section": "Core"}), "listed"); len(l.Tasks) != 0 {
		t.Errorf("%+v", l)
	}
	w.want(c.call("tasks", args{"status": "done"}), "error")
	w.want(c.call("tasks", args{"task": "no such"}), "error")

	// a claim has the beginning of a long text, and says how to read the rest
	r := w.want(c.call("claim", args{}), "acquired")
	head, tail, ok := strings.Cut(r.Text, "\n… and ")
	if !ok || len(head) > task.MaxText || len(head) < task.MaxText-4 || !strings.HasPrefix(r.Text, "Port the parser\n\nZeile über") || !strings.HasSuffix(tail, fmt.Sprintf("more: call tasks with {\"task\": %q}", first.Task)) {
		t.Errorf("%d bytes, then %q", len(head), tail)
	}
	show := w.want(c.call("tasks", args{"task": first.Task}), "in_progress")
	if show.Text != "Port the parser\n\n"+long || show.Holder == "" || show.UntrustedText != "" {
		t.Errorf("%+v", show)
	}
	if waits := w.want(c.call("tasks", args{"task": second.Task}), "pending"); len(waits.Tasks) != 1 || waits.Tasks[0].Task != first.Task {
		t.Errorf("%+v", waits)
	}
	for i := range maxLines + 5 {
		w.addTasks("", fmt.Sprint("more ", i))
	}
	if l := w.want(c.call("tasks", args{}), "listed"); len(l.Tasks) != maxLines || l.More != 7 || l.Next == "" {
		t.Errorf("%d tasks and %d more", len(l.Tasks), l.More)
	}
}

const maxLines = 20

// TestCompleteAndNext: one call completes a task and claims the next, in the
// section that was asked for.
func TestCompleteAndNext(t *testing.T) {
	w := newWorld(t)
	ids := w.addTasks("Core", "one", "two")
	w.addTasks("", "elsewhere")
	c := w.stdio("alice")
	r := w.want(c.call("claim", args{"section": "Core"}), "acquired")
	done := w.want(c.call("complete", args{"lease": r.Lease, "next": true}), "completed")
	if done.Task != ids[0] || done.Claimed == nil || done.Claimed.Task != ids[1] || done.Claimed.Text != "two" || done.Claimed.Lease == r.Lease || !w.locked(ids[1]) || w.locked(ids[0]) {
		t.Fatalf("%+v", done)
	}
	again := w.want(c.call("complete", args{"lease": r.Lease, "next": true}), "completed") // the reply may have been lost
	if again.Claimed == nil || again.Claimed.Lease != done.Claimed.Lease {
		t.Errorf("%+v", again)
	}
	last := w.want(c.call("complete", args{"lease": done.Claimed.Lease, "outcome": "failed", "next": true}), "failed")
	if last.Claimed != nil || !strings.Contains(last.Next, "nothing is ready") || w.locked("section:Core") {
		t.Errorf("%+v", last)
	}

	r = w.want(c.call("claim", args{}), "acquired")
	more := w.addTasks("", "after")
	_, err := lease.Break(t.Context(), w.st, lease.BreakRequest{Keys: []string{r.Task}, By: "bob", Reason: "test"})
	w.must(err)
	w.want(c.call("complete", args{"lease": r.Lease, "next": true}), "lost")
	if w.locked(more[0]) {
		t.Error("claimed after a loss")
	}
}

func TestHeldIsAnAnswer(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.stdio("alice"), w.stdio("bob")
	r := w.want(alice.call("acquire", args{"keys": []string{"b", "a"}, "reason": "refactoring"}), "acquired")
	h := w.want(bob.call("acquire", args{"keys": []string{"a", "c"}}), "held")
	if h.Key != "a" || !strings.HasPrefix(h.Holder, "alice/mcp-") || h.ExpiresInSeconds < 200 || h.Next == "" || !strings.HasSuffix(h.UntrustedText, ": refactoring") {
		t.Errorf("%+v", h)
	}
	if w.locked("c") {
		t.Error("a batch is all or nothing")
	}
	w.want(alice.call("acquire", args{"keys": []string{"a"}}), "held") // another handle is another holder
	s := w.want(bob.call("status", args{}), "held")
	if len(s.Others) != 2 || len(s.Mine) != 0 || s.Others[0].Key != "a" || s.UntrustedText != "" {
		t.Errorf("%+v", s)
	}
	s = w.want(alice.call("status", args{}), "held")
	if len(s.Mine) != 2 || s.Mine[0].Lease != r.Lease || s.Mine[0].State != "acquired" {
		t.Errorf("one that forgot its handle gets it again: %+v", s)
	}
	w.want(bob.call("status", args{"key": "c"}), "free")
	w.want(bob.call("release", args{"lease": r.Lease}), "error") // alice's server, alice's handle
	w.want(alice.call("release", args{"lease": r.Lease}), "released")
	w.want(alice.call("release", args{"lease": r.Lease}), "released")
	w.want(alice.call("status", args{}), "free")
	w.want(bob.call("acquire", args{"keys": []string{"a"}}), "acquired")
}

// TestPool: the acquire tool takes slots and names them; a full pool is an answer.
func TestPool(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.stdio("alice"), w.stdio("bob")
	keys := []string{"pool:tests"}
	if r := w.want(alice.call("acquire", args{"keys": keys}), "error"); r.Code != "POOL_UNKNOWN" || r.Message != "there is no such pool: call again with slots" {
		t.Errorf("%+v", r)
	}
	first := w.want(alice.call("acquire", args{"keys": keys, "slots": 2}), "acquired")
	if len(first.Slots) != 1 || first.Tokens[fmt.Sprintf("pool:tests#%d", first.Slots[0])] != first.Token {
		t.Errorf("%+v", first)
	}
	if r := w.want(bob.call("status", args{"key": "pool:tests"}), "free"); r.Used != 1 || r.Size != 2 {
		t.Errorf("%+v", r)
	}
	if r := w.want(bob.call("acquire", args{"keys": keys, "take": -1}), "held"); r.Used != 1 || r.Size != 2 || !strings.HasPrefix(r.Holder, "alice/") {
		t.Errorf("%+v", r)
	}
	if r := w.want(bob.call("acquire", args{"keys": keys, "slots": 3}), "error"); r.Code != "POOL_SIZE" {
		t.Errorf("%+v", r)
	}
	second := w.want(bob.call("acquire", args{"keys": keys}), "acquired")
	if r := w.want(alice.call("status", args{"key": "pool:tests"}), "held"); r.Used != 2 || r.Size != 2 {
		t.Errorf("%+v", r)
	}
	w.want(alice.call("release", args{"lease": first.Lease}), "released")
	w.want(bob.call("release", args{"lease": second.Lease}), "released")
	if r := w.want(bob.call("acquire", args{"keys": keys, "take": -1}), "acquired"); !slices.Equal(r.Slots, []int{1, 2}) {
		t.Errorf("%+v", r)
	}
}

func TestQueue(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.stdio("alice"), w.stdio("bob")
	first := w.want(alice.call("acquire", args{"keys": []string{"a"}}), "acquired")
	q := w.want(bob.call("acquire", args{"keys": []string{"a"}, "wait_seconds": 0.05}), "queued")
	if q.Ticket == "" || q.Lease != "" || q.Position != 1 || q.Holder == "" {
		t.Errorf("%+v", q)
	}
	if n := <-bob.told; n.ProgressToken != "progress of acquire" || !strings.HasPrefix(n.Message, "waiting") || n.Total == 0 {
		t.Errorf("%+v", n)
	}
	late := w.want(alice.call("acquire", args{"keys": []string{"a"}, "wait_seconds": 0.05}), "queued")
	if late.Position != 2 {
		t.Errorf("%+v", late)
	}
	if again := w.want(bob.call("wait", args{"ticket": q.Ticket, "seconds": 0.05}), "queued"); again.Position != 1 || again.Ticket != q.Ticket {
		t.Errorf("the place is kept: %+v", again)
	}
	w.want(bob.call("complete", args{"lease": q.Ticket}), "error")
	w.want(alice.call("release", args{"lease": first.Lease}), "released")
	w.want(alice.call("wait", args{"ticket": late.Ticket, "seconds": 0.05}), "queued") // bob was first
	got := w.want(bob.call("wait", args{"ticket": q.Ticket}), "acquired")
	if got.Lease != q.Ticket || got.Token <= first.Token {
		t.Errorf("%+v", got)
	}
	w.want(bob.call("wait", args{"ticket": q.Ticket}), "acquired") // the reply may have been lost
	w.want(alice.call("release", args{"lease": late.Ticket}), "released")
	if n := w.waiters("a"); n != 0 {
		t.Errorf("%d still wait", n)
	}
	w.want(bob.call("release", args{"lease": got.Lease}), "released")
}

// Two sessions that wait for each other's leases would wait for ever.
func TestCircle(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.stdio("alice"), w.stdio("bob")
	w.want(alice.call("acquire", args{"keys": []string{"a"}}), "acquired")
	mine := w.want(bob.call("acquire", args{"keys": []string{"b"}}), "acquired")
	served := make(chan mcpserver.Result, 1)
	go func() {
		r, err := alice.try(t.Context(), "acquire", args{"keys": []string{"b"}, "wait_seconds": 45})
		if err != nil {
			t.Error(err)
		}
		served <- r
	}()
	patience.Until(w, "alice waits", func() bool { return w.waiters("b") == 1 })
	r := w.want(bob.call("acquire", args{"keys": []string{"a"}, "wait_seconds": 45}), "error")
	if !strings.Contains(r.Message, "never end") || !strings.Contains(r.Next, "release") {
		t.Errorf("%+v", r)
	}
	w.want(bob.call("release", args{"lease": mine.Lease}), "released")
	w.want(<-served, "acquired")
}

func TestClaimWaitsInLine(t *testing.T) {
	w := newWorld(t)
	ids := w.addTasks("", "Fix bug")
	alice, bob := w.stdio("alice"), w.stdio("bob")
	a := w.want(alice.call("claim", args{"task": ids[0]}), "acquired")
	q := w.want(bob.call("claim", args{"task": ids[0], "wait_seconds": 0.05}), "queued")
	w.want(alice.call("release", args{"lease": a.Lease}), "released") // undone
	b := w.want(bob.call("wait", args{"ticket": q.Ticket}), "acquired")
	if b.Task != ids[0] || b.Token <= a.Token {
		t.Errorf("%+v", b)
	}
	w.want(bob.call("complete", args{"lease": b.Lease, "outcome": "review"}), "review")
}

// TestLost: the client hears of a lost lease, and what it reports under it changes
// nothing.
func TestLost(t *testing.T) {
	w := newWorld(t)
	ids := w.addTasks("", "Fix bug")
	c := w.stdio("alice")
	r := w.want(c.call("claim", args{}), "acquired")
	_, err := lease.Break(t.Context(), w.st, lease.BreakRequest{Keys: ids, By: "bob", Reason: "test"})
	w.must(err)
	if s := c.call("status", args{}); len(s.Mine) != 1 || s.Mine[0].State != "lost" {
		t.Errorf("%+v", s)
	}
	_, other, err := task.HoldTasks(t.Context(), w.st, task.ClaimRequest{Tasks: ids, Acquire: lease.AcquireRequest{Owner: "bob"}})
	w.must(err)
	l := w.want(c.call("complete", args{"lease": r.Lease}), "lost")
	if l.Code != "LEASE_LOST" || l.Message == "" {
		t.Errorf("%+v", l)
	}
	w.want(c.call("release", args{"lease": r.Lease}), "lost")
	if show, err := task.Show(t.Context(), w.st, ids[0]); err != nil || show.Status != task.InProgress || other.Err() != nil {
		t.Errorf("%+v %v", show, err)
	}
	w.must(other.Release(t.Context()))
}

// TestEndGivesBack: the server ends with its client, and everything is free.
func TestEndGivesBack(t *testing.T) {
	w := newWorld(t)
	ids := w.addTasks("Core", "Fix bug")
	alice, bob := w.stdio("alice"), w.stdio("bob")
	w.want(bob.call("acquire", args{"keys": []string{"b"}}), "acquired")
	w.want(alice.call("acquire", args{"keys": []string{"a"}}), "acquired")
	w.want(alice.call("claim", args{}), "acquired")
	w.want(alice.call("acquire", args{"keys": []string{"b"}, "wait_seconds": 0.05}), "queued")
	pending := make(chan error, 1)
	go func() {
		_, err := alice.try(context.Background(), "acquire", args{"keys": []string{"b"}, "wait_seconds": 45})
		pending <- err
	}()
	patience.Until(w, "two wait", func() bool { return w.waiters("b") == 2 })
	alice.close()
	if err := <-pending; err == nil {
		t.Error("a call outlived its server")
	}
	if w.locked("a") || w.locked(ids[0]) || w.locked("section:Core") || w.waiters("b") != 0 || !w.locked("b") {
		t.Error("something was left behind, or too much released")
	}
}

// TestCancelledCall: a client that gives up leaves the queue and nothing else.
func TestCancelledCall(t *testing.T) {
	w := newWorld(t)
	_, h := w.http("shared")
	for name, c := range map[string]*client{"stdio": w.stdio("alice"), "http": w.httpClient(h)} {
		holder := w.stdio("bob")
		w.want(holder.call("acquire", args{"keys": []string{name}}), "acquired")
		mine := w.want(c.call("acquire", args{"keys": []string{"mine of " + name}}), "acquired")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := c.try(ctx, "acquire", args{"keys": []string{name}, "wait_seconds": 45})
			ended <- err
		}()
		patience.Until(w, "it waits", func() bool { return w.waiters(name) == 1 })
		cancel()
		if err := <-ended; err == nil {
			t.Error("not cancelled")
		}
		patience.Until(w, "it left the queue", func() bool { return w.waiters(name) == 0 })
		if !w.locked("mine of " + name) {
			t.Error("released by surprise")
		}
		w.want(c.call("release", args{"lease": mine.Lease}), "released")
		holder.close()
		if w.locked(name) {
			t.Error("granted to one that had gone")
		}
	}
}

// TestSharedServer: whoever shares a server shares neither locks nor handles.
func TestSharedServer(t *testing.T) {
	w := newWorld(t)
	_, h := w.http("shared")
	a, b := w.httpClient(h), w.httpClient(h)
	r := w.want(a.call("acquire", args{"keys": []string{"x"}}), "acquired")
	if held := w.want(b.call("acquire", args{"keys": []string{"x"}}), "held"); held.Lease != "" {
		t.Errorf("%+v", held)
	}
	for _, c := range []*client{a, b} {
		if s := c.call("status", args{}); len(s.Mine) != 1 || s.Mine[0].Lease != "" || s.Mine[0].Ticket != "" {
			t.Errorf("a handle in a list: %+v", s)
		}
	}
	w.want(b.call("release", args{"lease": strings.ToLower(r.Lease)}), "error")
	if err := a.s.Close(); err != nil {
		t.Log(err)
	}
	if !w.locked("x") {
		t.Error("a lock belongs to its handle, not to a session")
	}
	w.want(b.call("release", args{"lease": r.Lease}), "released") // who was given the handle may use it
}

// TestRace: two sessions want the same task, through one server and through
// two; one gets it.
func TestRace(t *testing.T) {
	rounds := 30
	w := newWorld(t)
	_, h := w.http("shared")
	clients := []*client{w.httpClient(h), w.httpClient(h), w.stdio("alice"), w.stdio("bob")}
	for range rounds {
		id := w.addTasks("", "race")[0]
		won := make(chan string, len(clients))
		for i, c := range clients {
			go func() {
				in := args{}
				if i%2 == 0 {
					in["task"] = id
				}
				r, err := c.try(t.Context(), "claim", in)
				if err != nil || r.State != "acquired" {
					won <- ""
					return
				}
				done, err := c.try(t.Context(), "complete", args{"lease": r.Lease})
				if err != nil || done.State != "completed" {
					won <- "not completed: " + done.State
					return
				}
				won <- r.Task
			}()
		}
		winners := 0
		for range clients {
			switch got := <-won; got {
			case "":
			case id:
				winners++
			default:
				t.Fatal(got)
			}
		}
		if winners != 1 {
			t.Fatalf("%d winners of %s", winners, id)
		}
	}
}

// TestAddRepeated: a client that does not know whether its call arrived repeats it.
func TestAddRepeated(t *testing.T) {
	w := newWorld(t)
	c := w.stdio("alice")
	first := w.want(c.call("add", args{"title": "one", "request_id": "r1"}), "added")
	again := w.want(c.call("add", args{"title": "one", "request_id": "r1"}), "added")
	if first.Task == "" || again.Task != first.Task {
		t.Errorf("%+v after %+v", again, first)
	}
	if other := w.want(c.call("add", args{"title": "two", "request_id": "r1"}), "error"); other.Code != "REQUEST_ID_USED" {
		t.Errorf("%+v", other)
	}
}
