//go:build linux

package torture

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

// The races of a task list, each with eight processes at a time that run the
// real command.

const racers = 8

// A race is one way to go wrong. Each round begins anew in a store that many
// rounds share.
type race struct {
	name  string
	round func(r *ring, n int)
	bugs  []string // each of these must be caught
}

var taskRaces = []race{
	{"double claim", (*ring).doubleClaim, []string{"no_compare"}},
	{"complete and next", (*ring).completeAndNext, []string{"no_compare"}},
	{"duplicate id", (*ring).duplicateID, []string{"no_compare"}},
	{"complete after unclaim", (*ring).completeAfterUnclaim, []string{"complete_unfenced"}},
	{"reset while working", (*ring).resetWhileWorking, []string{"complete_unfenced"}},
	{"crash while holding", (*ring).crashWhileHolding, []string{"complete_unfenced"}},
	{"half-visible batch", (*ring).halfVisibleBatch, nil},
	{"two in a section", (*ring).twoInASection, []string{"section_skew"}},
	{"one task, many names", (*ring).manyNames, []string{"name_unguarded"}},
}

func TestTaskRaces(t *testing.T) {
	for _, b := range backends {
		for _, c := range taskRaces {
			if b.tasks > 0 || full() {
				t.Run(b.name+"/"+c.name, func(t *testing.T) { c.run(t, b) })
			}
		}
	}
}

func (c race) run(t *testing.T, b backend) {
	r := newRing(t, b, "")
	began, rounds := time.Now(), 0
	for n := range long.Loop(t, b.tasks, 6*time.Second) {
		c.round(r, n)
		rounds = n + 1
	}
	r.end()
	report := fmt.Sprintf("%-8s %-24s %d processes × %d rounds, %d commands in %s: %s; %d faults",
		b.name, c.name, racers, rounds, r.commands, time.Since(began).Round(time.Millisecond), r.tally(), len(r.faults))
	if t.Log(report); full() {
		fmt.Println(report)
	}
	for _, f := range r.faults {
		t.Error(f)
	}
}

// TestTaskRacesCanFail: the same rounds see each planted bug.
func TestTaskRacesCanFail(t *testing.T) {
	for _, c := range taskRaces {
		for _, bug := range c.bugs {
			t.Run(c.name+"/"+bug, func(t *testing.T) {
				r := newRing(t, sqlite, bug)
				for n := 0; n < 200 && len(r.faults) == 0; n++ {
					c.round(r, n)
				}
				if len(r.faults) == 0 {
					t.Fatal("the bug was not seen")
				}
				t.Logf("caught: %s", r.faults[0])
			})
		}
	}
}

// completeAndNext: sixteen complete a task each and go on with the next in the
// same commit. There are fewer than sixteen of those, and nobody gets another's.
func (r *ring) completeAndNext(n int) {
	const workers, more = 2 * racers, racers
	mine := r.must(append(args("tasks add"), strings.Fields(strings.Repeat("mine ", workers))...)...).data.Tasks
	next := r.must(append(args("tasks add --label next%d", n), strings.Fields(strings.Repeat("next ", more))...)...).data.Tasks
	var calls [][]string
	for i, t := range mine {
		calls = append(calls, args("tasks complete %s --next --label next%d --owner w%d", t.ID, n, i))
	}
	got := map[string]bool{}
	for _, a := range r.only(r.together(calls...), 0) {
		switch next := a.data.Next; {
		case len(a.data.Tasks) != 1 || a.data.Tasks[0].Status != "completed":
			r.fault("not completed: %s", a.text)
		case next == nil:
		case got[next.Task.ID]:
			r.fault("%s was claimed twice: %s", next.Task.ID, a.text)
		default:
			got[next.Task.ID] = true
			r.must(args("tasks complete %s --owner %s --token %d", next.Task.ID, next.Task.ClaimedBy, next.Token)...)
		}
	}
	if len(got) != len(next) {
		r.fault("%d of %d were claimed", len(got), len(next))
	}
}

// doubleClaim: eight claim one task; one has it.
func (r *ring) doubleClaim(n int) {
	r.must(args("tasks add x --id x%d", n)...)
	calls := forEach(racers/2, fmt.Sprintf("tasks claim x%d --no-wait --owner w%%", n))
	calls = append(calls, forEach(racers/2, "next --claim --owner n%")...)
	won := r.only(r.together(calls...), 0, 6, 4)
	if len(won) > 1 {
		// "first" was there for one round; each of the others is a task of its own.
		seen := map[string]bool{}
		for _, a := range won {
			id := append(a.data.Tasks, a.data.Task)[0].ID
			if seen[id] {
				r.fault("%s was claimed twice: %s", id, a.text)
			}
			seen[id] = true
		}
	}
	if len(won) == 0 {
		r.fault("nobody has x%d", n)
	}
	for _, a := range won {
		t := append(a.data.Tasks, a.data.Task)[0]
		r.must(args("tasks complete %s --owner %s --token %d", t.ID, t.ClaimedBy, a.data.Token)...)
	}
}

// duplicateID: eight add tasks, and others delete them; no id comes twice.
func (r *ring) duplicateID(n int) {
	calls := forEach(racers, "tasks add a% b%")
	if n%2 == 1 {
		calls = append(calls[1:], args("id next"))
	}
	var ids []string
	for _, a := range r.only(r.together(calls...), 0) {
		for _, t := range a.data.Tasks {
			if r.ids[t.ID] {
				r.fault("%s was given out twice", t.ID)
			}
			r.ids[t.ID] = true
			ids = append(ids, t.ID)
		}
	}
	if want := 2 * (racers - n%2); len(ids) != want {
		r.fault("%d ids for %d tasks", len(ids), want)
	}
	calls = nil
	for _, id := range ids {
		calls = append(calls, args("tasks delete %s", id))
	}
	r.only(r.together(calls[:racers]...), 0)
	r.must(append(args("tasks delete"), ids[racers:]...)...)
}

// completeAfterUnclaim: a holder gives a task back while its own completions
// are under way and others wait for it.
func (r *ring) completeAfterUnclaim(n int) {
	id := fmt.Sprint("u", n)
	r.must(args("tasks add u --id %s", id)...)
	token := r.granted(r.must(args("tasks claim %s --owner A", id)...))
	calls := append(forEach(3, fmt.Sprintf("tasks complete %s --owner A --token %d", id, token)), args("tasks unclaim %s --owner A --token %d", id, token))
	calls = append(calls, forEach(4, fmt.Sprintf("tasks claim %s --no-wait --owner w%%", id))...)
	all := r.together(calls...)
	completed, unclaimed, claimed := r.only(all[:3], 0, 7), r.only(all[3:4], 0, 7), r.only(all[4:], 0, 6, 11)
	now := r.show(id)
	switch {
	case len(completed) > 0 && (len(completed) < 3 || len(unclaimed)+len(claimed) > 0 || now.Status != "completed"):
		r.fault("%d completions, %d unclaims and %d claims of %s succeeded, which is %s", len(completed), len(unclaimed), len(claimed), id, now.Status)
	case len(completed) == 0 && (len(unclaimed) == 0 || len(claimed) > 1):
		r.fault("no completion, %d unclaims and %d claims of %s succeeded", len(unclaimed), len(claimed), id)
	case len(claimed) == 1:
		r.only([]verdict{r.run(args("tasks complete %s --owner A --token %d", id, token)...)}, 7)
		r.must(args("tasks complete %s --owner %s --token %d", id, now.ClaimedBy, r.granted(claimed[0]))...)
	}
}

// resetWhileWorking: someone resets a chain while its end is being worked on.
// Without force the work is never lost; with force its token is dead.
func (r *ring) resetWhileWorking(n int) {
	r.add(n, "a", "b")
	a, b := fmt.Sprint("a", n), fmt.Sprint("b", n)
	r.must(args("tasks complete %s --owner A", a)...)
	claim := r.must(args("tasks claim %s --owner A", b)...)
	token := tokenOf(claim, b)
	complete := args("tasks complete %s --owner A --token %d", b, token)
	force := ""
	if n%2 == 1 {
		force = "--force"
	}
	calls := append(forEach(4, fmt.Sprintf("tasks reset %s --cascade %s --owner r%%", a, force)), complete, complete)
	calls = append(calls, forEach(2, fmt.Sprintf("tasks claim %s --no-wait --owner w%%", b))...)
	all := r.together(calls...)
	reset, completed := r.only(all[:4], 0, 6), r.only(all[4:6], 0, 7)
	r.only(all[6:], 6, 11)
	again := r.run(complete...)
	first, last := r.show(a).Status, r.show(b).Status
	switch {
	case len(completed) == 0 && force == "":
		r.fault("the work on %s was lost, and nobody forced it", b)
	case len(reset) > 0 && (first != "pending" || last != "pending"):
		r.fault("%s is %s and %s is %s after a reset", a, first, b, last)
	case len(reset) > 0 && again.code != 7:
		r.fault("after the reset: %s", again.text)
	case len(reset) == 0 && (last != "completed" || again.code != 0):
		r.fault("%s is %s after its completion, and no reset", b, last)
	}
}

// crashWhileHolding: the process behind a claim is killed; one of eight takes
// over, and what the dead one still sends is refused.
func (r *ring) crashWhileHolding(n int) {
	r.add(n, "c", "d")
	id := fmt.Sprint("c", n)
	holder := exec.Command("sleep", "1000")
	if err := holder.Start(); err != nil {
		r.t.Fatal(err)
	}
	claim := r.must(args("tasks claim %s --owner A --ends-with %d", id, holder.Process.Pid)...)
	r.only(r.together(forEach(2, fmt.Sprintf("tasks claim %s --no-wait --owner w%%", id))...), 6)
	_ = holder.Process.Kill()
	_ = holder.Wait()
	late := args("tasks complete %s --owner A --token %d", id, tokenOf(claim, id))
	calls := append(forEach(racers/2, fmt.Sprintf("tasks claim %s --no-wait --owner w%%", id)), forEach(racers/2, fmt.Sprintf("next --claim --section s%d --owner n%%", n))...)
	won := r.only(r.together(calls...), 0, 6, 4)
	if len(won) != 1 {
		r.fault("%d have %s after its holder was killed", len(won), id)
		return
	}
	r.only([]verdict{r.run(late...)}, 7)
	r.must(args("tasks complete %s --owner %s --token %d", id, r.show(id).ClaimedBy, tokenOf(won[0], id))...)
	r.only([]verdict{r.run(late...)}, 7)
}

// halfVisibleBatch: three tasks are claimed, completed and reset together; no
// reader ever sees them apart.
func (r *ring) halfVisibleBatch(n int) {
	ids := fmt.Sprintf("p%d q%d r%d", n, n, n)
	for _, id := range strings.Fields(ids) {
		r.must(args("tasks add x --id %s --section %s", id, "s"+id)...) // each in a section of its own
	}
	calls := forEach(3, fmt.Sprintf("tasks claim %s --no-wait --owner w%%", ids))
	calls = append(calls, args("tasks complete %s --owner w0", ids), args("tasks reset %s --force --owner admin", ids), args("tasks complete %s --owner w1", ids))
	readers := forEach(racers-len(calls), "tasks list")
	all := r.together(append(readers, calls...)...)
	r.only(all[len(readers):], 0, 5, 6, 7, 11)
	for _, a := range append(all[:len(readers)], r.must("tasks", "list")) {
		var seen []string
		for _, t := range a.data.Tasks {
			if slices.Contains(strings.Fields(ids), t.ID) {
				seen = append(seen, t.Status+" "+t.ClaimedBy)
			}
		}
		if len(seen) != 3 || len(slices.Compact(seen)) != 1 {
			r.fault("half of a batch was seen: %v", seen)
		}
	}
	r.must(args("tasks reset %s --force --owner admin", ids)...)
	r.must(args("tasks delete %s", ids)...)
}

// twoInASection: eight want to work in one section, each on another task; one
// is let in.
func (r *ring) twoInASection(n int) {
	for i := range racers {
		r.must(args("tasks add x --id e%d-%d --section s%d", n, i, n)...)
	}
	calls := append(forEach(racers/2, fmt.Sprintf("tasks claim e%d-%% --no-wait --owner w%%", n)), forEach(racers/2, fmt.Sprintf("next --claim --section s%d --owner n%%", n))...)
	won := r.only(r.together(calls...), 0, 6, 4)
	if len(won) != 1 {
		r.fault("%d work in section s%d", len(won), n)
	}
}

// manyNames: a name becomes that of a task while seven want it, or the task.
// However they call it, one gets it.
func (r *ring) manyNames(n int) {
	name := fmt.Sprint("name", n)
	calls := append(forEach(racers/2, "acquire "+name+" --no-wait --owner w%"), forEach(racers/2-1, "tasks claim "+name+" --no-wait --owner c%")...)
	first := r.together(append(calls, args("tasks add %s -q", name))...)
	if add := first[len(calls)]; add.code != 0 {
		r.fault("%s", add.text)
		return
	}
	won := r.only(first[:len(calls)], 0, 6, 4) // 4: there was no such task yet
	id := r.must("tasks", "show", name).data.Task.ID
	for _, call := range []string{"acquire " + name, "acquire " + strings.TrimPrefix(id, "t"), "tasks claim " + id} {
		if a := r.run(args("%s --no-wait --owner late%d", call, len(won))...); a.code == 0 {
			won = append(won, a)
		}
	}
	if len(won) != 1 {
		r.fault("%d have %s: %s", len(won), name, won[len(won)-1].text)
	}
}
