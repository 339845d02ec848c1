package task_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// TestProperties drives random operations against the rules and against a
// simple model: the same answers, the same state, and records that make sense
// after every commit.
func TestProperties(t *testing.T) {
	sequences := "1000"
	if testing.Short() || racy {
		sequences = "100"
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(sequences); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		p := &property{T: t, model: newModel(start)}
		mem := newJudged(t.Errorf, func() time.Time { return p.model.now })
		p.st = store.New(mem)
		for name, shared := range modelSections {
			_, err := task.SetSection(ctx, p.st, task.SectionRequest{Name: name, New: true, Shared: &shared})
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range 1 + dice.Draw(t, "steps")%50 {
			p.model.now = p.model.now.Add(time.Second)
			p.step(i < 4)
			p.compare()
			if t.Failed() {
				t.FailNow()
			}
		}
	})
}

// A property is one sequence of operations.
type property struct {
	*rapid.T
	st     *store.Store
	model  *model
	n      int     // requests so far
	tokens []int64 // that were ever given
}

var operations = []struct {
	name   string
	weight int
	do     func(*property) (real error, want string)
}{
	{"add", 4, (*property).add},
	{"claim", 8, (*property).claim},
	{"next", 6, (*property).next},
	{"do", 12, (*property).do},
	{"reset", 3, (*property).reset},
	{"depends", 3, (*property).depends},
	{"remove", 3, (*property).remove},
	{"acquire", 5, (*property).acquire},
	{"release", 4, (*property).release},
	{"renew", 2, (*property).renew},
	{"break", 2, (*property).breakKey},
	{"time", 3, (*property).time},
	{"cleanup", 1, (*property).cleanup},
	{"session end", 1, (*property).endSession},
	{"move", 2, (*property).move},
}

// dice is rolled without rapid's love of small numbers.
var dice = rapid.Custom(func(t *rapid.T) (n int) {
	for i := range 10 {
		if rapid.Bool().Draw(t, "bit") {
			n |= 1 << i
		}
	}
	return n
})

func pick[T any](p *property, what string, from ...T) T { return from[dice.Draw(p.T, what)%len(from)] }

// chance is true once in n times.
func (p *property) chance(what string, n int) bool { return dice.Draw(p.T, what)%n == 0 }

// step does something; in the beginning it adds tasks.
func (p *property) step(beginning bool) {
	var names []int
	for i, op := range operations {
		for range op.weight {
			names = append(names, i)
		}
	}
	op := operations[0]
	if !beginning {
		op = operations[pick(p, "op", names...)]
	}
	err, want := op.do(p)
	if got := kind(err); got != want {
		p.Fatalf("%s: %q (%v), the model says %q", op.name, got, err, want)
	}
}

// kind sorts errors by what they mean.
func kind(err error) string {
	for _, k := range []struct {
		name string
		is   func() bool
	}{
		{"", func() bool { return err == nil }},
		{"held", func() bool { return errors.As(err, new(*lock.HeldError)) }},
		{"owner", func() bool { return errors.As(err, new(*lock.OwnerError)) }},
		{"in use", func() bool { return errors.As(err, new(*lock.InUseError)) }},
		{"lost", func() bool { return errors.Is(err, lock.ErrLost) }},
		{"not found", func() bool { return errors.Is(err, lock.ErrNotFound) }},
		{"state", func() bool { return errors.As(err, new(*task.StateError)) }},
		{"busy", func() bool { return errors.As(err, new(*task.BusyError)) }},
		{"cycle", func() bool { return errors.As(err, new(*task.CycleError)) }},
		{"nothing", func() bool { return errors.Is(err, task.ErrNothingReady) }},
	} {
		if k.is() {
			return k.name
		}
	}
	return "unexpected"
}

func (p *property) owner() string {
	return pick(p, "owner", []string{"A", "B", "A/x", "C"}...)
}

// id is a task's that is, was, or never will be.
func (p *property) id() string {
	ids := []string{"none"}
	if p.model.next > 1 {
		ids = ids[:0]
	}
	for i := range p.model.next - 1 {
		ids = append(ids, fmt.Sprint("t", i+1))
	}
	return pick(p, "task", ids...)
}

func (p *property) key() string {
	if p.chance("of a section", 3) {
		return "section:" + pick(p, "section", []string{"S", "T"}...)
	}
	return p.id()
}

// request names the next one.
func (p *property) request(owner string) lock.AcquireRequest {
	p.n++
	return lock.AcquireRequest{Owner: owner, ID: fmt.Sprint("r", p.n)}
}

// granted tells the model the tokens.
func (p *property) granted(g lock.Grant) {
	for _, k := range g.Keys {
		p.tokens = append(p.tokens, k.Token)
		lk := p.model.locks[k.Key]
		lk.token = k.Token
		p.model.locks[k.Key] = lk
	}
}

func (p *property) add() (error, string) {
	m := p.model
	n := task.New{
		Title: "x", Section: pick(p, "section", []string{"", "S", "S", "T", "U"}...),
		Priority: pick(p, "priority", []int{task.High, task.Medium}...),
	}
	deps := map[string]bool{}
	for range pick(p, "dependencies", 0, 0, 1, 2) {
		if id := p.id(); m.tasks[id] != nil {
			deps[id] = true
		}
	}
	n.DependsOn = slices.Collect(maps.Keys(deps))
	id := fmt.Sprint("t", m.next)
	want := ""
	if n.Section != "" && m.holder(id) != nil {
		want = "busy"
	} else if n.Section != "" {
		m.free(id, "test")
	}
	_, err := task.Add(ctx, p.st, task.AddRequest{Tasks: []task.New{n}, By: "test"})
	if err == nil {
		m.tasks[id] = &modelTask{id: id, section: n.Section, priority: n.Priority, age: m.next, status: task.Pending, deps: deps}
		m.next++
	}
	return err, want
}

func (p *property) claim() (error, string) {
	owner := p.owner()
	ids := []string{p.id()}
	if p.chance("two", 4) {
		if id := p.id(); id != ids[0] {
			ids = append(ids, id)
		}
	}
	r := p.request(owner)
	slices.Sort(ids)
	want := ""
	for _, id := range ids {
		if p.model.tasks[id] == nil {
			want = "not found"
		}
	}
	out, err := task.ClaimTasks(ctx, p.st, task.ClaimRequest{Tasks: ids, Acquire: r})
	if want == "" {
		want = p.model.claim(owner+"/"+r.ID, owner, ids)
	}
	p.granted(out.Grant)
	return err, want
}

func (p *property) next() (error, string) {
	owner := p.owner()
	r := p.request(owner)
	id := p.model.candidate(owner)
	out, err := task.Next(ctx, p.st, task.NextRequest{Claim: true, Acquire: r})
	if id == "" {
		return err, "nothing"
	}
	if err == nil && out.Task.ID != id {
		p.Fatalf("next is %s, the model says %s", out.Task.ID, id)
	}
	want := p.model.claim(owner+"/"+r.ID, owner, []string{id})
	if out.Grant != nil {
		p.granted(*out.Grant)
	}
	return err, want
}

func (p *property) do() (error, string) {
	verbs := []task.Verb{task.Complete, task.Complete, task.Unclaim, task.Fail, task.Block, task.Unblock, task.Skip, task.Submit}
	verb, owner, id := pick(p, "verb", verbs...), p.owner(), p.id()
	var token int64
	if len(p.tokens) > 0 && p.chance("with token", 2) {
		token = pick(p, "token", p.tokens[max(0, len(p.tokens)-4):]...)
		if lk := p.model.locks[id]; lk.token != 0 && p.chance("of the lock", 2) {
			token = lk.token
		}
	}
	want := p.model.do(verb, owner, id, token)
	_, err := task.Do(ctx, p.st, task.DoRequest{Verb: verb, Tasks: []string{id}, Owner: owner, Token: token})
	return err, want
}

func (p *property) reset() (error, string) {
	r := task.ResetRequest{Tasks: []string{p.id()}, By: "admin", Cascade: p.chance("cascade", 2), Force: p.chance("force", 2)}
	_, err := task.ResetTasks(ctx, p.st, r)
	return err, p.model.reset(r.Tasks[0], r.Cascade, r.Force)
}

func (p *property) depends() (error, string) {
	m, id, on := p.model, p.id(), p.id()
	want := ""
	switch {
	case m.tasks[id] == nil || m.tasks[on] == nil:
		want = "not found"
	case m.reaches(on, id):
		want = "cycle"
	default:
		m.tasks[id].deps[on] = true
	}
	return func() error {
		_, err := task.Depends(ctx, p.st, task.DependsRequest{Task: id, On: []string{on}})
		return err
	}(), want
}

func (p *property) remove() (error, string) {
	archive, id := p.chance("archive", 2), p.id()
	run := task.Delete
	if archive {
		run = task.Archive
	}
	want := p.model.remove(id, "admin", archive)
	_, err := run(ctx, p.st, task.RemoveRequest{Tasks: []string{id}, By: "admin"})
	return err, want
}

func (p *property) keys() []string {
	keys := []string{p.key()}
	if p.chance("two", 4) {
		keys = append(keys, p.key())
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (p *property) acquire() (error, string) {
	owner, keys := p.owner(), p.keys()
	r := p.request(owner)
	r.Keys, r.Within = keys, task.Within
	g, err := lock.Acquire(ctx, p.st, r)
	want := p.model.acquire(owner+"/"+r.ID, owner, keys)
	p.granted(g)
	return err, want
}

func (p *property) release() (error, string) {
	owner, keys := p.owner(), p.keys()
	_, err := lock.Release(ctx, p.st, lock.ReleaseRequest{Owner: owner, Keys: keys})
	return err, p.model.release(owner, keys)
}

func (p *property) renew() (error, string) {
	owner, key := p.owner(), p.key()
	_, err := lock.Renew(ctx, p.st, lock.RenewRequest{Owner: owner, Keys: []string{key}})
	l := p.model.leases[p.model.locks[key].lease]
	if l == nil || !child(owner, l.owner) {
		return err, "lost"
	}
	p.model.renew(l)
	return err, ""
}

func (p *property) breakKey() (error, string) {
	key := p.key()
	_, err := lock.Break(ctx, p.st, lock.BreakRequest{Keys: []string{key}, By: "admin"})
	if l := p.model.leases[p.model.locks[key].lease]; l != nil {
		p.model.end(l, maps.Clone(l.keys))
	}
	return err, ""
}

func (p *property) time() (error, string) {
	p.model.now = p.model.now.Add(time.Duration(pick(p, "minutes", []int{10, 40, 61, 121}...)) * time.Minute)
	return nil, ""
}

func (p *property) cleanup() (error, string) {
	_, err := lock.Cleanup(ctx, p.st, lock.CleanupRequest{By: "admin"})
	var over []*modelLease
	for _, l := range p.model.leases {
		if !p.model.live(l) {
			over = append(over, l)
		}
	}
	for _, l := range over {
		p.model.end(l, maps.Clone(l.keys))
	}
	return err, ""
}

func (p *property) endSession() (error, string) {
	owner := p.owner()
	_, err := lock.Release(ctx, p.st, lock.ReleaseRequest{Owner: owner, All: true})
	for _, l := range p.model.leases {
		if child(l.owner, owner) {
			p.model.end(l, maps.Clone(l.keys))
		}
	}
	return err, ""
}

// move puts a task into another section.
func (p *property) move() (error, string) {
	m, owner, id := p.model, p.owner(), p.id()
	section := pick(p, "to", []string{"", "S", "T", "U"}...)
	_, err := task.Edit(ctx, p.st, task.EditRequest{Task: id, Owner: owner, Section: &section})
	t, l := m.tasks[id], m.holder(id)
	switch {
	case t == nil:
		return err, "not found"
	case l != nil && !child(owner, l.owner):
		return err, "owner"
	case t.section == section:
		return err, ""
	case l != nil:
		return err, "state"
	}
	m.free(id, owner)
	t.section = section
	return err, ""
}

// compare holds what everyone can see against the model.
func (p *property) compare() {
	list, err := task.List(ctx, p.st, task.ListRequest{})
	if err != nil {
		p.Fatal(err)
	}
	locks, err := lock.List(ctx, p.st, lock.ListRequest{})
	if err != nil {
		p.Fatal(err)
	}
	var got, want []string
	for _, i := range list.Tasks {
		got = append(got, fmt.Sprintf("%s %s in %q, attempts %d, ready %v, stalled %v, claimed by %q", i.ID, i.Status, i.Section, i.Attempts, i.Ready, i.Stalled, i.ClaimedBy))
	}
	for _, l := range locks.Locks {
		got = append(got, fmt.Sprintf("%s %s %s until %s", l.Key, l.LeaseID, l.State, l.ExpiresAt.Format(time.TimeOnly)))
	}
	m := p.model
	for _, t := range m.tasks {
		s, held, by := m.status(t), m.holder(t.id) != nil, t.claimed
		if s != task.InProgress {
			by = ""
		}
		ready := (s == task.Pending || s == task.InProgress) && !held && !m.waits(t) && m.holder(m.around(t.id)) == nil
		want = append(want, fmt.Sprintf("%s %s in %q, attempts %d, ready %v, stalled %v, claimed by %q", t.id, s, t.section, t.attempts, ready, s == task.InProgress && !held, by))
	}
	for key, lk := range m.locks {
		l := m.leases[lk.lease]
		state := lock.Held
		if !m.live(l) {
			state = lock.Expired
		}
		want = append(want, fmt.Sprintf("%s %s %s until %s", key, l.name, state, l.seen.Add(l.ttl).Format(time.TimeOnly)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.Fatalf("the model says (-) and the store (+)\n%s", cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")))
	}
}
