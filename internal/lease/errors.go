package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrLost: the lock is no longer at the caller's token, or the caller does not
// hold it. Nothing changed.
var ErrLost = errors.New("lease lost")

// ErrNotFound: there is no such lock or lease.
var ErrNotFound = errors.New("not found")

// ErrQueueFull: more waiters than a key's queue holds.
var ErrQueueFull = errors.New("queue full")

// HeldError says who blocks the caller. It is an answer, not a failure: another
// owner holds the key, or has waited for it longer than the caller.
type HeldError struct {
	Info         // of the blocking lock; without an owner if the key is free but others wait for it
	Asked string // the requested key: another path, if Key overlaps it; a pool, if Key is one of its slots

	// Pool is the pool that was asked for, if it was one. Then Key is the slot of one
	// of its holders, or the pool itself if slots are free but others wait for them.
	Pool *PoolInfo

	Ahead    int           // how many wait for it before the caller
	Position int           // place in the queue, 1 is next; 0: the caller is not queued
	Waited   time.Duration // how long the caller has waited
}

func (e *HeldError) Error() string {
	switch {
	case e.Pool != nil:
		return e.full()
	case e.Owner == "":
		return fmt.Sprintf("%s: free, but %d waited for it first", e.Key, e.Ahead)
	case e.Waited > 0:
		return fmt.Sprintf("%s: still held by %s after %s, %s", e.Key, e.Owner, e.Waited.Round(time.Second), e.until())
	}
	return fmt.Sprintf("%s: held by %s %s", e.Key, e.Owner, e.until())
}

// PoolKey is the pool that was asked for, or "".
func (e *HeldError) PoolKey() string {
	if e.Pool == nil {
		return ""
	}
	return e.Pool.Key
}

// full describes a pool that has too few free slots, or others that wait for them.
func (e *HeldError) full() string {
	s := fmt.Sprintf("%s: %d of %d used", e.Asked, e.Pool.Used, e.Pool.Size)
	if e.Pool.All && len(e.Pool.Holders) > 0 {
		s = fmt.Sprintf("%s: all of it held by %s", e.Asked, e.Pool.Holders[0].Owner)
	}
	if e.Waited > 0 {
		s += fmt.Sprintf(" after %s", e.Waited.Round(time.Second))
	}
	if e.Ahead > 0 {
		s += fmt.Sprintf(", %d waited for it first", e.Ahead)
	}
	return s
}

func (e *HeldError) until() string {
	if e.ExpiresAt.IsZero() {
		return "with no end"
	}
	return "until " + utc(e.ExpiresAt.Time)
}

// DeadlockError names owners who wait for each other. The youngest
// waiter in it gets the error; the others go on waiting.
type DeadlockError struct {
	Chain []DeadlockLink // the first is the caller; the last waits for the caller
}

// DeadlockLink: Owner waits for Key, which the next one in the chain holds or
// waits for longer.
type DeadlockLink struct{ Owner, Key string }

func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString("waiting would never end: ")
	for i, l := range e.Chain {
		next := e.Chain[(i+1)%len(e.Chain)].Owner
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s waits for %s of %s", l.Owner, l.Key, next)
	}
	return b.String()
}

// OwnerError: the caller may not do that to the lock of another owner.
type OwnerError struct {
	Key, Owner, Caller string
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%s: held by %s, not by %s", e.Key, e.Owner, e.Caller)
}

// AmbiguousError: several tasks have the name that was given as a key.
type AmbiguousError struct {
	Name string
	IDs  []string // of the tasks, or of some of them
}

func (e *AmbiguousError) Error() string {
	if len(e.IDs) == 0 {
		return fmt.Sprintf("%q could be any of many tasks", e.Name)
	}
	return fmt.Sprintf("%q could be %s", e.Name, strings.Join(e.IDs, ", "))
}

// LostError is ErrLost with what is known about it.
type LostError struct {
	Key   string
	Token int64  // the caller's; 0: none given
	Owner string // who holds the key now; empty: nobody
	Now   int64  // the token in force; 0: none
	Why   string // how the lease ended, if that is known
	Never string // the caller, if it did not hold the key before either

	MaxHold time.Duration // set if the lease ended because max hold was over
}

func (e *LostError) Error() string {
	var b strings.Builder
	if e.Never != "" {
		fmt.Fprintf(&b, "%s: not held by %s", e.Key, e.Never)
	} else {
		fmt.Fprintf(&b, "%s: lease lost", e.Key)
	}
	if e.Token > 0 {
		fmt.Fprintf(&b, ", token %d is stale", e.Token)
	}
	switch {
	case e.Why != "":
		fmt.Fprintf(&b, " (%s)", e.Why)
	case e.Owner != "":
		fmt.Fprintf(&b, " (held by %s with token %d)", e.Owner, e.Now)
	case e.Now > 0:
		fmt.Fprintf(&b, " (its token is %d now)", e.Now)
	case !isPool(e.Key):
		b.WriteString(" (nobody holds it)")
	}
	return b.String()
}

// maxHoldOver is the loss of a lease that reached its max hold.
func maxHoldOver(key string, token int64, limit time.Duration) *LostError {
	return &LostError{Key: key, Token: token, MaxHold: limit, Why: fmt.Sprintf("its max hold of %s is over", limit)}
}

// Is makes every LostError an ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// InvalidError says which rule an input breaks.
type InvalidError struct {
	What string // "key", "owner", "ttl", …
	Rule string
}

func (e *InvalidError) Error() string { return e.What + ": " + e.Rule }

// ReusedError: the owner used the id of a request for something else. Nothing
// changed.
type ReusedError struct{ InvalidError }

// Unwrap makes every ReusedError an InvalidError.
func (e *ReusedError) Unwrap() error { return &e.InvalidError }

func utc(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
