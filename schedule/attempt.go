package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// attempt claims a reserved candidate, and logs the result.
func (p *pod) attempt(ctx context.Context, c candidate, r lease.AcquireRequest) (claimed, error) {
	if p.restLeft() > 0 {
		p.unreserve(c)
		return claimed{}, errResting
	}
	c.trouble = p.troubleWith(c.job)
	from := time.Now()
	c.tried = from
	c.holder = p.holderFor(c)
	got, err := claimNext(ctx, p.st, c, r)
	p.notePlace(c, err)
	if err == nil {
		p.runBegan(got.fire.Lease)
		p.logPlan(got.wrote, c.job)
	}
	p.unreserve(c)
	if err == nil || !p.notClaimed(c, from, err) {
		p.storeAnswered(c.job, !errors.Is(err, errNothing) && !errors.Is(err, errBlocked))
	}
	return got, err
}

// notClaimed logs why a candidate was not claimed, and reports whether it was trouble.
func (p *pod) notClaimed(c candidate, from time.Time, err error) bool {
	e := LogEntry{Level: LevelDebug, Event: "skipping", Job: c.job, FireTime: &c.at, RunID: runID(c.job, c.at)}
	p.doubt(c.job)
	var s *settled
	switch {
	case errors.As(err, &s):
		p.logPlan(s.p, c.job)
	case errors.Is(err, errBlocked):
		p.mu.Lock()
		before := p.blocked[c.job]
		c.full = errors.Is(err, errPoolFull)
		p.blocked[c.job] = c
		p.mu.Unlock()
		switch logged := before.at.Equal(c.at) && before.full == c.full; {
		case logged:
		case c.full:
			p.say(e, "Waiting with %s - no slot of its pool is free", fireLabel(c.job, c.at))
		default:
			p.say(e, "Waiting with %s - the run before it has not ended", fireLabel(c.job, c.at))
		}
		p.wake()
	case errors.Is(err, errNothing):
		p.say(e, "Skipping %s - already running on another pod", fireLabel(c.job, c.at))
	case p.Soft.Err() != nil:
		return true
	case store.Transient(err) && !(p.o.Once && driver.Refusal(err)): // Once reports a refusal
		p.storeFailed(from, err, false)
		return true
	default:
		p.jobFailed(c, from, err)
		return true
	}
	return false
}

// logPlan logs what was decided besides a claim.
func (p *pod) logPlan(done plan, job string) {
	for _, f := range done.records {
		e := LogEntry{Event: "skipped", Job: job, FireTime: &f.At, RunID: f.RunID}
		if f.Count > 1 {
			p.say(e, "Skipping %s and %d after it - %s", fireLabel(job, f.At), f.Count-1, f.Why)
			continue
		}
		p.say(e, "Skipping %s - %s", fireLabel(job, f.At), f.Why)
	}
	for _, d := range done.lost {
		p.say(LogEntry{Level: LevelWarn, Event: "lost", Job: job, FireTime: &d.run.At, Attempt: d.run.Attempt}, "Lost %s: %s", fireLabel(job, d.run.At), d.why)
	}
}

// fireLabel is a fire time in the log.
func fireLabel(job string, at time.Time) string {
	if at.Nanosecond() == 0 {
		return job + ":" + at.UTC().Format("20060102T150405Z")
	}
	return job + ":" + timeKey(at)
}
