package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// errNothing: there is nothing to claim; everything else is written.
var errNothing = errors.New("nothing to claim")

// errBlocked: a due fire time has to wait for a run to end.
var errBlocked = errors.New("has to wait")

// errPoolFull: it has to wait for a slot.
var errPoolFull = fmt.Errorf("%w: its pool is full", errBlocked)

// firedError: that fire time already has a record, because somebody changed the table
// back and forth, or a clock is fast; it must not fire again.
type firedError struct{ at time.Time }

func (e *firedError) Error() string { return "fired before: " + timeKey(e.at) }

// otherPlan stops an acquisition that the rules no longer ask for.
type otherPlan struct{ p plan }

func (*otherPlan) Error() string { return "nothing to claim under that key" }

// claimed is a fire time with the lease under which it runs.
type claimed struct {
	fire  Fire
	job   Job
	key   string
	lease *lease.Lease
	wrote plan // with the claim
}

// claimNext claims the next fire time of a job, if any: the record of the fire time,
// the next one, and the lock in one commit. What needs no claim (a skip, a loss) is
// written instead.
func claimNext(ctx context.Context, st *store.Store, c candidate, r lease.AcquireRequest) (claimed, error) {
	key := c.key
	r.TTL = c.ttl
	for range 3 { // its lock may change with its definition
		out, err := claimUnder(ctx, st, c, key, r)
		var other *otherPlan
		var fired *firedError
		switch {
		case errors.As(err, &other) && other.p.claim != nil:
			key = other.p.due.key(other.p.claim.at)
			continue
		case errors.As(err, &other):
			if err = settle(ctx, st, c); errors.As(err, &other) { // it can be claimed by now
				key = other.p.due.key(other.p.claim.at)
				continue
			}
			return claimed{}, err
		case errors.As(err, &fired):
			return claimed{}, passOver(ctx, st, c, fired.at)
		case errors.Is(err, errPoolFull):
			c.full = true
			return claimed{}, waitForSlot(ctx, st, c)
		}
		return out, err
	}
	return claimed{}, errNothing
}

// claimUnder claims, if the key is the right one for it.
func claimUnder(ctx context.Context, st *store.Store, c candidate, key string, r lease.AcquireRequest) (claimed, error) {
	var s situation
	var p plan
	out := claimed{key: key}
	r.Keys, r.Reason = []string{key}, "job "+c.job
	r.Need = append(need(c.job).Keys, fireKey(c.job, c.at)) // most likely
	r.Holder, r.Stay = c.holder, c.holder != ""
	r.OuterKey = func(tx *store.Tx, _ string) (string, error) {
		var err error
		if s, err = readSituation(tx, c); err != nil {
			return "", err
		}
		if p = decide(s); p.claim == nil || s.due.key(p.claim.at) != key {
			return "", &otherPlan{p}
		}
		if s.job.Pool != "" && c.holder != "" {
			if others, err := lease.OthersWait(tx, key, r.Owner+"/"+c.holder); err != nil || others { // one pod queues for the job
				return "", orElse(err, errPoolFull)
			}
		}
		return s.job.pool(), nil // its slot is released with the job's lock
	}
	r.Then = func(tx *store.Tx, g *lease.Grant) error {
		fire, err := p.write(tx, s, g)
		if err == nil {
			out.fire, out.job, out.wrote = *fire, s.job, p
		}
		return err
	}
	var err error
	var held *lease.HeldError
	switch out.lease, err = lease.Hold(ctx, st, r); {
	case errors.As(err, &held) && held.PoolKey() != "":
		err = errPoolFull
	case errors.As(err, &held):
		err = errBlocked // it waits for those in the queue of the key
	}
	if err == nil {
		out.fire.Token = out.lease.Token()
	}
	return out, err
}

// settle writes what needs no claim.
func settle(ctx context.Context, st *store.Store, c candidate) error {
	var p plan
	_, err := st.Update(ctx, need(c.job), func(tx *store.Tx) error {
		s, err := readSituation(tx, c)
		if err != nil {
			return err
		}
		if p = decide(s); p.claim != nil || !p.changed {
			return nil
		}
		if len(p.records) > 0 && prunesAfter(c.job, p.records[0].At) {
			if err := prune(tx, s.job); err != nil {
				return err
			}
		}
		_, err = p.write(tx, s, nil)
		return err
	})
	switch {
	case err != nil:
		return err
	case p.claim != nil:
		return &otherPlan{p}
	case p.blocked:
		return errBlocked
	case len(p.records) > 0 || len(p.lost) > 0:
		return &settled{p}
	}
	return errNothing
}

// waitForSlot notes that a fire time waits for a slot, so that it is not late when it
// gets one.
func waitForSlot(ctx context.Context, st *store.Store, c candidate) error {
	err := settle(ctx, st, c)
	if errors.Is(err, errBlocked) {
		err = errPoolFull
	}
	return err
}

// settled is what was decided without a claim.
type settled struct{ p plan }

func (s *settled) Error() string { return errNothing.Error() }

// passOver removes a fire time that has a record from what is due.
func passOver(ctx context.Context, st *store.Store, c candidate, at time.Time) error {
	_, err := st.Update(ctx, need(c.job), func(tx *store.Tx) error {
		s, err := readSituation(tx, c)
		if err != nil || !s.exists {
			return err
		}
		d := s.due
		if d.At != nil && !d.At.After(at) {
			var p plan
			if d.At.Before(at) { // missed, and the newest of them was to run
				list, count := between(Job{}, s.job.cron(), *d.At, at.Add(-time.Millisecond), 1)
				why := "missed: " + s.whyMissed(d.start(), s.job.start(list[0])) + s.job.Misfire.rest()
				p.skipRange(s.job, *d.At, list[0], count, why)
			}
			if err := putSkipped(tx, p.records); err != nil {
				return err
			}
			d.setNext(s.job, s.job.cron().Next(at))
		}
		if len(d.Triggers) > 0 && d.Triggers[0].At.Equal(at) {
			d.Triggers = d.Triggers[1:]
		}
		return putDue(tx, d)
	})
	if err != nil {
		return err
	}
	return errNothing
}

func need(name string) driver.Query {
	return driver.Query{Keys: []string{jobKind + name, dueKind + name}}
}

// clock is the store's time. It picks the fire time to claim, so it is one time for
// all runs of the transaction.
func clock(tx *store.Tx) time.Time { return tx.Began().UTC().Add(fault.Shift()) }

// ending is how a run ended.
type ending struct {
	state  State
	why    string
	exit   *int
	output string
	again  bool // not this pod's any more: leave it to the policy for crashes
}

// finish writes how a run ended and releases its lock, in one commit that counts only
// if the lock is still the run's own.
func finish(ctx context.Context, st *store.Store, c claimed, e ending) (Fire, error) {
	f := c.fire
	q := need(f.Job)
	q.Keys = append(q.Keys, fireKey(f.Job, f.At), lease.NeedLease(f.Lease))
	q.Keys = append(q.Keys, lease.NeedLook(c.key).Keys...)
	_, err := st.Update(ctx, q, func(tx *store.Tx) error {
		rec, err := getFire(tx, f.Job, f.At)
		if err != nil {
			return err
		}
		if rec.Exists() && rec.Value.Lease == c.fire.Lease && rec.Value.State == e.state && !e.again {
			f = rec.Value
			return nil // by an attempt whose answer did not come
		}
		if err := lease.Fence(tx, c.key, f.Token); err != nil {
			return err
		}
		if err := lease.WantEnd(tx, c.key); err != nil {
			return err
		}
		if !e.again {
			if err := c.end(tx, e, &f); err != nil {
				return err
			}
		}
		return lease.ReleaseKey(tx, c.key, c.lease.Owner(), "")
	})
	return f, err
}

// end writes the last state of the fire time.
func (c claimed) end(tx *store.Tx, e ending, f *Fire) error {
	rec, err := getFire(tx, f.Job, f.At)
	if err != nil {
		return err
	}
	*f = c.fire
	now := tx.Now().UTC()
	f.State, f.EndedAt, f.ExitCode, f.Output = e.state, &now, e.exit, e.output
	if e.why != "" {
		f.Why = e.why
	}
	if !rec.Exists() || rec.Value.Lease == c.fire.Lease { // else a person removed the job and its history
		if err := putFire(tx, *f); err != nil {
			return err
		}
	}
	due, err := getDue(tx, f.Job)
	switch {
	case errors.Is(err, driver.ErrDamaged): // that it ended counts all the same
		return nil
	case err != nil || !due.Exists():
		return err
	}
	due.Value.end(runRecord{At: f.At, Attempt: f.Attempt})
	if err := putDue(tx, due.Value); err != nil {
		return err
	}
	if !prunesAfter(f.Job, f.At) {
		return nil
	}
	return prune(tx, c.job)
}

// podOf is the pod behind the owner of a lease.
func podOf(owner string) string {
	pod, _, _ := strings.Cut(owner, "/")
	return pod
}
