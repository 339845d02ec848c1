package schedule

import (
	"fmt"
	"time"
)

// onTime is how late a fire time may be claimed and still count as on time.
const onTime = 30 * time.Second

// hiccup is how late the oldest of several fire times may be if they still run one
// after the other. If it is later there was an outage, and Misfire decides.
const hiccup = 5 * time.Second

// situation is everything that the rules look at.
type situation struct {
	job    Job
	exists bool // else it was removed while it ran
	due    dueRecord
	now    time.Time
	held   *lockHolder // who has the job's lock, if runs may not overlap
	dead   []deadRun   // of due.Running
	outage *outage     // what kept this pod from the job
	full   bool        // no slot of its pool was free
}

type lockHolder struct {
	owner string
	since time.Time
	full  int // or so many runs that no further one has room
}

// deadRun is a run whose pod no longer has its lock.
type deadRun struct {
	run   runRecord
	why   string
	stuck bool // the lock is still there
}

// plan is what to do: records to write, and one fire time to claim.
type plan struct {
	due     dueRecord // as it will be
	changed bool
	records []Fire    // skipped
	lost    []deadRun // to be marked as lost
	claim   *claim
	blocked bool // something is due and has to wait
}

type claim struct {
	at      time.Time
	attempt int
	by      string // who triggered it
	retry   string // why the attempt before ended
}

// decide is the whole policy, as a pure function: first dead runs, then triggers, then
// the table.
func decide(s situation) plan {
	p := plan{due: s.due}
	p.due.Running, p.due.Triggers = append([]runRecord(nil), s.due.Running...), append([]trigger(nil), s.due.Triggers...)
	for _, d := range s.dead {
		if again := s.exists && s.job.OnCrash == CrashRetry && d.run.Attempt < s.job.MaxAttempts; again {
			if p.claim == nil && !p.blocked {
				p.claim = &claim{at: d.run.At, attempt: d.run.Attempt + 1, retry: d.why}
				p.blocked = !s.free()
			}
			continue
		}
		p.lost, p.changed = append(p.lost, d), true
		p.due.end(d.run)
	}
	switch {
	case p.blocked: // someone outside has the lock, or the slot, that the retry needs
		p.claim = nil
		return p
	case p.claim != nil:
		p.due.end(runRecord{At: p.claim.at, Attempt: p.claim.attempt - 1})
		p.changed = true
		return p
	case !s.exists:
		return p
	case len(s.due.Triggers) > 0:
		p.triggered(s)
	case s.due.isDue(s.now):
		p.fire(s)
	}
	return p
}

// free reports whether a run can start.
func (s situation) free() bool { return s.held == nil && !s.full }

// queues reports whether a fire time that cannot start now waits. One that needs a
// slot does: others have taken it, not the run before.
func (s situation) queues() bool { return s.held == nil || s.job.Overlap == OverlapQueue }

// end takes a run off the list.
func (d *dueRecord) end(r runRecord) {
	var rest []runRecord
	for _, other := range d.Running {
		if !other.At.Equal(r.At) || other.Attempt != r.Attempt {
			rest = append(rest, other)
		}
	}
	d.Running = rest
}

func (p *plan) triggered(s situation) {
	t := s.due.Triggers[0]
	switch {
	case s.free():
		p.claim = &claim{at: t.At, attempt: 1, by: t.By}
	case s.queues():
		p.blocked = true
		if s.due.isDue(s.now) && s.due.QueuedAt == nil { // it queues too
			p.due.QueuedAt, p.changed = &s.now, true
		}
		return
	default:
		p.skipRange(s.job, t.At, t.At, 1, s.held.reason())
		p.records[len(p.records)-1].By = t.By
	}
	p.due.Triggers, p.changed = p.due.Triggers[1:], true
}

// fire deals with the fire times up to now.
func (p *plan) fire(s situation) {
	cron := s.job.cron()
	at, catching := *s.due.At, false
	if s.due.QueuedAt == nil {
		if at, catching = p.late(s, cron); at.IsZero() {
			return
		}
	}
	switch {
	case s.free():
		p.claim = &claim{at: at, attempt: 1}
		p.setNext(s.job, p.passed(s, cron, at))
	case catching:
		p.blocked = true
	case s.queues():
		p.blocked = true
		if p.due.QueuedAt == nil {
			p.due.QueuedAt, p.changed = &s.now, true
		}
	default:
		list, count := between(s.job, cron, at, s.now, 1)
		p.skipRange(s.job, at, list[0], count, s.held.reason())
		p.setNext(s.job, cron.Next(list[0]))
	}
}

// late picks the fire time to run among those that have come, and skips those before
// it. It is zero if none will run, and catching if it was missed.
func (p *plan) late(s situation, cron Cron) (at time.Time, catching bool) {
	at, start, limit := *s.due.At, s.due.start(), s.limit()
	if !start.Before(s.now.Add(-hiccup)) {
		return at, false
	}
	all, to := s.job.Misfire == MisfireAll, s.now
	if all { // what has just come is not to be made up for
		to = s.now.Add(-hiccup)
	}
	list, count := between(s.job, cron, at, to, MaxCatchUp+1)
	newest, begins := list[len(list)-1], start
	if count > 1 {
		begins = s.job.startIn(cron, newest)
	}
	catching = all || begins.Before(limit)
	run := s.job.Misfire.run(list, catching)
	if n := len(list) - len(run); n > 0 {
		why := "overtaken by the next fire time: "
		if start.Before(limit) {
			why = "missed: "
		}
		last := s.job.startIn(cron, list[n-1])
		p.skipRange(s.job, at, list[n-1], count-len(run), why+s.whyMissed(start, last)+s.job.Misfire.rest())
	}
	if len(run) == 0 {
		p.setNext(s.job, cron.Next(newest))
		return time.Time{}, false
	}
	if at = run[0]; !at.Equal(*s.due.At) {
		p.setNext(s.job, at)
	}
	return at, catching
}

// passed is the fire time after at. If at had waited in the queue, those that
// came meanwhile had no place in it.
func (p *plan) passed(s situation, cron Cron, at time.Time) time.Time {
	next := cron.Next(at)
	if s.due.QueuedAt == nil || next.IsZero() || s.job.startIn(cron, next).After(s.now) {
		return next
	}
	list, count := between(s.job, cron, next, s.now, 1)
	p.skipRange(s.job, next, list[0], count, "one fire time was waiting already")
	return cron.Next(list[0])
}

func (p *plan) setNext(j Job, at time.Time) {
	p.due.setNext(j, at)
	p.changed = true
}

// skipRange leaves one record for a series of fire times.
func (p *plan) skipRange(j Job, first, last time.Time, count int, why string) {
	f := Fire{Job: j.Name, At: first, RunID: runID(j.Name, first), State: Skipped, Why: why}
	if count > 1 {
		f.Count, f.Until = count, &last
	}
	p.records, p.changed = append(p.records, f), true
}

func (h *lockHolder) reason() string {
	if h.full > 0 {
		return fmt.Sprintf("%d runs of it were under way: at most %d at a time", h.full, MaxRuns)
	}
	return fmt.Sprintf("still running on %s since %s", h.owner, h.since.UTC().Format(time.RFC3339))
}

// run picks the fire times to run among those that have come: the newest, unless it
// was missed and they are skipped; or all.
func (m Misfire) run(list []time.Time, missed bool) []time.Time {
	switch {
	case m == MisfireAll:
		return list[max(0, len(list)-MaxCatchUp):]
	case m == MisfireOnce || !missed:
		return list[len(list)-1:]
	}
	return nil
}

// rest says in a record what runs in place of the skipped ones.
func (m Misfire) rest() string {
	switch m {
	case MisfireOnce:
		return "; misfire once runs the newest"
	case MisfireAll:
		return fmt.Sprintf("; misfire all runs the newest %d", MaxCatchUp)
	}
	return ""
}

// manyTimes is how many missed fire times are counted one by one.
const manyTimes = 200_000

// between returns the newest most of the fire times from first, which is one, that
// could start up to and including to, and how many there are. Beyond manyTimes it
// is at least so many.
func between(j Job, c Cron, first, to time.Time, most int) (newest []time.Time, count int) {
	at := first
	for ; !at.IsZero() && !j.startIn(c, at).After(to) || count == 0; at = c.Next(at) {
		newest = append(newest, at)
		if len(newest) > 2*most {
			newest = append(newest[:0], newest[len(newest)-most:]...)
		}
		if count++; count == manyTimes { // go on where they end
			if near := c.Next(to.Add(-time.Hour - j.Jitter)); near.After(at) {
				at = near.Add(-time.Second)
			}
		}
	}
	return newest[max(0, len(newest)-most):], count
}
