// Package hold acquires leases for commands and keeps them: the flags, the wait and
// its display, the holder at the other end of a pipe, and the keeper that renews
// while a process lives.
package hold

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// TakeOptions are the flags of commands that acquire keys.
type TakeOptions struct {
	TTL, maxHold, Wait session.DurationFlag
	NoWait             bool
	RequestID          string
	Reason, Worktree   string
	slots, take        slotsFlag // see PoolFlags
}

// Flags adds them to a command.
func (o *TakeOptions) Flags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.TTL = session.DurationFlag{Min: lease.MinTTL, Max: lease.MaxTTL, None: true}
	o.maxHold = session.DurationFlag{Min: lease.MinTTL, Max: 365 * 24 * time.Hour}
	o.Wait = session.DurationFlag{Max: lease.MaxTTL}
	f.Var(&o.TTL, "ttl", "expire after this long without a heartbeat (default 1h; section 2h; job 5m; git 12h); none: never")
	f.Var(&o.maxHold, "max-hold", "do not renew beyond this (default: no limit; with --keep-alive 24h)")
	f.Var(&o.Wait, "wait", "how long to wait for the keys (default 30m)")
	f.BoolVar(&o.NoWait, "no-wait", false, "do not wait (also: TASKLOCK_NO_WAIT)")
	f.StringVar(&o.RequestID, "request-id", "", "repeat a request with this id: it has one effect")
	f.StringVar(&o.Reason, "reason", "", "the reason, shown to others")
	f.StringVar(&o.Worktree, "worktree", "", "the worktree of the work, shown to others")
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
}

// Request turns the flags into a request. By default attached holders have their
// own ttl, and a coding agent does not wait.
func (o *TakeOptions) Request(ctx context.Context, s *session.Session, keys []string, attached bool) (lease.AcquireRequest, error) {
	cfg, err := s.Config()
	if err != nil {
		return lease.AcquireRequest{}, err
	}
	id := s.Identity()
	if !attached { // an attached holder needs no lasting name
		if id, err = s.Holder(); err != nil {
			return lease.AcquireRequest{}, err
		}
	}
	r := lease.AcquireRequest{
		Keys: keys, Owner: id.Owner, ID: o.RequestID, Session: id.Session, Label: id.Label,
		TTL: o.TTL.Value, MaxHold: o.maxHold.Value, Wait: o.Wait.Value,
		Reason: o.Reason, Worktree: o.Worktree, DryRun: s.DryRun,
		Slots: o.slots.n, Take: o.take.n,
		OuterKey: task.OuterKey, Need: task.NeedOuterKey(keys), DefaultTTL: cfg.Times().Of(keys...),
	}
	if !o.Wait.Given && !o.NoWait && !id.Agent {
		r.Wait = cfg.WaitTimeout()
	}
	r.Wait = session.Left(ctx, r.Wait)
	return r, nil
}

// Again is the command line that continues: the same flags, and a wait that the
// caller can afford.
func (o *TakeOptions) Again(ctx context.Context, s *session.Session, verb string, keys []string, r lease.AcquireRequest) []string {
	words := append([]string{verb}, keys...)
	wait := cmp.Or(session.Begun(ctx).For, r.Wait)
	if wait == 0 {
		wait = 30 * time.Minute
		if s.Identity().Agent {
			wait = 90 * time.Second
		}
	}
	return withFlags(append(words, "--wait", term.Exact(wait)), [][2]string{
		{"--ttl", o.TTL.String()},
		{"--max-hold", o.maxHold.String()},
		{"--request-id", o.RequestID},
		{"--reason", o.Reason},
		{"--worktree", o.Worktree},
		{"--slots", o.slots.String()},
		{"--take", o.take.String()},
	})
}

// withFlags adds the flags that have a value to a command line.
func withFlags(words []string, flags [][2]string) []string {
	for _, f := range flags {
		if f[1] != "" {
			words = append(words, f[0], f[1])
		}
	}
	return words
}

// KeepOptions add who renews the lease, and until when.
type KeepOptions struct {
	TakeOptions
	KeepAlive ProcessFlag
	EndsWith  ProcessFlag
	attach    bool
	apart     bool // --independent
}

// Again is the command line that continues, with who renews the lease.
func (o *KeepOptions) Again(ctx context.Context, s *session.Session, verb string, keys []string, r lease.AcquireRequest) []string {
	words := withFlags(o.TakeOptions.Again(ctx, s, verb, keys, r), [][2]string{{"--keep-alive", o.KeepAlive.String()}, {"--ends-with", o.EndsWith.String()}})
	if o.Attached(s) {
		words = append(words, "--attach")
	}
	return words
}

// Released answers with what a command has released.
func Released(s *session.Session, did, would string) func(lease.ReleaseResult, error) error {
	return func(out lease.ReleaseResult, err error) error {
		if err != nil {
			return err
		}
		return s.Answer(view.NewReleaseData(out), func(p *term.Printer) { view.PrintReleased(p, did, would, out) })
	}
}
