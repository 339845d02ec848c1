package schedule

import (
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// readSituation collects the situation of a job, guarding all of it.
func readSituation(tx *store.Tx, c candidate) (situation, error) {
	name := c.job
	s := situation{now: clock(tx), full: c.full}
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
			s.dead = append(s.dead, deadRun{run: r, why: "its pod gave it up, or its lock was broken"})
		case lk.LeaseID != r.Lease:
			s.dead = append(s.dead, deadRun{run: r, why: "its lock was taken away"})
		case lk.State == lease.Dead:
			s.dead = append(s.dead, deadRun{r, "its pod died", true})
		case lk.State == lease.Expired:
			s.dead = append(s.dead, deadRun{r, "its pod was silent for longer than the ttl", true})
		case !s.due.Each: // perhaps under a lock of its own, from when runs could overlap
			s.held = &lockHolder{owner: podOf(lk.Owner), since: lk.AcquiredAt}
		}
	}
	if s.due.Each {
		if n := len(s.due.Running) - len(s.dead); s.due.full(n) {
			s.held = &lockHolder{full: n}
		}
		return nil
	}
	lk, err := lease.Look(tx, lockPrefix+s.due.Job)
	if err == nil && lk != nil && lk.State == lease.Held {
		s.held = &lockHolder{owner: podOf(lk.Owner), since: lk.AcquiredAt}
	}
	return err
}

// run looks at the lock of a run. Overlapping runs may be many, so one that goes on has
// no guard: its end changes what is due. One that has ended is guarded.
func (s *situation) run(tx *store.Tx, r runRecord) (*lease.Info, error) {
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
		p.due.Running = append(p.due.Running, runRecord{At: f.At, Attempt: f.Attempt, Lease: g.LeaseID, Key: g.Keys[0].Key})
	}
	if !p.changed {
		return fired, nil
	}
	return fired, putDue(tx, p.due)
}

// putSkipped writes records of skipped fire times that have none.
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
	if slots := g.Slots(); len(slots) > 0 {
		f.Slot = slots[0]
	}
	if c.retry != "" {
		f.Why, f.By = "attempt before: "+c.retry, before.Value.By
	} else if before.Exists() {
		return Fire{}, &firedError{at: c.at}
	}
	return f, putFire(tx, f)
}

// writeLost ends a run of a dead pod, and frees its lock unless g has it now.
func (p plan) writeLost(tx *store.Tx, s situation, d deadRun, g *lease.Grant) error {
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
