package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// A job that is due and finds no slot of its pool waits in the pool's queue, as
// everybody does. Its pod does not stand still meanwhile: it has a place in the queue,
// which ends with the pod, and tries the claim again when the pool has changed. The
// claim that succeeds takes the slot, and ends the place, in one commit. Of several pods
// one queues for a job. Its place ends when nothing of the job is due any more.

const (
	// poolRest is how long a pod sleeps at most while a job of it waits for a slot: it hears
	// that a slot was released, but not of another size or of waiters that leave.
	poolRest = 2 * time.Second

	// poolBeat is how often it tries at least. That keeps the place, and finds out that
	// the pod that queued for the job is dead.
	poolBeat = 5 * time.Second

	// poolKeep is how long a place lasts without a try: a pod that runs as much as it may
	// cannot use a slot, and would keep others from it.
	poolKeep = 2 * poolBeat
)

// stateOfPools describes the pools that jobs wait for. What differs from the last attempt
// is worth another.
func stateOfPools(tx *store.Tx, v *view) (map[string]string, error) {
	states := map[string]string{}
	for _, key := range v.pools {
		v.sleep = min(v.sleep, poolRest)
		p, err := lease.PeekPool(tx, key)
		if err != nil {
			return nil, err
		}
		states[key] = fmt.Sprint(p.Size, p.All, p.Waiters)
		for _, h := range p.Holders {
			states[key] += fmt.Sprint(" ", h.Key, h.Token)
		}
	}
	return states, nil
}

// mayHaveSlot reports whether a claim that found the pool full is to be tried again.
func (c *dispatcher) mayHaveSlot(now candidate) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.blocked[now.job]
	return found.seen != now.seen || time.Since(found.tried) >= poolBeat
}

// fullPools lists the pools for whose slots jobs of this pod wait.
func (p *pod) fullPools() (keys []string) {
	for d := range p.mine() {
		if _, full := p.isBlocked(d.Value.Job, d.Rev); full && !slices.Contains(keys, d.Value.Pool) {
			keys = append(keys, d.Value.Pool)
		}
	}
	slices.Sort(keys)
	return keys
}

// holderFor is the name under which a job waits for a slot, as long as it does; without
// a pool it is "".
func (c *dispatcher) holderFor(job candidate) string {
	if job.pool == "" {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	place, ok := c.places[job.job]
	if !ok {
		return lease.NewID()
	}
	place.tried, place.trying = job.tried, true
	c.places[job.job] = place
	return place.holder
}

// notePlace notes whether a job has a place in the queue after an attempt. The place of
// one that was claimed has become its lease. One that waits for something else, or no
// longer, would keep others from a slot.
func (p *pod) notePlace(c candidate, err error) {
	if c.pool == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.places, c.job)
		return
	}
	c.over, c.tried = !errors.Is(err, errPoolFull) && !store.MayPass(err), time.Now() // a try may take long
	p.places[c.job] = c
}

// leaveQueues leaves the queues of pools in which jobs wait of which nothing is due.
func (p *pod) leaveQueues(due map[string]string) {
	for _, c := range p.unneeded(due) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.Soft), poolBeat)
		err := lease.LeaveQueue(ctx, p.st, c.pool, p.o.Pod+"/"+c.holder)
		if cancel(); err == nil {
			p.mu.Lock()
			if p.places[c.job].tried.Equal(c.tried) { // else it queues again
				delete(p.places, c.job)
			}
			p.mu.Unlock()
		}
	}
}

// unneeded lists the places of jobs of which nothing is due, or that wait for something
// else, or that nobody has tried to claim for a while. At the end of the pod, where due
// is nil, it lists all of them.
func (c *dispatcher) unneeded(due map[string]string) (list []candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for job, place := range c.places {
		if due == nil || (place.over || due[job] != place.pool) && !c.reserved[job] || !place.trying && time.Since(place.tried) > poolKeep {
			list = append(list, place)
		}
	}
	return list
}
