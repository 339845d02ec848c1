package driver

import (
	"cmp"
	"context"
	"errors"
	"sync"
)

// ErrClosed is a driver's answer after Close.
var ErrClosed = errors.New("store is closed")

// A Life is how long a driver is open: every call keeps it so while it runs,
// and Close ends it.
type Life struct {
	ctx   context.Context
	end   context.CancelFunc
	using sync.RWMutex // read-held by every call, taken by End
}

// NewLife begins one.
func NewLife() *Life {
	l := &Life{}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// Context ends with the life.
func (l *Life) Context() context.Context { return l.ctx }

// Over reports whether Close was called.
func (l *Life) Over() bool { return l.ctx.Err() != nil }

// End ends all waits, lets running calls return, and refuses new ones. Call
// done when everything is closed.
func (l *Life) End() (done func()) {
	l.end()
	l.using.Lock()
	return l.using.Unlock
}

// Use keeps the driver open during a call.
func (l *Life) Use() (done func(), err error) {
	l.using.RLock()
	if l.Over() {
		l.using.RUnlock()
		return nil, ErrClosed
	}
	return l.using.RUnlock, nil
}

// Living returns a context that ends with ctx, and with the life. Call the function
// when nobody uses the context any more.
func (l *Life) Living(ctx context.Context) (context.Context, context.CancelFunc) {
	c := &living{Context: ctx, life: l.ctx}
	return c, c.leave
}

// A living context joins two, but only once somebody waits for its end. Most calls
// of a driver never wait, and joining takes as long as some system calls.
type living struct {
	context.Context // the caller's
	life            context.Context

	mu    sync.Mutex
	joint context.Context
	end   func()
}

func (c *living) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.joint == nil {
		joint, cancel := context.WithCancel(c.Context)
		stop := context.AfterFunc(c.life, cancel)
		c.joint, c.end = joint, func() { stop(); cancel() }
	}
	return c.joint.Done()
}

func (c *living) Err() error {
	if joint := c.joined(); joint != nil {
		return joint.Err()
	}
	return cmp.Or(c.Context.Err(), c.life.Err())
}

// Value lets a context that is made from this one find the joint one, and end with it.
func (c *living) Value(key any) any {
	if joint := c.joined(); joint != nil {
		return joint.Value(key)
	}
	return c.Context.Value(key)
}

func (c *living) joined() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.joint
}

func (c *living) leave() {
	if c.joined() != nil {
		c.end()
	}
}

// Ended returns the end of the caller's context, or of the life, in place of
// the error that it caused.
func (l *Life) Ended(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case l.Over():
		return ErrClosed
	}
	return err
}
