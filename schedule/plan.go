package schedule

import (
	"fmt"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// onTime is how late a fire time may be claimed and still count as on time.
const onTime = 30 * time.Second

// hiccup is how late the oldest of several fire times may be that run one after the other
// all the same. Once it is later there was an outage, and to make up for that is
// what Misfire decides.
const hiccup = 5 * time.Second

// situation is all that the rules look at.
type situation struct {
	job    Job
	exists bool // else it was removed while it ran
	due    dueRecord
	now    time.Time
	held   *holder // who has the job's lock, if runs may not overlap
	dead   []death // of due.Running
	outage *outage // what kept this pod from the job
}

type holder struct {
	owner string
	since time.Time
	full  int // or so many runs that no further one has room
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
	at, catching := *s.due.At, false
	if s.due.QueuedAt == nil {
		if at, catching = p.late(s, cron); at.IsZero() {
			return
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

// late picks the fire time that is to run of those that have come, and skips what
// is before it. It is zero if none is to run, and catching if it is made up for.
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
		p.skipRange(s.job, at, list[n-1], count-len(run), why+s.why(start, last)+s.job.Misfire.rest())
	}
	if len(run) == 0 {
		p.follow(s.job, cron.Next(newest))
		return time.Time{}, false
	}
	if at = run[0]; !at.Equal(*s.due.At) {
		p.follow(s.job, at)
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
	if h.full > 0 {
		return fmt.Sprintf("%d runs of it were under way: at most %d at a time", h.full, MaxRuns)
	}
	return fmt.Sprintf("still running on %s since %s", h.owner, h.since.UTC().Format(time.RFC3339))
}

// run picks those of the fire times that have come that run: the newest, unless
// it was missed and they are skipped; or all.
func (m Misfire) run(list []time.Time, missed bool) []time.Time {
	switch {
	case m == MisfireAll:
		return list[max(0, len(list)-MaxCatchUp):]
	case m == MisfireOnce || !missed:
		return list[len(list)-1:]
	}
	return nil
}

// rest says in a record what runs in place of those that do not.
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

func deref(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// look collects the situation of a job, guarding all of it.
func look(tx *store.Tx, c candidate) (situation, error) {
	name := c.job
	s := situation{now: clock(tx)}
	s.outage = c.trouble.at(time.Now(), s.now)
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
	want := lease.WantPeek
	if !s.due.Each {
		want, keys = lease.WantLook, append(keys, lockPrefix+name)
	}
	if err := want(tx, keys...); err != nil {
		return s, err
	}
	return s, s.locks(tx)
}

// locks looks at the runs, and at who has the job.
func (s *situation) locks(tx *store.Tx) error {
	for _, r := range s.due.Running {
		lk, err := s.run(tx, r)
		if err != nil {
			return err
		}
		switch {
		case lk == nil:
			s.dead = append(s.dead, death{run: r, why: "its pod gave it up, or its lock was broken"})
		case lk.LeaseID != r.Lease:
			s.dead = append(s.dead, death{run: r, why: "its lock was taken away"})
		case lk.State == lease.Dead:
			s.dead = append(s.dead, death{r, "its pod died", true})
		case lk.State == lease.Expired:
			s.dead = append(s.dead, death{r, "its pod was silent for longer than the ttl", true})
		case !s.due.Each: // perhaps under a lock of its own, from when runs could overlap
			s.held = &holder{owner: podOf(lk.Owner), since: lk.AcquiredAt}
		}
	}
	if s.due.Each {
		if n := len(s.due.Running) - len(s.dead); s.due.full(n) {
			s.held = &holder{full: n}
		}
		return nil
	}
	lk, err := lease.Look(tx, lockPrefix+s.due.Job)
	if err == nil && lk != nil && lk.State == lease.Held {
		s.held = &holder{owner: podOf(lk.Owner), since: lk.AcquiredAt}
	}
	return err
}

// run looks at the lock of a run. Where runs may overlap they may be many, and one
// that goes on is not guarded: its end changes what is due. One that does not is.
func (s *situation) run(tx *store.Tx, r run) (*lease.Info, error) {
	if s.due.Each {
		lk, err := lease.Peek(tx, r.Key)
		if err != nil || lk != nil && lk.LeaseID == r.Lease && lk.State == lease.Held {
			return lk, err
		}
	}
	return lease.Look(tx, r.Key)
}

// write carries out a plan. A claim is written with the lease that was granted
// for it in the same transaction.
func (p plan) write(tx *store.Tx, s situation, g *lease.Grant) (*Fire, error) {
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

func (p plan) writeClaim(tx *store.Tx, s situation, g *lease.Grant) (Fire, error) {
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
func (p plan) writeLost(tx *store.Tx, s situation, d death, g *lease.Grant) error {
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
	return lease.ReleaseKey(tx, d.run.Key, "scheduler", d.why)
}
