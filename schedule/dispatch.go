package schedule

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// dispatcher hands candidates to handlers and slots. A slot waits for a job with
// a guardian that is started already, so that a claim names the guardian from its
// first moment, and a pod that loses the race for a fire time has started nothing
// for it. An idle slot stays for a while.
type dispatcher struct {
	queue chan candidate // for slots

	mu       sync.Mutex
	reserved map[string]bool      // jobs that are in the queue, or being claimed
	blocked  map[string]candidate // jobs that wait for a lock, as they were found
	places   map[string]candidate // jobs that have, or may have, a place in the queue of their pool
	failed   map[string]failure   // jobs that could not be claimed, for a reason of their own
	trouble  trouble              // with the store: no job is claimed before its end
	reading  bool                 // it came of a look
	said     lastSaid             // about it, in the log
	slots    int
	idle     int
	handling int                // goroutines that call handlers
	waiting  []candidate        // for handlers
	recheck  map[string]bool    // jobs whose due record may be gone: see memory
	runs     map[string]bool    // leases of what runs here
	endSleep context.CancelFunc // ends the sleep of the loop
	woken    bool               // do not even begin it
}

// failure is why a job could not be claimed, at a revision. The pod tries again later,
// or when something was written about the job.
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
	errResting = errors.New("the store is left alone for now")
)

func (c *dispatcher) init() {
	c.queue = make(chan candidate, MaxJobs)
	c.reserved, c.runs, c.recheck = map[string]bool{}, map[string]bool{}, map[string]bool{}
	c.blocked, c.places, c.failed = map[string]candidate{}, map[string]candidate{}, map[string]failure{}
}

func (c *dispatcher) running() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.runs)
}

// quiet reports whether nothing runs or is about to.
func (c *dispatcher) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.runs)+len(c.reserved) == 0
}

func (c *dispatcher) runsHere(lease string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[lease]
}

func (c *dispatcher) runBegan(lease string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[lease] = true
}

// runEnded notes that a run has ended, and whether its slot is free again.
func (p *pod) runEnded(r *run, slot bool) {
	p.mu.Lock()
	delete(p.runs, r.fire.Lease)
	p.recheck[r.fire.Job] = true // perhaps nothing more of it is due
	if slot {
		p.idle++
	}
	p.mu.Unlock()
	if r.unfinished { // nobody looked at its lock while it was ours
		p.wake()
	}
	p.wakeIfOnce()
}

// wakeIfOnce makes a pod that runs once look whether it has finished: the last change
// of the store came before it had.
func (p *pod) wakeIfOnce() {
	if p.o.Once {
		p.wake()
	}
}

// wake ends the sleep of the loop.
func (c *dispatcher) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.woken = true; c.endSleep != nil {
		c.endSleep()
	}
}

// isBlocked reports whether the job was found blocked, perhaps by a full pool, and
// nothing was written about it since.
func (c *dispatcher) isBlocked(job string, rev int64) (yes, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.blocked[job]
	yes = found.rev == rev
	return yes, yes && found.full
}

// whyResting returns why a job is not to be tried again yet, if so.
func (c *dispatcher) whyResting(job string, rev int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.failed[job]; f.rev == rev && time.Now().Before(f.until) {
		return f.err
	}
	return nil
}

// restLeft is how long no job is to be claimed.
func (c *dispatcher) restLeft() time.Duration {
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
		if !p.reserve(c) {
			continue
		}
		if p.handlers[c.job] != nil {
			p.enqueue(c)
			continue
		}
		select {
		case p.queue <- c:
		default:
			p.unreserve(c)
		}
	}
	p.addSlot()
}

// enqueue queues a candidate for its handler. Each of those who call handlers
// takes the next one when its own has ended, so the queue moves without another look.
func (p *pod) enqueue(c candidate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, c)
	if p.handling < p.o.MaxRunning {
		p.handling++
		p.work.Add(1)
		go p.handleAll()
	}
}

func (p *pod) handleAll() {
	defer p.work.Done()
	for {
		c, ok := p.nextQueued()
		if !ok {
			return
		}
		p.handle(c)
	}
}

// nextQueued returns the next candidate for a handler. If there is none, its caller
// must end.
func (p *pod) nextQueued() (c candidate, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 || p.Soft.Err() != nil {
		p.handling--
		return c, false
	}
	c, p.waiting = p.waiting[0], p.waiting[1:]
	return c, true
}

// reserve marks a job as queued or being claimed, unless it is.
func (p *pod) reserve(c candidate) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reserved[c.job] {
		return false
	}
	p.reserved[c.job] = true
	return true
}

// unreserve takes the mark off.
func (p *pod) unreserve(c candidate) {
	p.mu.Lock()
	delete(p.reserved, c.job)
	p.mu.Unlock()
	p.wakeIfOnce()
}

// addSlot starts a slot when all that there are have something to do.
func (p *pod) addSlot() {
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
		retire, err := p.runNext()
		if retire || p.Soft.Err() != nil {
			p.mu.Lock()
			p.slots--
			p.idle--
			p.mu.Unlock()
			return
		}
		if err != nil {
			p.say(LogEntry{Level: LevelWarn, Event: "trouble"}, "%v", err)
			p.pause(again)
		}
	}
}

// nextClaim waits for a candidate and claims it.
func (p *pod) nextClaim(ctx context.Context, r lease.AcquireRequest) (claimed, error) {
	var over <-chan time.Time
	for {
		if p.hasSpareSlot() {
			timer := time.NewTimer(linger)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case c := <-p.queue:
			if p.Soft.Err() != nil {
				return claimed{}, errRetired
			}
			p.setBusy(true)
			got, err := p.attempt(ctx, c, r)
			if err == nil {
				p.addSlot()
				return got, nil
			}
			p.setBusy(false)
		case <-over:
			if over = nil; p.hasSpareSlot() {
				return claimed{}, errRetired
			}
		case <-p.Soft.Done():
			return claimed{}, errRetired
		}
	}
}

func (p *pod) setBusy(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if yes {
		p.idle--
	} else {
		p.idle++
	}
}

func (p *pod) hasSpareSlot() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle > 1
}
