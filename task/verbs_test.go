package task_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// life is the table of a task's life, written down a second time.
var life = map[task.Verb]struct {
	to   task.Status
	from []task.Status
}{
	task.Claim:    {task.InProgress, []task.Status{task.Pending, task.Review}},
	task.Unclaim:  {task.Pending, []task.Status{task.InProgress}},
	task.Submit:   {task.Review, []task.Status{task.Pending, task.InProgress}},
	task.Complete: {task.Completed, []task.Status{task.Pending, task.InProgress, task.Review, task.Blocked}},
	task.Fail:     {task.Failed, []task.Status{task.Pending, task.InProgress, task.Review}},
	task.Block:    {task.Blocked, []task.Status{task.Pending, task.InProgress, task.Review}},
	task.Unblock:  {task.Pending, []task.Status{task.Blocked}},
	task.Skip:     {task.Skipped, []task.Status{task.Pending, task.InProgress, task.Review, task.Blocked, task.Failed}},
	task.Reset:    {task.Pending, task.Statuses},
}

// bring puts a new task into a status; in progress it is A's.
func (w *world) bring(id string, to task.Status) (token int64) {
	w.Helper()
	w.add(in("S", id))
	switch verb, _ := task.VerbTo(to); verb {
	case task.Reset:
	case task.Claim:
		return w.claim("A", id)
	default:
		w.must(w.do(verb, "A", 0, id))
	}
	return 0
}

// apply carries out any verb.
func (w *world) apply(verb task.Verb, owner string, token int64, id string) error {
	switch verb {
	case task.Claim:
		_, err := w.tryClaim(owner, id)
		return err
	case task.Reset:
		_, err := w.reset(task.ResetRequest{Tasks: []string{id}, Force: true})
		return err
	}
	return w.do(verb, owner, token, id)
}

func TestEveryTransition(t *testing.T) {
	for verb, step := range life {
		for _, from := range task.Statuses {
			t.Run(fmt.Sprintf("%s %s", verb, from), func(t *testing.T) {
				w := newWorld(t)
				token := w.bring("a", from)
				if !slices.Contains(step.from, from) && (verb != task.Claim || from != task.InProgress) {
					w.unchanged("a refused verb", func() {
						if state := as[*task.StateError](w, w.apply(verb, "A", token, "a")); state.Status != from {
							t.Errorf("the refusal says %s", state.Status)
						}
					})
					return
				}
				w.must(w.apply(verb, "A", token, "a"))
				w.status("a", step.to)
				if verb == task.Claim {
					w.holds("a A", "section:S A")
					return
				}
				w.holds() // every other verb frees the lock
				if i := w.show("a"); i.ClaimedBy != "" || i.Token != 0 || (i.CompletedAt != nil) != !step.to.Open() {
					t.Errorf("%+v", i)
				}
			})
		}
	}
}

// Who may do what to a task that A has claimed.
func TestWhoMay(t *testing.T) {
	for verb, step := range life {
		if verb == task.Claim || verb == task.Reset || !slices.Contains(step.from, task.InProgress) {
			continue
		}
		for name, c := range map[string]struct {
			before func(w *world, token int64) // what happens to the claim
			owner  string
			token  bool
			want   string // "", lost, owner, state
		}{
			"holder":                      {owner: "A"},
			"holder with token":           {owner: "A", token: true},
			"child of the holder":         {owner: "A/x"},
			"token without owner":         {token: true},
			"someone else":                {owner: "B", want: "owner"},
			"nobody":                      {want: "owner"},
			"a name that begins alike":    {owner: "AB", want: "owner"},
			"after a break":               {before: func(w *world, _ int64) { w.breakKey("a") }, owner: "A", want: "lost"},
			"after a break, with token":   {before: func(w *world, _ int64) { w.breakKey("a") }, owner: "A", token: true, want: "lost"},
			"late, nobody took over":      {before: func(*world, int64) { time.Sleep(2 * time.Hour) }, owner: "A", token: true},
			"after a take-over":           {before: takeOver, owner: "A", want: "owner"},
			"after a take-over, token":    {before: takeOver, owner: "A", token: true, want: "lost"},
			"after an unclaim, token":     {before: unclaim, owner: "A", token: true, want: "lost"},
			"after unclaim and claim":     {before: func(w *world, tok int64) { unclaim(w, tok); w.claim("A", "a") }, owner: "A", token: true, want: "lost"},
			"broken, then locked by hand": {before: func(w *world, _ int64) { w.breakKey("a"); w.acquire("A", "a") }, owner: "A", want: map[bool]string{verb == task.Unclaim: "state"}[true]},
		} {
			t.Run(string(verb)+" "+name, func(t *testing.T) {
				bubble(t, func(w *world) {
					token := w.bring("a", task.InProgress)
					if c.before != nil {
						c.before(w, token)
					}
					if !c.token {
						token = 0
					}
					refusal := func(err error) {
						switch c.want {
						case "lost":
							w.want(err, lease.ErrLost)
						case "owner":
							as[*lease.OwnerError](w, err)
						case "state":
							as[*task.StateError](w, err)
						}
					}
					if c.want != "" && !(verb == task.Unclaim && name == "after an unclaim, token") {
						w.unchanged(name, func() { refusal(w.do(verb, c.owner, token, "a")) })
						return
					}
					w.must(w.do(verb, c.owner, token, "a"))
					w.status("a", step.to)
					if c.token { // the same again succeeds, another verb does not
						w.unchanged("a repetition", func() {
							w.must(w.do(verb, c.owner, token, "a"))
							other := task.Fail
							if verb == task.Fail {
								other = task.Complete
							}
							w.want(w.do(other, c.owner, token, "a"), lease.ErrLost)
						})
					}
				})
			})
		}
	}
}

func takeOver(w *world, _ int64) { time.Sleep(2 * time.Hour); w.claim("B", "a") }
func unclaim(w *world, _ int64)  { w.must(w.do(task.Unclaim, "A", 0, "a")) }

// A claim is as good as its lock.
func TestEffectiveStatus(t *testing.T) {
	for name, c := range map[string]struct {
		lose    func(w *world)
		status  task.Status
		stalled bool
	}{
		"held":              {func(*world) {}, task.InProgress, false},
		"expired":           {func(*world) { time.Sleep(2 * time.Hour) }, task.InProgress, true},
		"broken":            {func(w *world) { w.breakKey("a") }, task.Pending, false},
		"released":          {func(w *world) { w.must(w.release("A", "a")) }, task.Pending, false},
		"section broken":    {func(w *world) { w.breakKey("section:S") }, task.Pending, false},
		"locked by another": {func(w *world) { time.Sleep(2 * time.Hour); w.acquire("B", "a") }, task.Pending, false},
		"claimed over":      {func(w *world) { takeOver(w, 0) }, task.InProgress, false},
		"session ended": {func(w *world) {
			_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "A", All: true})
			w.must(err)
		}, task.Pending, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.bring("a", task.InProgress)
				c.lose(w)
				i := w.show("a")
				if i.Status != c.status || i.Stalled != c.stalled {
					t.Errorf("%s, stalled %v", i.Status, i.Stalled)
				}
				equal(w, "list by status", w.list(task.ListRequest{Status: []task.Status{c.status}}), []string{"a"})
				if i.Status == task.Pending && (i.ClaimedBy != "" || i.Token != 0) {
					t.Errorf("claimed by %q with token %d", i.ClaimedBy, i.Token)
				}
				s, err := task.Count(w.ctx, w.st)
				w.must(err)
				equal(w, "statistics", s.Status, map[task.Status]int{c.status: 1})
				if i.Ready {
					w.nextIs("C", "a")
					equal(w, "attempts", w.show("a").Attempts, 2)
				} else {
					w.nextIs("C", "")
				}
			})
		})
	}
}

func TestResultsStay(t *testing.T) {
	w := newWorld(t)
	w.add(in("", "a"))
	result := &task.Result{Summary: "done", Commits: []string{"abc"}, Tests: []string{"go test"}}
	_, err := task.ChangeStatus(w.ctx, w.st, task.StatusRequest{Verb: task.Submit, Tasks: []string{"a"}, Owner: "A", Result: result})
	w.must(err)
	w.must(w.do(task.Complete, "reviewer", 0, "a")) // who has nothing to add
	equal(w, "result", w.show("a").Result, result)
	_, err = w.reset(task.ResetRequest{Tasks: []string{"a"}})
	w.must(err)
	equal(w, "result", w.show("a").Result, nil)
}

func TestBatchesAreAllOrNothing(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("", "b"), in("", "c", "b"))
	w.claim("B", "b")
	w.unchanged("a batch that is refused in part", func() {
		as[*lease.OwnerError](w, w.do(task.Complete, "A", 0, "a", "b"))
		_, err := w.tryClaim("A", "a", "b")
		as[*lease.HeldError](w, err)
		_, err = w.tryClaim("A", "a", "c")
		as[*task.StateError](w, err)
		_, err = w.reset(task.ResetRequest{Tasks: []string{"a", "b"}})
		as[*task.BusyError](w, err)
		_, err = task.Delete(w.ctx, w.st, task.RemoveRequest{Tasks: []string{"a", "b"}})
		as[*task.BusyError](w, err)
		_, err = task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{in("new", "x"), in("", "b")}})
		as[*task.StateError](w, err)
		as[*task.NotFoundError](w, w.do(task.Complete, "A", 0, "a", "nothing"))
		as[*lease.InvalidError](w, w.do(task.Complete, "A", 7, "a", "b"))
		as[*lease.InvalidError](w, w.do(task.Complete, "A", 0))
	})
	w.must(w.do(task.Complete, "B", 0, "a", "b", "c", "a")) // a chain, and one of them twice
	w.holds()
}

// What an operation answers is the task as it is in the store.
func TestAnswersAreTheRecords(t *testing.T) {
	bubble(t, func(w *world) {
		one := func(out task.ChangeResult, err error) (task.Task, error) {
			w.must(err)
			return out.Tasks[0], nil
		}
		for _, op := range []struct {
			name string
			do   func() (task.Task, error)
		}{
			{"add", func() (task.Task, error) {
				out, err := task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{in("S", "a")}, By: "A"})
				w.must(err)
				return out.Tasks[0], nil
			}},
			{"claim", func() (task.Task, error) {
				out, err := task.ClaimTasks(w.ctx, w.st, task.ClaimRequest{Tasks: []string{"a"}, Acquire: lease.AcquireRequest{Owner: "A"}})
				w.must(err)
				return out.Tasks[0], nil
			}},
			{"progress", func() (task.Task, error) {
				return task.Progress(w.ctx, w.st, task.ProgressRequest{Task: "a", Owner: "A", Note: "half"})
			}},
			{"edit", func() (task.Task, error) {
				return task.Edit(w.ctx, w.st, task.EditRequest{Task: "a", Owner: "A", Title: ptr("b")})
			}},
			{"complete", func() (task.Task, error) {
				return one(task.ChangeStatus(w.ctx, w.st, task.StatusRequest{Verb: task.Complete, Tasks: []string{"a"}, Owner: "A"}))
			}},
			{"reset", func() (task.Task, error) {
				return one(task.ResetTasks(w.ctx, w.st, task.ResetRequest{Tasks: []string{"a"}, By: "A"}))
			}},
		} {
			time.Sleep(time.Second)
			got, err := op.do()
			w.must(err)
			want, err := task.Show(w.ctx, w.st, "a")
			w.must(err)
			equal(w, op.name, got, want.Task)
		}
	})
}

// A slot that somebody still works under does not keep the task from its end: who works
// there keeps the slot.
func TestEndWithSlotInUse(t *testing.T) {
	w := newWorld(t)
	w.add(task.New{ID: "a", Title: "a"})
	_, err := lease.SetPool(w.ctx, w.st, lease.SetPoolRequest{Name: "tests", Slots: 1, By: "test"})
	w.must(err)
	got, err := task.Next(w.ctx, w.st, task.NextRequest{Claim: true, Pool: "pool:tests", Acquire: lease.AcquireRequest{Owner: "R"}})
	w.must(err)
	slots := map[string]int64{"pool:tests#1": token(*got.Grant, "pool:tests#1")}
	user, err := lease.Hold(w.ctx, w.st, lease.AcquireRequest{Owner: "R/helper", Keys: []string{"pool:tests"}})
	w.must(err)
	_, err = task.ChangeStatus(w.ctx, w.st, task.StatusRequest{Verb: task.Complete, Tasks: []string{"a"}, Owner: "R", Slots: slots})
	w.must(err)
	w.status("a", task.Completed)
	w.holds("pool:tests#1 R")
	w.must(user.Release(w.ctx))
}

// Everybody can read a token: the lease beside it must be that of the claim, also
// when the verb is repeated.
func TestRepeatedVerbOfAnotherLease(t *testing.T) {
	bubble(t, func(w *world) {
		w.add(task.New{ID: "a", Title: "a"})
		g, err := w.tryClaim("alice", "a")
		w.must(err)
		r := task.StatusRequest{Verb: task.Complete, Tasks: []string{"a"}, Owner: "alice", Token: g.Token, Lease: g.LeaseID}
		for _, repeated := range []bool{false, true} {
			out, err := task.ChangeStatus(w.ctx, w.st, r)
			w.must(err)
			equal(w, "repeated", out.Repeated, repeated)
		}
		r.Owner, r.Lease = "bob", "bob/x"
		_, err = task.ChangeStatus(w.ctx, w.st, r)
		w.want(err, lease.ErrLost)
	})
}
