// Package leasecmd has the commands of a holder: acquire, heartbeat, release and the
// like. Each New function makes the command of its name.
package leasecmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

type acquireOptions struct {
	hold.KeepOptions
	force bool
}

func NewAcquire(s *session.Session) *cobra.Command {
	o := &acquireOptions{}
	cmd := &cobra.Command{
		Use:   "acquire KEY...",
		Short: "Acquire keys, all or none; wait for them",
		Long: `Acquire one or more keys, all or none. If another owner holds a key, wait in its queue.

A bare key names a task: its id, number, exact title and aliases all mean the same
lock. A name that no task has is a lock too. section:NAME and job:NAME name the
other kinds. path:GLOB keeps others out of files: it excludes every overlapping
path. It counts from the root of the repository (path:./x from here) and is the
same in all worktrees; it understands *, ? and **, and a folder covers everything
below it. pool:NAME lets several in at a time: acquire takes a free slot of it, or
as many as --take says. --slots makes the pool, or must be the size that it has.

Ctrl+C leaves the queue. A coding agent waits only with --wait. If the wait was too
short, the same command keeps its place in the queue.

The lock lasts until release, or expires after --ttl without a heartbeat. Every
command of its owner counts as a heartbeat. --keep-alive renews it in the
background while that process lives, and releases it when the process ends; auto
means the coding agent that runs this command. --ends-with also ends the lock with
a process, but does not renew it. With --ttl none the lock never expires: only
release, break or acquire --force end it. That is for a person's own work.

--force takes the keys from their holder in one step: nobody gets them in between,
not even the next waiter. It ends the whole lease of the old holder, as break does,
and the old holder notices at once. It needs --reason; history shows it.

With --attach the command stays: it renews the lock, and releases it at the end of
its input, after SIGTERM, or when it is killed. Two of them exclude each other.
While one waits, its owner counts as waiting with all that it holds, and a deadlock
of such waits is refused; with --independent each one counts alone. With --json it
prints a line for each event: acquired, then released or lost. For every empty line
that it reads, it prints how long the lock may still be trusted, or that it waits.

Exit codes:
  6  another owner holds a key, or the wait was too short
  7  with --attach: the lock was lost
  11  the pool has another size, or none
  130  interrupted: it left the queue`,
		Example: `  tasklock acquire fix-bug
  tasklock acquire fix-bug section:Backend --wait 10m --reason "refactoring"
  tasklock acquire 'path:src/api/**' --reason "new endpoints"
  tasklock acquire pool:tests --slots 4
  tasklock acquire fix-bug --force --reason "bob is on holiday"
  TOKEN=$(tasklock acquire fix-bug --json | jq .data.token)`,
		Args: session.AtLeastOne("key"),
		RunE: s.RunKeys(func(ctx context.Context, keys []string) error { return o.run(ctx, s, keys) }),
	}
	o.Flags(cmd)
	o.PoolFlags(cmd)
	o.KeepAliveFlag(cmd)
	o.AttachFlag(cmd)
	cmd.Flags().BoolVar(&o.force, "force", false, "take the keys from their holder; needs --reason")
	return cmd
}

func (o *acquireOptions) run(ctx context.Context, s *session.Session, keys []string) error {
	req, err := o.Request(ctx, s, keys, o.Attached(s))
	if err != nil {
		return err
	}
	if err := o.Bind(s, &req); err != nil {
		return err
	}
	req.Force = o.force
	st, err := s.Store(ctx, true)
	if err != nil {
		return err
	}
	retry := o.Again(ctx, s, "acquire", keys, req)
	if o.Attached(s) {
		return session.Tried(o.hold(ctx, s, st, req), retry)
	}
	var g lease.Grant
	err = hold.Take(ctx, s, req.Wait, view.LockedText, func(ctx context.Context, waiting func(lease.HeldError)) (_ lease.Grant, err error) {
		req.Waiting = waiting
		g, err = lease.Acquire(ctx, st, req)
		return g, err
	})
	if err != nil {
		return session.Tried(err, retry)
	}
	o.Keep(s, g, req.Process)
	return s.Answer(g, func(p *term.Printer) { printGrant(p, g) })
}

// printGrant prints what was taken, in at most three lines.
func printGrant(p *term.Printer, g lease.Grant) {
	again := true
	for _, k := range g.Keys {
		again = again && k.Reentrant
	}
	keys := strings.Join(view.Granted(g), ", ")
	switch {
	case p.Dry:
		p.Line("%s %s as %s.", p.Did("", "Would acquire"), keys, g.Owner)
	case again:
		p.Line("%s %s (token %d), %s.", p.Did("Already held, renewed", ""), keys, g.Token, view.Ends(p, g.ExpiresAt))
	default:
		p.Line("%s %s (token %d), %s.", p.Did("Acquired", ""), keys, g.Token, view.Ends(p, g.ExpiresAt))
	}
	if len(g.TookOver) > 0 {
		from := term.Each(g.TookOver, func(t lease.TakenOver) string {
			return t.Key + " of " + term.Short(t.Owner, 60) + " (" + string(t.Why) + ")"
		})
		p.Line("Took over: %s.", strings.Join(from, ", "))
	}
}

// hold is acquire --attach.
func (o *acquireOptions) hold(ctx context.Context, s *session.Session, st *store.Store, req lease.AcquireRequest) error {
	if req.ID != "" {
		req.Then = lease.Once(req.Owner, req.ID)
	}
	return hold.Attach(ctx, s, req.Wait, view.LockedText, func(ctx context.Context, waiting func(lease.HeldError)) (*hold.Taken, error) {
		req.Waiting = waiting
		lease, err := lease.Hold(ctx, st, req)
		if err != nil {
			return nil, err
		}
		g := lease.Grant()
		return &hold.Taken{Lease: lease, Data: g, Text: func(p *term.Printer) { printGrant(p, g) }}, nil
	})
}
