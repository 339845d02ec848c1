package local

import (
	"sync"

	"github.com/fsnotify/fsnotify"
)

// hub is the process's one watcher: the kernel gives a user few of them (128
// by default on Linux), and a process may have many stores and waiters. It runs
// from the first wait until the last Wake that waited is closed: ending a
// watcher takes the kernel milliseconds, too long for every wait.
var hub watchers

type watchers struct {
	changing sync.Mutex        // held while watches come and go, never by deliver
	users    int               // Wakes that may wait
	watcher  *fsnotify.Watcher // nil: nobody waited
	done     chan struct{}     // closed when the watcher's goroutine has ended

	mu    sync.Mutex          // protects the map and what is in it
	files map[string]*watched // by path
}

type watched struct {
	subs map[*Subscription]bool
	lost bool // the file was removed, and the watch with it
}

// subscribe delivers events on s's files to s until unsubscribe. After an
// error s gets no events.
func (h *watchers) subscribe(s *Subscription) error {
	h.changing.Lock()
	defer h.changing.Unlock()
	if err := h.start(); err != nil {
		return err
	}
	for _, path := range h.add(s) {
		if err := h.watcher.Add(path); err != nil {
			h.drop(s)
			return err
		}
		h.found(path)
	}
	return nil
}

func (h *watchers) unsubscribe(s *Subscription) {
	h.changing.Lock()
	defer h.changing.Unlock()
	h.drop(s)
}

func (h *watchers) join() {
	h.changing.Lock()
	defer h.changing.Unlock()
	h.users++
}

// leave ends the watcher and its goroutine, if this was the last user.
func (h *watchers) leave() {
	h.changing.Lock()
	defer h.changing.Unlock()
	h.users--
	if h.users > 0 || h.watcher == nil {
		return
	}
	_ = h.watcher.Close()
	<-h.done
	h.watcher = nil
}

// start makes the watcher if nobody waited so far.
func (h *watchers) start() error {
	if h.watcher != nil {
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	h.watcher, h.done, h.files = w, make(chan struct{}), make(map[string]*watched)
	go h.deliver(w, h.done)
	return nil
}

func (h *watchers) drop(s *Subscription) {
	if h.watcher == nil {
		return
	}
	for _, path := range h.remove(s) {
		_ = h.watcher.Remove(path) // fails when the file is gone already
	}
}

// add enters s and returns the paths that still need a watch.
func (h *watchers) add(s *Subscription) (unwatched []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, path := range s.paths {
		f := h.files[path]
		if f == nil {
			f = &watched{subs: make(map[*Subscription]bool), lost: true}
			h.files[path] = f
		}
		f.subs[s] = true
		if f.lost {
			unwatched = append(unwatched, path)
		}
	}
	return unwatched
}

// remove takes s out and returns the paths nobody needs now.
func (h *watchers) remove(s *Subscription) (unused []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, path := range s.paths {
		f := h.files[path]
		if f == nil {
			continue
		}
		delete(f.subs, s)
		if len(f.subs) == 0 {
			delete(h.files, path)
			unused = append(unused, path)
		}
	}
	return unused
}

func (h *watchers) found(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files[path].lost = false
}

// lost reports whether one of s's files is no longer watched.
func (h *watchers) lost(s *Subscription) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, path := range s.paths {
		if f := h.files[path]; f != nil && f.lost {
			return true
		}
	}
	return false
}

func (h *watchers) deliver(w *fsnotify.Watcher, done chan struct{}) {
	defer close(done)
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			h.publish(e)
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
			h.publishAll() // the kernel dropped events
		}
	}
}

func (h *watchers) publish(e fsnotify.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.files[e.Name]
	if f == nil {
		return
	}
	if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		f.lost = true
	}
	for s := range f.subs {
		s.notify()
	}
}

func (h *watchers) publishAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.files {
		for s := range f.subs {
			s.notify()
		}
	}
}
