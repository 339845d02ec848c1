package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/tasklock/tasklock/lock"
)

// TestNotice: a lease that is broken is lost at once, long before a heartbeat
// would find out; one that is only renewed, or lacks its store for a while, is not.
func TestNotice(t *testing.T) {
	bubble(t, func(w *world) {
		r := minute("alice", "a", "path:src/**")
		r.TTL = 24 * time.Hour
		l := w.hold(r)
		ctx, stop := context.WithCancel(w.ctx)
		done := make(chan struct{})
		go func() { l.Notice(ctx); close(done) }()
		time.Sleep(48 * time.Hour)
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
		_, err := lock.Break(w.ctx, w.st, lock.BreakRequest{Keys: []string{"path:src/**"}, By: "bob", Reason: "test"})
		w.must(err)
		if after := w.lostAfter(l); after > 10*time.Second {
			t.Errorf("noticed after %s", after)
		}
		<-done
		stop()
		w.want(l.Release(w.ctx), lock.ErrLost)
	})
}

// TestNamedHolder: who comes back under its name goes on where it stood, before
// those who came meanwhile, and then holds as everyone does.
func TestNamedHolder(t *testing.T) {
	bubble(t, func(w *world) {
		first := w.hold(minute("alice", "a"))
		r := minute("bob", "a")
		r.Holder, r.Wait = "h", time.Second
		place := func(r lock.AcquireRequest, want int) {
			t.Helper()
			_, err := lock.Hold(w.ctx, w.st, r)
			if held := as[*lock.HeldError](w, err); held.Position != want {
				t.Errorf("%s/%s has place %d, want %d", r.Owner, r.Holder, held.Position, want)
			}
		}
		place(r, 1)
		other := r
		other.Holder = "i"
		place(other, 2)
		other.Holder = "" // nobody could come back under this name
		place(other, 0)
		place(r, 1)
		w.must(first.Release(w.ctx))
		l := w.hold(r)
		if l.Owner() != "bob/h" {
			t.Error(l.Owner())
		}
		time.Sleep(time.Hour)
		w.must(l.Release(w.ctx))
	})
}
