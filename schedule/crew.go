package schedule

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// crew hands candidates to those who run them. A slot is a command that has
// not been chosen yet: its guardian is started already, so that a claim can
// name it from its first moment and the losers of a race have started nothing
// for it. Slots stay for a while when they are idle.
type crew struct {
	queue chan candidate // for slots

	mu      sync.Mutex
	taken   map[string]bool      // jobs that are in the queue, or being claimed
	blocked map[string]candidate // jobs that wait for a lock, as they were found
	failed  map[string]failure   // jobs that could not be claimed, for a reason of their own
	trouble trouble              // with the store: no job is claimed before its end
	reading bool                 // it came of a look
	said    said                 // about it, in the log
	slots   int
	idle    int
	calls   int                // of handlers
	refused bool               // one had to wait for another to end
	runs    map[string]bool    // leases of what runs here
	cancel  context.CancelFunc // ends the sleep of the loop
	poked   bool               // it shall not even begin
}

// failure is why a job could not be claimed, as it was at a revision. It is
// tried again later, or when something was written about it.
type failure struct {
	rev int64
	trouble
}

const (
	linger = time.Minute // of a slot that has nothing to do, while there are others
	again  = time.Second // before another attempt at what failed
)

var (
	errRetired = errors.New("nothing to do")
	errRests   = errors.New("the store is left alone for now")
)

func (c *crew) init() {
	c.queue = make(chan candidate, MaxJobs)
	c.taken, c.runs = map[string]bool{}, map[string]bool{}
	c.blocked, c.failed = map[string]candidate{}, map[string]failure{}
}

func (c *crew) running() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.runs)
}

// quiet reports whether nothing runs or is about to.
func (c *crew) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.runs)+len(c.taken) == 0
}

func (c *crew) mine(lease string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[lease]
}

func (c *crew) began(lease string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[lease] = true
}

// ended is told when a run has ended, and whether its slot is free again.
func (p *pod) ended(t *turn, slot bool) {
	p.mu.Lock()
	delete(p.runs, t.fire.Lease)
	if slot {
		p.idle++
	}
	p.mu.Unlock()
	if t.open { // nobody looked at its lock while it was ours
		p.poke()
	}
	p.perhapsQuiet()
}

// perhapsQuiet makes a pod that runs once look whether it was all: the last
// change of the store came before it was.
func (p *pod) perhapsQuiet() {
	if p.o.Once {
		p.poke()
	}
}

// poke ends the sleep of the loop.
func (c *crew) poke() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.poked = true; c.cancel != nil {
		c.cancel()
	}
}

// waits reports whether the job was found blocked, and nothing was written
// about it since.
func (c *crew) waits(job string, rev int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocked[job].rev == rev
}

// rests returns why a job is not to be tried again yet, if so.
func (c *crew) rests(job string, rev int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.failed[job]; f.rev == rev && time.Now().Before(f.until) {
		return f.err
	}
	return nil
}

// rest is how long no job is to be claimed.
func (c *crew) rest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble.n == 0 {
		return 0
	}
	return time.Until(c.trouble.until)
}

// offer passes candidates on to those who can run them.
func (p *pod) offer(list []candidate) {
	for _, c := range list {
		if !p.take(c) {
			continue
		}
		if p.handlers[c.job] != nil {
			if p.enter() {
				p.work.Add(1)
				go p.handle(c)
			} else {
				p.put(c)
			}
			continue
		}
		select {
		case p.queue <- c:
		default:
			p.put(c)
		}
	}
	p.staff()
}

// enter reports whether another handler may be called.
func (p *pod) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls >= p.o.MaxRunning {
		p.refused = true
		return false
	}
	p.calls++
	return true
}

// leave makes room for another one.
func (p *pod) leave() {
	p.mu.Lock()
	p.calls--
	refused := p.refused
	p.refused = false
	p.mu.Unlock()
	if refused {
		p.poke()
	}
}

// take marks a job as being looked after.
func (p *pod) take(c candidate) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[c.job] {
		return false
	}
	p.taken[c.job] = true
	return true
}

// put ends that.
func (p *pod) put(c candidate) {
	p.mu.Lock()
	delete(p.taken, c.job)
	p.mu.Unlock()
	p.perhapsQuiet()
}

// staff starts a slot when all that there are have something to do.
func (p *pod) staff() {
	if p.o.Commands == nil || p.Soft.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == 0 && p.slots < p.o.MaxRunning {
		p.slots++
		p.idle++
		p.work.Add(1)
		go p.slot()
	}
}

// slot runs one command after the other.
func (p *pod) slot() {
	defer p.work.Done()
	for {
		retire, err := p.turn()
		if retire || p.Soft.Err() != nil {
			p.mu.Lock()
			p.slots--
			p.idle--
			p.mu.Unlock()
			return
		}
		if err != nil {
			p.say(Event{Level: LevelWarn, Event: "trouble"}, "%v", err)
			p.pause(again)
		}
	}
}

// await waits for a candidate and claims it.
func (p *pod) await(ctx context.Context, r lease.AcquireRequest) (claimed, error) {
	var over <-chan time.Time
	for {
		if p.spare() {
			timer := time.NewTimer(linger)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case c := <-p.queue:
			if p.Soft.Err() != nil {
				return claimed{}, errRetired
			}
			p.busy(true)
			got, err := p.attempt(ctx, c, r)
			if err == nil {
				p.staff()
				return got, nil
			}
			p.busy(false)
		case <-over:
			if over = nil; p.spare() {
				return claimed{}, errRetired
			}
		case <-p.Soft.Done():
			return claimed{}, errRetired
		}
	}
}

func (p *pod) busy(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if yes {
		p.idle--
	} else {
		p.idle++
	}
}

func (p *pod) spare() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle > 1
}

// attempt claims a candidate that was taken, and says what came of it.
func (p *pod) attempt(ctx context.Context, c candidate, r lease.AcquireRequest) (claimed, error) {
	if p.rest() > 0 {
		p.put(c)
		return claimed{}, errRests
	}
	c.trouble = p.troubleWith(c.job)
	from := time.Now()
	got, err := claimNext(ctx, p.st, c, r)
	if err == nil {
		p.began(got.fire.Lease)
		p.report(got.wrote, c.job)
	}
	p.put(c)
	if err == nil || !p.judge(c, from, err) {
		p.storeAnswered(c.job, !errors.Is(err, errNothing) && !errors.Is(err, errBlocked))
	}
	return got, err
}

// judge says what came of a candidate that was not claimed, and reports whether
// it was trouble.
func (p *pod) judge(c candidate, from time.Time, err error) bool {
	e := Event{Level: LevelDebug, Event: "skipping", Job: c.job, FireTime: &c.at, RunID: runID(c.job, c.at)}
	var s *settled
	switch {
	case errors.As(err, &s):
		p.report(s.p, c.job)
	case errors.Is(err, errBlocked):
		p.mu.Lock()
		told := p.blocked[c.job].at.Equal(c.at)
		p.blocked[c.job] = c
		p.mu.Unlock()
		if !told {
			p.say(e, "Waiting with %s - the run before it has not ended", label(c.job, c.at))
		}
		p.poke()
	case errors.Is(err, errNothing):
		p.say(e, "Skipping %s - already running on another pod", label(c.job, c.at))
	case p.Soft.Err() != nil:
		return true
	case store.Transient(err) && !(p.o.Once && driver.Refusal(err)): // whoever runs it once wants to know of that
		p.storeFailed(from, err, false)
		return true
	default:
		p.jobFailed(c, from, err)
		return true
	}
	return false
}

// report tells what was decided besides a claim.
func (p *pod) report(done plan, job string) {
	for _, f := range done.records {
		e := Event{Event: "skipped", Job: job, FireTime: &f.At, RunID: f.RunID}
		if f.Count > 1 {
			p.say(e, "Skipping %s and %d after it - %s", label(job, f.At), f.Count-1, f.Why)
			continue
		}
		p.say(e, "Skipping %s - %s", label(job, f.At), f.Why)
	}
	for _, d := range done.lost {
		p.say(Event{Level: LevelWarn, Event: "lost", Job: job, FireTime: &d.run.At, Attempt: d.run.Attempt}, "Lost %s: %s", label(job, d.run.At), d.why)
	}
}

// label is a fire time in the log.
func label(job string, at time.Time) string {
	if at.Nanosecond() == 0 {
		return job + ":" + at.UTC().Format("20060102T150405Z")
	}
	return job + ":" + stamp(at)
}
