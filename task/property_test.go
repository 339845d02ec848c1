package task_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/task"
)

// TestProperties drives random operations against the rules and against a
// simple model: the same answers, the same state, and records that make sense
// after every commit.
func TestProperties(t *testing.T) {
	sequences := 300
	switch {
	case long.Asked():
		sequences = long.Count(20_000)
	case testing.Short() || long.Racy:
		sequences = 100
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(strconv.Itoa(sequences)); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		p := &property{T: t, model: newModel(start)}
		mem := newJudged(t.Errorf, func() time.Time { return p.model.now })
		far := drivertest.NewRerun(t, mem, func() { p.model.now = p.model.now.Add(time.Microsecond) })
		p.st = store.New(far)
		if dice.Draw(t, "rerun")%20 != 0 { // a commit that is refused takes a pause
			p.st = store.New(far.Far)
		}
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
	do     func(*property) (want string, err error)
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
	want, err := op.do(p)
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
		{"held", func() bool { return errors.As(err, new(*lease.HeldError)) }},
		{"owner", func() bool { return errors.As(err, new(*lease.OwnerError)) }},
		{"in use", func() bool { return errors.As(err, new(*lease.InUseError)) }},
		{"lost", func() bool { return errors.Is(err, lease.ErrLost) }},
		{"not found", func() bool { return errors.Is(err, lease.ErrNotFound) }},
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

// compare holds what everyone can see against the model.
func (p *property) compare() {
	list, err := task.List(ctx, p.st, task.ListRequest{})
	if err != nil {
		p.Fatal(err)
	}
	locks, err := lease.List(ctx, p.st, lease.ListRequest{})
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
		state := lease.Held
		if !m.live(l) {
			state = lease.Expired
		}
		want = append(want, fmt.Sprintf("%s %s %s until %s", key, l.name, state, l.seen.Add(l.ttl).Format(time.TimeOnly)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.Fatalf("the model says (-) and the store (+)\n%s", cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")))
	}
}
