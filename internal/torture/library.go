//go:build linux

package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// rootOwner is the parent of all workers: they have one user, and exclude each
// other nevertheless.
const rootOwner = "torture"

// library is the client that uses package lease. Every second lease is an
// attached one, which renews itself; of the others every second names the
// process whose death ends it.
type library struct {
	*worker
	st *store.Store
	n  int
}

func newLibrary(w *worker, open Open) (*library, error) {
	var d driver.Store
	var err error
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) { // a slow server is not a failure
		if d, err = open(context.Background(), w.URL); err == nil {
			break
		} else if driver.Refusal(err) || time.Now().After(end) {
			return nil, err
		}
	}
	return &library{worker: w, st: store.New(d)}, nil
}

func (l *library) close() { _ = l.st.Close() }

func (l *library) acquire(o *op, wait time.Duration) grant {
	r := lease.AcquireRequest{
		Keys: o.Keys, TTL: l.TTL, Wait: wait, Take: o.Take, Slots: o.Slots,
		Waiting: func(lease.HeldError) { o.looked() },
	}
	if l.chance(50) {
		return l.hold(o, r)
	}
	l.n++
	r.Owner = fmt.Sprintf("%s/w%d-%d", rootOwner, l.Row, l.n)
	if l.chance(50) {
		r.Process, o.Process = host.Self(), true
	}
	o.Owner = r.Owner
	got, err := lease.Acquire(context.Background(), l.st, r)
	l.answer(o, err)
	if err != nil {
		return nil
	}
	granted(o, got)
	return &plainGrant{library: l, o: *o, lease: got.LeaseID, alive: max(o.Call, o.Began)}
}

func (l *library) hold(o *op, r lease.AcquireRequest) grant {
	r.Owner, o.Process = rootOwner, true
	lease, err := lease.Hold(context.Background(), l.st, r)
	l.answer(o, err)
	if err != nil {
		return nil
	}
	o.Owner = lease.Owner()
	granted(o, lease.Grant())
	return &attachedGrant{lease, l.worker}
}

// answer sorts an error into what an operation may say.
func (w *worker) answer(o *op, err error) {
	var held *lease.HeldError
	var foreign *lease.OwnerError
	var size *lease.PoolSizeError
	switch {
	case err == nil:
		o.Result = isOK
	case o.Probe && errors.As(err, &foreign):
		o.Result = isDenied
	case errors.As(err, &held):
		o.Result, o.Holder, o.HeldKey = isHeld, held.Owner, held.Key
	case errors.As(err, &size):
		o.Result = isRefused
	case errors.Is(err, lease.ErrLost):
		o.Result = isLost
	case w.unanswered(o) && store.MayPass(err):
		o.Result, o.Unreached = isUnknown, true
	default:
		o.Result, o.Err = isError, err.Error()
	}
}

// answerTime is how long a driver waits for a server at least.
const answerTime = 4 * time.Second

// unanswered reports whether a call may end because the server could not be
// reached: the server is away now and then, or the call lasted until its
// time was over. That happens to a worker that was stopped in the middle of it.
func (w *worker) unanswered(o *op) bool {
	return w.Outages || now()-o.Call > int64(answerTime)
}

func granted(o *op, g lease.Grant) {
	o.Keys, o.Tokens, o.Took = nil, map[string]int64{}, map[string]taken{}
	for _, k := range g.Keys {
		o.Keys = append(o.Keys, k.Key)
		o.Tokens[k.Key] = k.Token
	}
	slices.Sort(o.Keys)
	for _, t := range g.TookOver {
		o.Took[t.Key] = taken{Owner: t.Owner, Why: string(t.Why)}
	}
}

// attachedGrant is a lease that renews itself and knows its deadline.
type attachedGrant struct {
	*lease.Lease
	w *worker
}

func (g *attachedGrant) work(w *worker, o op) { w.work(g, o) }
func (g *attachedGrant) trusted() bool        { return g.Err() == nil }
func (g *attachedGrant) renew(*journal)       {}

func (g *attachedGrant) release(o *op) {
	o.Attached = true
	err := g.Release(context.Background())
	if g.w.answer(o, err); errors.Is(err, context.DeadlineExceeded) {
		o.Result, o.Err = isUnknown, "" // somebody was stopped in a commit for longer than the lease lasts
	}
}

// plainGrant is a lease whose holder does all that by hand.
type plainGrant struct {
	*library
	o     op
	lease string
	alive int64 // the last successful heartbeat began
	lost  bool
}

func (g *plainGrant) work(w *worker, o op) { w.work(g, o) }

func (g *plainGrant) trusted() bool {
	trust, _ := lease.Window(g.TTL)
	return !g.lost && now() < g.alive+int64(trust)
}

func (g *plainGrant) renew(j *journal) {
	if time.Duration(now()-g.alive) < g.TTL/3 {
		return
	}
	o := j.call(op{Kind: opRenew, Keys: g.o.Keys, Owner: g.o.Owner, Tokens: g.o.Tokens})
	_, err := lease.Renew(context.Background(), g.st, lease.RenewRequest{Owner: g.o.Owner, Lease: g.lease})
	g.answer(&o, err)
	j.done(o)
	if err == nil {
		g.alive = o.Call
	} else if o.Result == isLost {
		g.lost = true
	}
}

// release names the key and its token, or with several keys the lease.
func (g *plainGrant) release(o *op) {
	r := lease.ReleaseRequest{Owner: g.o.Owner, Lease: g.lease}
	if len(g.o.Keys) == 1 {
		r = lease.ReleaseRequest{Owner: g.o.Owner, Keys: g.o.Keys, Token: g.o.token(g.o.Keys[0])}
	}
	out, err := lease.Release(context.Background(), g.st, r)
	g.answer(o, err)
	released(o, out)
}

// released makes a release that found less than was taken a lost one: someone
// else had ended it.
func released(o *op, out lease.ReleaseResult) {
	if o.Result == isOK && len(out.Released) < len(o.Keys) {
		o.Result = isLost
	}
	for _, r := range out.Released {
		if t := o.token(r.Key); t != r.Token {
			o.Result, o.Err = isError, fmt.Sprintf("release of token %d released token %d of %s", t, r.Token, r.Owner)
		}
	}
}

// probe tries to release and to renew what has ended, by token and by key, and
// sometimes what someone else holds by now.
func (l *library) probe(j *journal, key string, token int64) {
	owner := fmt.Sprintf("%s/w%d-%d", rootOwner, l.Row, l.n)
	call := func(kind string) op {
		return j.call(op{Kind: kind, Keys: []string{key}, Owner: owner, Tokens: map[string]int64{key: token}, Probe: true})
	}
	o := call(opRelease)
	out, err := lease.Release(context.Background(), l.st, lease.ReleaseRequest{Owner: owner, Keys: []string{key}, Token: token})
	l.answer(&o, err)
	released(&o, out)
	j.done(o)

	o = call(opRenew)
	_, err = lease.Renew(context.Background(), l.st, lease.RenewRequest{Owner: owner, Keys: []string{key}, Token: token})
	l.answer(&o, err)
	j.done(o)

	o = call(opRelease)
	out, err = lease.Release(context.Background(), l.st, lease.ReleaseRequest{Owner: owner, Keys: []string{key}})
	l.answer(&o, err)
	released(&o, out)
	j.done(o)
}
