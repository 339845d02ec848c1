package schedule

import (
	"fmt"
	"time"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
)

// onTime is how late a fire time may be claimed and still count as on time.
const onTime = 30 * time.Second

// situation is all that the rules look at.
type situation struct {
	job    Job
	exists bool // else it was removed while it ran
	due    dueRecord
	now    time.Time
	held   *holder // who has the job's lock, if runs may not overlap
	dead   []death // of due.Running
}

type holder struct {
	owner string
	since time.Time
}

// death is a run whose pod does not have its lock any more.
type death struct {
	run   run
	why   string
	stuck bool // the lock is still there
}

// plan is what is to be done: records to write, and one fire time to claim.
type plan struct {
	due     dueRecord // as it will be
	changed bool
	records []Fire  // skipped
	lost    []death // to be marked as lost
	claim   *claim
	blocked bool // something is due and has to wait
}

type claim struct {
	at      time.Time
	attempt int
	by      string // who triggered it
	retry   string // why the attempt before ended
}

// decide is the whole policy, as a pure function: first what died, then what
// somebody asked for, then the table.
func decide(s situation) plan {
	p := plan{due: s.due}
	p.due.Running, p.due.Triggers = append([]run(nil), s.due.Running...), append([]trigger(nil), s.due.Triggers...)
	for _, d := range s.dead {
		if again := s.exists && s.job.OnCrash == CrashRetry && d.run.Attempt < s.job.MaxAttempts; again {
			if p.claim == nil && !p.blocked {
				p.claim = &claim{at: d.run.At, attempt: d.run.Attempt + 1, retry: d.why}
				p.blocked = s.held != nil
			}
			continue
		}
		p.lost, p.changed = append(p.lost, d), true
		p.due.end(d.run)
	}
	switch {
	case p.blocked: // someone outside has the lock that the retry needs
		p.claim = nil
		return p
	case p.claim != nil:
		p.due.end(run{At: p.claim.at, Attempt: p.claim.attempt - 1})
		p.changed = true
		return p
	case !s.exists:
		return p
	case len(s.due.Triggers) > 0:
		p.triggered(s)
	case s.due.comes(s.now):
		p.fire(s)
	}
	return p
}

// end takes a run off the list.
func (d *dueRecord) end(r run) {
	var rest []run
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
	case s.held == nil:
		p.claim = &claim{at: t.At, attempt: 1, by: t.By}
	case s.job.Overlap == OverlapQueue:
		p.blocked = true
		if s.due.comes(s.now) && s.due.QueuedAt == nil { // it stands in line too
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
	at := *s.due.At
	catching := false
	if missed := s.now.Add(-onTime); s.due.QueuedAt == nil && s.due.start().Before(missed) {
		list, count := between(s.job, cron, at, missed, MaxCatchUp+1)
		run := s.job.Misfire.run(list)
		catching = len(run) > 0
		if n := len(list) - len(run); n > 0 {
			p.skipRange(s.job, at, list[n-1], count-len(run), s.job.Misfire.reason())
		}
		if !catching {
			p.follow(s.job, cron.Next(list[len(list)-1]))
			if at = deref(p.due.At); at.IsZero() || s.now.Before(p.due.start()) {
				return
			}
		} else if at = run[0]; !at.Equal(*s.due.At) {
			p.follow(s.job, at)
		}
	}
	switch {
	case s.held == nil:
		p.claim = &claim{at: at, attempt: 1}
		p.follow(s.job, p.passed(s, cron, at))
	case catching:
		p.blocked = true
	case s.job.Overlap == OverlapQueue:
		p.blocked = true
		if p.due.QueuedAt == nil {
			p.due.QueuedAt, p.changed = &s.now, true
		}
	default:
		list, count := between(s.job, cron, at, s.now, 1)
		p.skipRange(s.job, at, list[0], count, s.held.reason())
		p.follow(s.job, cron.Next(list[0]))
	}
}

// passed is the fire time after at. If at had waited in the queue, those that
// came meanwhile had no place in it.
func (p *plan) passed(s situation, cron Cron, at time.Time) time.Time {
	next := cron.Next(at)
	if s.due.QueuedAt == nil || next.IsZero() || s.job.start(next).After(s.now) {
		return next
	}
	list, count := between(s.job, cron, next, s.now, 1)
	p.skipRange(s.job, next, list[0], count, "one fire time was waiting already")
	return cron.Next(list[0])
}

func (p *plan) follow(j Job, at time.Time) {
	p.due.follow(j, at)
	p.changed = true
}

// skipRange leaves one record for fire times in a row.
func (p *plan) skipRange(j Job, first, last time.Time, count int, why string) {
	f := Fire{Job: j.Name, At: first, RunID: runID(j.Name, first), State: Skipped, Why: why}
	if count > 1 {
		f.Count, f.Until = count, &last
	}
	p.records, p.changed = append(p.records, f), true
}

func (h *holder) reason() string {
	return fmt.Sprintf("still running on %s since %s", h.owner, h.since.UTC().Format(time.RFC3339))
}

// run picks those of the missed fire times that are made up for.
func (m Misfire) run(missed []time.Time) []time.Time {
	switch m {
	case MisfireOnce:
		return missed[len(missed)-1:]
	case MisfireAll:
		return missed[max(0, len(missed)-MaxCatchUp):]
	}
	return nil
}

func (m Misfire) reason() string {
	switch m {
	case MisfireOnce:
		return "missed: no pod was there or free; misfire once runs the newest"
	case MisfireAll:
		return fmt.Sprintf("missed: no pod was there or free; misfire all runs the newest %d", MaxCatchUp)
	}
	return "missed: no pod was there or free"
}

// manyTimes is how many missed fire times are counted one by one.
const manyTimes = 200_000

// between returns the newest most of the fire times from first, which is one, that
// could start up to and including to, and how many there are. Beyond manyTimes it
// is at least so many.
func between(j Job, c Cron, first, to time.Time, most int) (newest []time.Time, count int) {
	at := first
	for ; !at.IsZero() && !j.start(at).After(to) || count == 0; at = c.Next(at) {
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

func deref(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// look collects the situation of a job, guarding all of it.
func look(tx *store.Tx, name string, now time.Time) (situation, error) {
	s := situation{now: now}
	if err := tx.Want(jobKind+name, dueKind+name); err != nil {
		return s, err
	}
	job, err := getJob(tx, name)
	if err != nil {
		return s, err
	}
	due, err := getDue(tx, name)
	if err != nil {
		return s, err
	}
	s.job, s.exists, s.due = job.Value, job.Exists(), due.Value
	if _, err := ParseCron(s.job.Cron, s.job.Zone); s.exists && err != nil {
		return s, s.job.wrong(err) // another pod may know that zone
	}
	if s.due.Job = name; !due.Exists() {
		return s, nil
	}
	var keys []string
	for _, r := range s.due.Running {
		keys = append(keys, r.Key)
	}
	if !s.due.Each {
		keys = append(keys, lockPrefix+name)
	}
	if err := lock.WantLook(tx, keys...); err != nil {
		return s, err
	}
	return s, s.locks(tx)
}

// locks looks at the runs, and at who has the job.
func (s *situation) locks(tx *store.Tx) error {
	for _, r := range s.due.Running {
		lk, err := lock.Look(tx, r.Key)
		if err != nil {
			return err
		}
		switch {
		case lk == nil:
			s.dead = append(s.dead, death{run: r, why: "its pod gave it up, or its lock was broken"})
		case lk.LeaseID != r.Lease:
			s.dead = append(s.dead, death{run: r, why: "its lock was taken away"})
		case lk.State == lock.Dead:
			s.dead = append(s.dead, death{r, "its pod died", true})
		case lk.State == lock.Expired:
			s.dead = append(s.dead, death{r, "its pod was silent for longer than the ttl", true})
		case !s.due.Each: // perhaps under a lock of its own, from when runs could overlap
			s.held = &holder{owner: podOf(lk.Owner), since: lk.AcquiredAt}
		}
	}
	if s.due.Each {
		return nil
	}
	lk, err := lock.Look(tx, lockPrefix+s.due.Job)
	if err == nil && lk != nil && lk.State == lock.Held {
		s.held = &holder{owner: podOf(lk.Owner), since: lk.AcquiredAt}
	}
	return err
}

// write carries out a plan. A claim is written with the lease that was granted
// for it in the same transaction.
func (p plan) write(tx *store.Tx, s situation, g *lock.Grant) (*Fire, error) {
	for _, d := range p.lost {
		if err := p.writeLost(tx, s, d, g); err != nil {
			return nil, err
		}
	}
	if err := putSkipped(tx, p.records); err != nil {
		return nil, err
	}
	var fired *Fire
	if p.claim != nil {
		f, err := p.writeClaim(tx, s, g)
		if err != nil {
			return nil, err
		}
		fired = &f
		p.due.Running = append(p.due.Running, run{At: f.At, Attempt: f.Attempt, Lease: g.LeaseID, Key: g.Keys[0].Key})
	}
	if !p.changed {
		return fired, nil
	}
	return fired, putDue(tx, p.due)
}

// putSkipped writes records of skipped fire times where there are none.
func putSkipped(tx *store.Tx, records []Fire) error {
	var keys []string
	for _, f := range records {
		keys = append(keys, fireKey(f.Job, f.At))
	}
	if err := tx.Want(keys...); err != nil {
		return err
	}
	for _, f := range records {
		before, err := getFire(tx, f.Job, f.At)
		if err != nil {
			return err
		}
		if before.Exists() { // a table that was changed back and forth
			continue
		}
		if err := putFire(tx, f); err != nil {
			return err
		}
	}
	return nil
}

func (p plan) writeClaim(tx *store.Tx, s situation, g *lock.Grant) (Fire, error) {
	c := p.claim
	before, err := getFire(tx, s.job.Name, c.at)
	if err != nil {
		return Fire{}, err
	}
	now := tx.Now().UTC()
	f := Fire{
		Job: s.job.Name, At: c.at, RunID: runID(s.job.Name, c.at), State: Claimed, Attempt: c.attempt,
		Pod: podOf(g.Owner), Lease: g.LeaseID, By: c.by, ClaimedAt: &now,
	}
	if c.retry != "" {
		f.Why, f.By = "attempt before: "+c.retry, before.Value.By
	} else if before.Exists() {
		return Fire{}, &firedError{at: c.at}
	}
	return f, putFire(tx, f)
}

// writeLost ends a run of a dead pod, and frees its lock unless g has it now.
func (p plan) writeLost(tx *store.Tx, s situation, d death, g *lock.Grant) error {
	f, err := getFire(tx, s.due.Job, d.run.At)
	if err != nil {
		return err
	}
	if f.Exists() && f.Value.State == Claimed {
		now := tx.Now().UTC()
		f.Value.State, f.Value.Why, f.Value.EndedAt = Lost, d.why, &now
		if err := putFire(tx, f.Value); err != nil {
			return err
		}
	}
	if !d.stuck || g != nil && g.Keys[0].Key == d.run.Key {
		return nil
	}
	return lock.ReleaseKey(tx, d.run.Key, "scheduler", d.why)
}
