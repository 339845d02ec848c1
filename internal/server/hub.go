package server

import (
	"context"
	"slices"
	"sync"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// A hub watches the store once for all streams that have caught up: a thousand
// streams would otherwise read every event a thousand times. It watches while there is
// a stream.
type hub struct {
	st *store.Store

	mu    sync.Mutex
	users int
	run   *watching // nil: nobody streams
}

// keepGroups is how many groups a stream may be behind the newest one without a look
// of its own.
const keepGroups = 1000

// A watching is one watch of the hub.
type watching struct {
	stop context.CancelFunc
	done chan struct{} // closed when the watch has ended

	mu      sync.Mutex
	from    int64         // all groups after this revision are here; -1: it has not begun
	groups  []lease.Group // in order
	changed chan struct{} // closed when there are more, or the watch has ended
	err     error         // why it has ended
}

// join starts the watch if there is none. The last one that leaves ends it.
func (h *hub) join() (w *watching, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run == nil || h.run.failed() {
		ctx, cancel := context.WithCancel(context.Background())
		h.run = &watching{stop: cancel, done: make(chan struct{}), from: -1, changed: make(chan struct{})}
		go h.run.watch(ctx, h.st)
	}
	h.users++
	return h.run, h.leave
}

func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users--; h.users == 0 {
		h.run.stop()
		<-h.run.done
		h.run = nil
	}
}

func (w *watching) watch(ctx context.Context, st *store.Store) {
	defer close(w.done)
	err := lease.Watch(ctx, st, lease.WatchRequest{Since: lease.FromNow},
		func(rev int64) { w.add(func() { w.from = rev }) },
		func(g lease.Group) error {
			w.add(func() { w.keep(g) })
			return nil
		})
	w.stop()
	w.add(func() { w.err = err })
}

// add changes what the streams see, and wakes them.
func (w *watching) add(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

// keep adds a group. After a gap, whoever is behind it has to look for itself.
func (w *watching) keep(g lease.Group) {
	if g.Gap {
		w.from, w.groups = g.Rev, nil
		return
	}
	if len(w.groups) == keepGroups {
		w.from, w.groups = w.groups[0].Rev, slices.Clone(w.groups[1:])
	}
	w.groups = append(w.groups, g)
}

func (w *watching) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

// begun reports whether there is something to compare a revision with.
func (w *watching) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.from >= 0
}

// after returns the groups after a revision, if all of them are here, and what tells of
// the next change.
func (w *watching) after(rev int64) (groups []lease.Group, whole bool, changed <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.from < 0 || rev < w.from {
		return nil, false, w.changed, w.err
	}
	i, _ := slices.BinarySearchFunc(w.groups, rev+1, func(g lease.Group, rev int64) int { return int(min(max(g.Rev-rev, -1), 1)) })
	return w.groups[i:len(w.groups):len(w.groups)], true, w.changed, nil
}
