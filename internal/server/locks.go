package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

const (
	defaultTTL  = Duration(60 * time.Second)
	defaultWait = 25 * time.Second // many balancers cut a request at 30
	maxWait     = 50 * time.Second
)

type noInput struct{}

type listInput struct {
	Owner string     `json:"owner"`
	Kind  lease.Kind `json:"kind"`
	pageInput
}

func (s *Server) listLocks(ctx context.Context, _ Caller, in listInput) (lease.ListResult, error) {
	limit, err := in.size()
	if err != nil {
		return lease.ListResult{}, err
	}
	return lease.List(ctx, s.st, lease.ListRequest{Owner: in.Owner, Kind: in.Kind, After: in.After, Limit: limit})
}

type keyInput struct {
	Key string `json:"key"`
}

func (s *Server) showLock(ctx context.Context, _ Caller, in keyInput) (lease.ShowResult, error) {
	return lease.Show(ctx, s.st, in.Key)
}

type checkInput struct {
	Key   string `json:"key"`
	Token int64  `json:"token"`
	Lease string `json:"lease"`
}

func (s *Server) checkLock(ctx context.Context, c Caller, in checkInput) (lease.CheckResult, error) {
	return lease.Check(ctx, s.st, lease.CheckRequest{Key: in.Key, Token: in.Token, Lease: in.Lease, Owner: c.Owner})
}

type waitInput struct {
	Key     string    `json:"key"`
	Since   int64     `json:"since"` // a token: also return when the lock has another one
	Timeout *Duration `json:"timeout"`
}

// waitForLock answers when the key is free, or the time is over: the answer says
// which. It takes no place in the queue.
func (s *Server) waitForLock(ctx context.Context, _ Caller, in waitInput) (lease.CheckResult, error) {
	wait, err := waitOf(in.Timeout)
	if err != nil {
		return lease.CheckResult{}, err
	}
	for until := time.Now().Add(wait); ; {
		now, err := lease.Check(ctx, s.st, lease.CheckRequest{Key: in.Key})
		changed := in.Since != 0 && now.Lock != nil && now.Lock.Token != in.Since
		if err != nil || !now.Locked || changed || !time.Now().Before(until) {
			return now, err
		}
		err = lease.Await(ctx, s.st, []string{now.Key}, time.Until(until))
		if errors.Is(context.Cause(ctx), errStopping) {
			return now, nil
		}
		if err != nil {
			return now, err
		}
	}
}

// waitOf is how long a request waits.
func waitOf(asked *Duration) (time.Duration, error) {
	if asked == nil {
		return defaultWait, nil
	}
	if d := time.Duration(*asked); d >= 0 && d <= maxWait {
		return d, nil
	}
	return 0, &lease.InvalidError{What: "wait " + time.Duration(*asked).String(), Rule: "must be between 0s and " + maxWait.String() + "; the same request goes on waiting"}
}

type acquireInput struct {
	Keys    []string  `json:"keys"`
	TTL     Duration  `json:"ttl"`
	MaxHold Duration  `json:"maxHold"`
	Wait    *Duration `json:"wait"`
	Reason  string    `json:"reason"`
	Slots   int       `json:"slots"`
	Take    int       `json:"take"`
}

// Acquired is a grant, or a place in the queue.
type Acquired struct {
	State string `json:"state"` // acquired or queued
	*lease.Grant
	LeaseID  string `json:"leaseId"`            // of the grant, or of the ticket
	Position int    `json:"position,omitempty"` // in the queue, 1 is next
}

func (a Acquired) status() int {
	if a.State == "queued" {
		return http.StatusAccepted
	}
	return http.StatusOK
}

func (s *Server) acquire(ctx context.Context, c Caller, in acquireInput) (Acquired, error) {
	wait, err := waitOf(in.Wait)
	if err != nil {
		return Acquired{}, err
	}
	in.Wait = nil
	r, err := c.take("acquire", in, holdInput{TTL: in.TTL, MaxHold: in.MaxHold, Reason: in.Reason})
	if err != nil {
		return Acquired{}, err
	}
	r.Keys, r.Slots, r.Take, r.Wait = in.Keys, in.Slots, in.Take, wait
	r.OuterKey, r.Need = task.OuterKey, task.NeedOuterKey(in.Keys)
	return c.queue(ctx, r, func(r lease.AcquireRequest) (lease.Grant, error) { return lease.Acquire(ctx, s.st, r) })
}

// take is the request of a caller that takes something, as a child of its own. Under the
// same Idempotency-Key it can ask for nothing but content, which is without the wait: a
// request may go on waiting for another time.
func (c Caller) take(verb string, content any, h holdInput) (lease.AcquireRequest, error) {
	digest, err := lease.Digest(verb, content)
	return lease.AcquireRequest{
		Owner: c.Holder(), ID: c.Request, Digest: digest, Remote: true,
		TTL: time.Duration(cmp.Or(h.TTL, defaultTTL)), MaxHold: time.Duration(h.MaxHold), Reason: h.Reason,
	}, err
}

// queue acquires something, or leaves a ticket in the queue.
func (c Caller) queue(ctx context.Context, r lease.AcquireRequest, acquire func(lease.AcquireRequest) (lease.Grant, error)) (Acquired, error) {
	var last *lease.HeldError
	r.Waiting = func(h lease.HeldError) { last = &h }
	g, err := acquire(r)
	if err == nil {
		return acquired(g), nil
	}
	held := (*lease.HeldError)(nil)
	if !errors.As(err, &held) && errors.Is(context.Cause(ctx), errStopping) {
		held = last
	}
	if held != nil && held.Position > 0 {
		return Acquired{State: "queued", Position: held.Position, LeaseID: c.Holder() + "/" + c.Request}, nil
	}
	return Acquired{}, err
}

func acquired(g lease.Grant) Acquired {
	return Acquired{State: "acquired", Grant: &g, LeaseID: g.LeaseID}
}

// heldInput names a lease by what the grant said.
type heldInput struct {
	Lease string `json:"lease"`
	Token int64  `json:"token"`
}

// mine refuses a lease that is not below the caller's owner.
func (in heldInput) mine(c Caller) error {
	switch {
	case in.Lease == "":
		return &lease.InvalidError{What: "lease", Rule: "is needed: the leaseId of the grant"}
	case !c.Holds(in.Lease):
		return &lease.OwnerError{Key: "lease " + in.Lease, Caller: c.Owner, Owner: in.Lease[:max(0, strings.LastIndexByte(in.Lease, '/'))]}
	}
	return nil
}

func (s *Server) renew(ctx context.Context, c Caller, in heldInput) (lease.RenewResult, error) {
	if err := in.mine(c); err != nil {
		return lease.RenewResult{}, err
	}
	if in.Token == 0 {
		return lease.RenewResult{}, &lease.InvalidError{What: "token", Rule: "is needed: that of the grant"}
	}
	return lease.Renew(ctx, s.st, lease.RenewRequest{Owner: c.Owner, Lease: in.Lease, Token: in.Token})
}

type releaseInput struct {
	heldInput
	Reason string `json:"reason"`
}

// release ends a lease, or leaves the queue if there is no token yet.
func (s *Server) release(ctx context.Context, c Caller, in releaseInput) (lease.ReleaseResult, error) {
	if err := in.mine(c); err != nil {
		return lease.ReleaseResult{}, err
	}
	return lease.Release(ctx, s.st, lease.ReleaseRequest{Owner: c.Owner, Lease: in.Lease, Token: in.Token, Reason: in.Reason})
}

type breakInput struct {
	Keys   []string `json:"keys"`
	Reason string   `json:"reason"`
	Token  int64    `json:"token"`
	Lease  string   `json:"lease"`
	Owner  string   `json:"owner"`
}

func (s *Server) breakLock(ctx context.Context, c Caller, in breakInput) (lease.ReleaseResult, error) {
	if in.Reason == "" {
		return lease.ReleaseResult{}, &lease.InvalidError{What: "reason", Rule: "is needed: the holder and the history see it"}
	}
	return lease.Break(ctx, s.st, lease.BreakRequest{
		Keys: in.Keys, By: c.Owner, Reason: in.Reason, ID: c.Request, Token: in.Token, Lease: in.Lease, Owner: in.Owner,
	})
}

type cleanupInput struct {
	Silent Duration `json:"silent"`
	DryRun bool     `json:"dryRun"`
}

func (s *Server) cleanup(ctx context.Context, c Caller, in cleanupInput) (lease.CleanupResult, error) {
	return lease.Cleanup(ctx, s.st, lease.CleanupRequest{By: c.Owner, Silent: time.Duration(in.Silent), DryRun: in.DryRun})
}
