package pgstore

import (
	"context"
	"slices"
	"sync"

	"github.com/tasklock/tasklock/store/driver"
)

// maxLooks bounds how many keys are read at once for several callers.
const maxLooks = 1000

// readers lets concurrent reads of single records share a round trip: while
// two are under way the others queue, and the next asks for all their keys
// together. Each sees a state that is newer than its call.
type readers struct {
	s *Store

	mu    sync.Mutex
	queue []*look
	busy  int
}

// maxBusy is how many reads are under way at once.
const maxBusy = 2

// A look is one caller's keys.
type look struct {
	ctx  context.Context
	keys []string
	got  *answer
	err  error
	turn chan bool // true: lead; closed: got and err are set
}

// read returns an answer that has the keys, and perhaps those of others.
func (r *readers) read(ctx context.Context, keys []string) (*answer, error) {
	l := &look{ctx: ctx, keys: keys, turn: make(chan bool, 1)}
	r.mu.Lock()
	r.queue = append(r.queue, l)
	if r.busy < maxBusy {
		r.busy++
		r.mu.Unlock()
		r.lead()
	} else {
		r.mu.Unlock()
	}
	for {
		select {
		case lead := <-l.turn:
			if !lead {
				return l.got, l.err
			}
			r.lead()
		case <-ctx.Done():
			return nil, r.leave(l)
		}
	}
}

// lead reads for all queued callers, and hands the lead on.
func (r *readers) lead() {
	r.mu.Lock()
	n, size := 0, 0
	for n < len(r.queue) && (n == 0 || size+len(r.queue[n].keys) <= maxLooks) {
		size += len(r.queue[n].keys)
		n++
	}
	batch := slices.Clone(r.queue[:n])
	r.queue = r.queue[n:]
	r.mu.Unlock()
	if n > 0 {
		r.ask(batch)
	}
	r.handOn()
}

// handOn gives the lead to the first caller without it: two leaders may end
// before the one that waits has woken.
func (r *readers) handOn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.queue {
		select {
		case l.turn <- true:
			return
		default:
		}
	}
	r.busy--
}

// ask asks for all at once. It goes on while one of them wants its answer.
func (r *readers) ask(batch []*look) {
	ctx, cancel := batch[0].ctx, func() {}
	keys := batch[0].keys
	if len(batch) > 1 {
		group := make([]*driver.Pending, len(batch))
		for i, l := range batch {
			group[i] = &driver.Pending{Ctx: l.ctx}
			if i > 0 {
				keys = append(keys[:len(keys):len(keys)], l.keys...)
			}
		}
		ctx, cancel = driver.Joint(group)
	}
	defer cancel()
	got, err := r.s.read(ctx, driver.Query{Keys: keys})
	for _, l := range batch {
		l.got, l.err = got, err
		close(l.turn)
	}
}

// leave takes a caller whose time is over out of the queue. If it has just got
// the lead, it hands it on.
func (r *readers) leave(l *look) error {
	r.mu.Lock()
	i := slices.Index(r.queue, l)
	if i >= 0 {
		r.queue = slices.Delete(r.queue, i, i+1)
	}
	r.mu.Unlock()
	select {
	case lead := <-l.turn:
		if lead {
			r.handOn()
		}
	default:
	}
	return l.ctx.Err()
}
