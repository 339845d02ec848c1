package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
)

// Window is how long a holder may trust a lease after the start of its last
// successful heartbeat, and how long its work then has to end. Both together end
// before the store can give the key to another owner.
func Window(ttl time.Duration) (trust, grace time.Duration) {
	grace = min(10*time.Second, ttl/6)
	return ttl - grace - ttl/10, grace
}

// A Lease is held by this process, which renews it until it is released or
// lost. Losing it cancels [Lease.Context] with a cause that is [ErrLost].
type Lease struct {
	st    *store.Store
	grant Grant
	held  holding
	limit time.Duration // max hold
	full  time.Duration // the ttl without it
	leave func()        // stops looking for a loss

	granted time.Duration // the ttl at first

	ctx  context.Context
	end  context.CancelCauseFunc
	stop context.CancelFunc
	done chan struct{} // closed when the keeper has ended

	now func() host.Moment

	mu     sync.Mutex
	trust  host.Moment   // start of the last successful heartbeat
	ttl    time.Duration // from then on; max hold shortens it in the end
	failed error         // of the last heartbeat
	loss   error         // kept apart from ctx, which may have ended before

	once     sync.Once
	released error
}

// Hold acquires the keys while this process lives and wants them. The holder is a
// child with its own name, "<owner>/<random>": two holders of one owner exclude
// each other, and a holder uses what a parent holds without acquiring it again. If
// the wait was too short the holder leaves the queue, unless it was named.
//
// The end of ctx cancels [Lease.Context], but the lease lasts until
// [Lease.Release]: the work under it may need time to stop.
func Hold(ctx context.Context, st *store.Store, r AcquireRequest) (*Lease, error) {
	return hold(ctx, st, r, clocks)
}

func hold(ctx context.Context, st *store.Store, r AcquireRequest, now func() host.Moment) (*Lease, error) {
	attached := r.Holder == ""
	if attached {
		r.Holder = NewID()
	}
	r.Owner += "/" + r.Holder
	if r.Process.PID == 0 {
		r.Process = host.Self()
	}
	a, err := newAcquisition(st, r, true)
	if err != nil {
		return nil, err
	}
	a.attached, a.now = attached, now
	g, err := a.run(ctx, st)
	if err != nil {
		return nil, err
	}
	l := &Lease{st: st, grant: *g, ttl: min(a.ttl, g.ExpiresAt.Sub(g.AcquiredAt)), done: make(chan struct{}), now: now, trust: a.began}
	l.held = holding{names: g.leases, tokens: map[string]int64{}}
	for _, k := range g.Keys {
		l.held.tokens[k.Key] = k.Token
	}
	if a.written.holds() {
		l.held.own, l.held.record = a.lease(), a.written
	}
	l.limit, l.full, l.granted = r.MaxHold, a.ttl, l.ttl
	l.ctx, l.end = context.WithCancelCause(context.WithValue(ctx, holderKey{}, r.Owner))
	l.leave = st.Follow(slices.Collect(l.followed()), l.look)
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go l.keep(keep)
	return l, nil
}

// Grant is what was acquired.
func (l *Lease) Grant() Grant { return l.grant }

// Token is the largest fencing token of the lease's keys.
func (l *Lease) Token() int64 { return l.grant.Token }

// Owner is the child under whose name the lease is held.
func (l *Lease) Owner() string { return l.grant.Owner }

// TTL is how long the store waits for a heartbeat.
func (l *Lease) TTL() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ttl
}

// Context is cancelled when the lease is lost, with a cause that is [ErrLost],
// and when it is released. [HolderOf] finds the lease's owner in it.
func (l *Lease) Context() context.Context { return l.ctx }

// Err is nil while the lease may be trusted.
func (l *Lease) Err() error {
	if err := cmp.Or(l.lost(), context.Cause(l.ctx)); err != nil {
		return err
	}
	if l.Left() <= 0 {
		return l.expired()
	}
	return nil
}

// Release stops the heartbeat and releases what this lease acquired, which is
// nothing if a parent held it before. If the lease was lost meanwhile it
// returns [ErrLost], and changes nothing that is not recorded as its own.
// Calling it again returns the same. It outlives ctx, at most as long as an
// unreleased lease would last.
func (l *Lease) Release(ctx context.Context) error { return l.ReleaseWith(ctx, l.release) }

// ReleaseWith is Release for a holder whose own commit releases the keys, as the
// completion of a task does: it calls release once the heartbeat has ended.
func (l *Lease) ReleaseWith(ctx context.Context, release func(context.Context) error) error {
	l.once.Do(func() {
		l.stop()
		<-l.done
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(l.TTL(), time.Second))
		defer cancel()
		l.released = release(ctx)
		l.end(context.Canceled)
	})
	return l.released
}

func (l *Lease) release(ctx context.Context) error {
	if l.held.own != "" {
		r := release{ReleaseRequest: ReleaseRequest{Owner: l.grant.Owner, Lease: l.held.own}, likely: l.held.record.Keys, leave: true}
		out, err := r.run(ctx, l.st)
		if err != nil {
			return fmt.Errorf("release: %w", err)
		}
		unused := !r.found && len(l.held.record.Using) > 0
		if unused || !l.releasedAll(out) {
			err := l.explain(ctx, &LostError{Key: l.grant.Keys[0].Key, Token: l.grant.Token})
			var lost *LostError
			if errors.As(err, &lost) && lost.Why == "" && unused {
				err = l.useEnded()
			}
			l.lose(err)
		}
	}
	return l.lost()
}

// lose declares the lease lost, even if the work has already ended for another
// reason.
func (l *Lease) lose(err error) {
	l.mu.Lock()
	l.loss = cmp.Or(l.loss, err)
	l.mu.Unlock()
	l.end(err)
}

func (l *Lease) lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loss
}

// releasedAll reports whether every key of this lease was still its own. A key may
// stay for others that use it.
func (l *Lease) releasedAll(out ReleaseResult) bool {
	for _, key := range Without(Without(l.held.record.Keys, l.held.record.Auto), out.Left) {
		if !slices.ContainsFunc(out.Released, func(r Released) bool { return r.Key == key }) {
			return false
		}
	}
	return true
}

// keep renews at a third of the ttl, and repeats a failed renewal. It declares the
// lease lost when the store says so or the time of trust is over. One failed
// heartbeat is not a loss. It reads the clocks more often than it renews, because
// they may jump.
func (l *Lease) keep(ctx context.Context) {
	defer close(l.done)
	defer l.leave()
	look, next := min(time.Second, l.TTL()/20), l.TTL()/3
	timer := time.NewTimer(look)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if l.Left() > 0 && l.elapsed() >= next {
			err := l.heartbeat(ctx)
			switch {
			case err == nil:
				next = max(l.TTL()/3, look)
			case ctx.Err() != nil:
				return
			case errors.Is(err, ErrLost):
				l.lose(l.explain(ctx, err))
			default:
				next = l.elapsed() + look
			}
		}
		left := l.Left()
		if left <= 0 {
			l.lose(l.expired())
		}
		if l.lost() != nil {
			return
		}
		timer.Reset(min(look, left))
	}
}

// heartbeat renews once, with half of the time that is left, so that a hanging
// request is not the last one. If the store does not answer that either, the lease
// is lost while it still hangs.
func (l *Lease) heartbeat(ctx context.Context) error {
	left := l.Left()
	ctx, cancel := context.WithTimeout(ctx, max(left/2, min(left, 100*time.Millisecond)))
	defer cancel()
	late := time.AfterFunc(left, func() { l.lose(l.expired()) })
	defer late.Stop()
	began := l.now()
	out, err := (&renewal{RenewRequest: RenewRequest{Owner: l.grant.Owner}, held: &l.held}).run(ctx, l.st)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed = err; err != nil {
		return err
	}
	l.trust = began
	for _, r := range out.Leases {
		l.ttl = min(l.ttl, r.window)
	}
	return nil
}

// clocks reads the clocks of this process. The steady one is that of package
// time, which tests can stop.
func clocks() host.Moment {
	t := time.Now()
	return host.Moment{Awake: t.Sub(started), Wall: t.UnixNano()}
}

var started = time.Now()

// elapsed is the time since the start of the last successful heartbeat.
func (l *Lease) elapsed() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now().Since(l.trust)
}

// Left is how long the lease may still be trusted without another heartbeat.
func (l *Lease) Left() time.Duration {
	trust, _ := Window(l.TTL())
	return trust - l.elapsed()
}

func (l *Lease) expired() error {
	return l.overdue("no heartbeat reached the store in time")
}

// Overdue is the loss that another process has noticed, which measures the time of
// trust too: if no heartbeat failed, this process must have been stopped.
func (l *Lease) Overdue() error {
	return l.overdue("this process was stopped for too long to be sure")
}

func (l *Lease) overdue(why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.limit > 0 && l.ttl < l.full:
		return maxHoldOver(l.grant.Keys[0].Key, l.grant.Token, l.limit)
	case len(l.held.record.Using) > 0 && l.ttl < l.granted:
		return &LostError{Key: l.grant.Keys[0].Key, Token: l.grant.Token, Why: "the max hold of a lock that it uses is over"}
	}
	if l.failed != nil {
		why = "no heartbeat reached the store in time: " + l.failed.Error()
	}
	return &LostError{Key: l.grant.Keys[0].Key, Token: l.grant.Token, Why: why}
}

// holderKey is the key for the holder of a context.
type holderKey struct{}

// HolderOf is the owner of the lease whose [Lease.Context] ctx comes from, or
// empty.
func HolderOf(ctx context.Context) string {
	owner, _ := ctx.Value(holderKey{}).(string)
	return owner
}
