package schedule

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// view is one look at what is due.
type view struct {
	rev   int64
	ready []candidate       // what may be claimed now
	sleep time.Duration     // until the next one
	keys  []string          // locks of runs that are not ours
	pools []string          // whose slots jobs wait for
	due   map[string]string // jobs of which something is due, also those that wait, and their pools

	damaged []*DamagedError // jobs that cannot be looked at
	trouble error           // with a job that does not fire because of it
}

// candidate is a job that has something to do.
type candidate struct {
	job string
	key string
	at  time.Time
	ttl time.Duration
	rev int64 // of its due record

	trouble trouble   // what kept this pod from claiming it
	full    bool      // its pool was full
	pool    string    // the key of its pool, or ""
	holder  string    // under whose name it waits in the queue of the pool
	seen    string    // the pool, as it was when this was found,
	tried   time.Time // and when the claim was tried
	trying  bool      // it is being tried
	over    bool      // it has a place in the queue and does not need it
}

// loop looks, hands out what is ready, and sleeps until the next fire time or change.
func (p *pod) loop() error {
	for looked := false; p.Soft.Err() == nil; {
		began, quiet := time.Now(), p.quiet() // in this order: what ends after it may leave something to do
		v, err := p.look()
		switch {
		case p.Soft.Err() != nil:
			return nil
		case err != nil && (!store.MayPass(err) || !looked && driver.Refusal(err)):
			return err
		case err != nil:
			p.pause(p.storeFailed(began, err, true))
			continue
		}
		looked = true
		p.storeRead()
		p.logDamaged(v.damaged)
		p.leaveQueues(v.due)
		if p.o.Once && len(v.ready) == 0 && quiet {
			return v.trouble
		}
		if p.restLeft() <= 0 {
			p.offer(v.ready)
		}
		rest := min(max(breath, 10*time.Since(began)), time.Second) // a look at many jobs takes long
		p.sleep(v)
		p.pause(min(rest, v.sleep) - time.Since(began))
	}
	return nil
}

// sleep returns when there may be something to do.
func (p *pod) sleep(v view) {
	ctx, cancel := context.WithCancel(p.Soft)
	defer cancel()
	p.mu.Lock()
	if p.endSleep = cancel; p.woken { // while we looked
		cancel()
	}
	p.woken = false
	p.mu.Unlock()
	if err := lease.Await(ctx, p.st, slices.Concat(v.keys, v.pools), v.sleep, driver.Guard{Key: dueKind, Rev: v.rev}); err != nil && ctx.Err() == nil {
		p.pause(time.Second)
	}
}

func (p *pod) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-p.Soft.Done():
	}
}

// look reads what has changed of all that is due, and the locks of what runs.
func (p *pod) look() (view, error) {
	var v view
	var rev int64
	var watched []otherRun // chosen by the first run of the function: runs begin and end while it reads
	var pools []string
	err := p.remember(func(tx *store.Tx, damaged []*DamagedError) error {
		if rev == 0 {
			rev, watched, pools = tx.Rev(), p.otherRuns(), p.fullPools()
		}
		v = view{due: map[string]string{}, rev: rev, sleep: longSleep, pools: pools, damaged: damaged} // what began later changed due/ after rev: the next look comes at once
		if len(damaged) > 0 {
			v.trouble = damaged[0]
		}
		if len(watched) == maxWatched {
			v.sleep = time.Second // there may be more
		}
		for _, r := range watched {
			if p.memory.dues[r.job] != nil {
				v.keys = append(v.keys, r.key)
			}
		}
		if err := lease.WantLook(tx, v.keys...); err != nil {
			return err
		}
		return p.pick(tx, &v)
	})
	rand.Shuffle(len(v.ready), func(i, j int) { v.ready[i], v.ready[j] = v.ready[j], v.ready[i] }) // pods begin at different ends
	return v, err
}

// logDamaged logs once each job that cannot be read, and when it can be again.
func (p *pod) logDamaged(damaged []*DamagedError) {
	now := map[string]string{}
	for _, d := range damaged {
		if now[d.Job] = d.Error(); p.damaged[d.Job] != now[d.Job] {
			p.say(LogEntry{Level: LevelWarn, Event: "damaged", Job: d.Job}, "%s", d.warning())
		}
	}
	for _, job := range slices.Sorted(maps.Keys(p.damaged)) {
		if now[job] == "" {
			p.say(LogEntry{Event: "mended", Job: job}, "Job %s can be read again", job)
		}
	}
	p.damaged = now
}

// canRun reports whether this pod knows how to run the job.
func (p *pod) canRun(d dueRecord) bool {
	return p.handlers[d.Job] != nil || !d.Handler && p.o.Commands != nil
}

// otherRun is a run on another pod, or one that a job waits for, by its lock.
type otherRun struct{ job, key string }

// otherRuns lists such runs, as many as a wait can watch.
func (p *pod) otherRuns() (list []otherRun) {
	for d := range p.mine() {
		for _, r := range d.Value.Running {
			if !p.runsHere(r.Lease) {
				list = append(list, otherRun{d.Value.Job, r.Key})
			}
		}
		if yes, full := p.isBlocked(d.Value.Job, d.Rev); yes && !full {
			list = append(list, otherRun{d.Value.Job, lockPrefix + d.Value.Job})
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(len(list), maxWatched)]
}

// pick separates what can be claimed now from what comes later.
func (p *pod) pick(tx *store.Tx, v *view) error {
	now := clock(tx)
	dead := map[string]bool{}
	for _, key := range v.keys {
		lk, err := lease.Look(tx, key)
		if err != nil {
			return err
		}
		dead[key] = lk == nil || lk.State != lease.Held
	}
	if err := p.memory.recall(tx, p.withDeadRuns(dead)); err != nil {
		return err
	}
	pools, err := stateOfPools(tx, v)
	if err != nil {
		return err
	}
	for e := range p.mine() {
		d := e.Value
		c := candidate{job: d.Job, ttl: span(d.TTL), rev: e.Rev, pool: d.Pool, seen: pools[d.Pool]}
		ready := false
		for _, r := range d.Running {
			if dead[r.Key] && !p.runsHere(r.Lease) {
				ready, c.at, c.key = true, r.At, d.key(r.At)
			}
		}
		waits, full := p.isBlocked(d.Job, e.Rev)
		waits = waits && (full && !p.mayHaveSlot(c) || !full && !unblocked(d, dead))
		switch {
		case ready:
		case len(d.Triggers) > 0:
			ready, c.at = true, d.Triggers[0].At
			if waits && d.At != nil && d.QueuedAt == nil { // it queues once it comes
				if waits = !d.isDue(now); waits {
					v.sleep = min(v.sleep, d.start().Sub(now))
				}
			}
		case d.At == nil:
			continue
		default:
			left := d.start().Sub(now)
			ready, c.at = left <= 0, *d.At
			if !ready {
				v.sleep = min(v.sleep, left)
			}
		}
		if ready {
			v.due[d.Job] = d.Pool
		}
		if ready && !waits {
			if err := p.whyResting(d.Job, e.Rev); err != nil {
				v.trouble = orElse(v.trouble, err)
				continue
			}
			c.key = orElse(c.key, d.key(c.at))
			v.ready = append(v.ready, c)
		}
	}
	return nil
}

// withDeadRuns lists the jobs whose runs on other pods have ended: perhaps in a commit
// after which nothing of the job is due.
func (p *pod) withDeadRuns(dead map[string]bool) (jobs []string) {
	for e := range p.mine() {
		if slices.ContainsFunc(e.Value.Running, func(r runRecord) bool { return dead[r.Key] }) {
			jobs = append(jobs, e.Value.Job)
		}
	}
	slices.Sort(jobs)
	return jobs
}

// unblocked reports whether what a blocked job waited for has ended.
func unblocked(d dueRecord, dead map[string]bool) bool {
	for _, r := range d.Running {
		if !d.Each && !dead[r.Key] {
			return false
		}
	}
	return dead[lockPrefix+d.Job]
}
