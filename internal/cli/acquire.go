package cli

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// leaseOptions are the flags of commands that take keys.
type leaseOptions struct {
	ttl, maxHold, wait durationFlag
	noWait             bool
	requestID          string
	reason, worktree   string
}

func (o *leaseOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.ttl = durationFlag{min: lease.MinTTL, max: lease.MaxTTL, none: true}
	o.maxHold = durationFlag{min: lease.MinTTL, max: 365 * 24 * time.Hour}
	o.wait = durationFlag{max: lease.MaxTTL}
	f.Var(&o.ttl, "ttl", "the lock ends after so long without a heartbeat; none: only release ends it")
	f.Var(&o.maxHold, "max-hold", "it cannot be renewed beyond this")
	f.Var(&o.wait, "wait", "how long to wait for the keys")
	f.BoolVar(&o.noWait, "no-wait", false, "do not wait (also: TASKLOCK_NO_WAIT)")
	f.StringVar(&o.requestID, "request-id", "", "repeating a request with this id has one effect")
	f.StringVar(&o.reason, "reason", "", "why, for others to read")
	f.StringVar(&o.worktree, "worktree", "", "where the work is done, for others to read")
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
}

// request turns the flags into a request. Where nothing else was said,
// attached holders have a ttl of their own, and a coding agent does not wait.
func (o *leaseOptions) request(a *App, keys []string, attached bool) (lease.AcquireRequest, error) {
	for _, k := range keys {
		if _, err := lease.CheckKey(k); err != nil {
			return lease.AcquireRequest{}, err
		}
	}
	cfg, err := a.Config()
	if err != nil {
		return lease.AcquireRequest{}, err
	}
	id := a.Identity()
	if !attached { // whoever is attached needs no name that lasts
		if id, err = a.holder(); err != nil {
			return lease.AcquireRequest{}, err
		}
	}
	r := lease.AcquireRequest{
		Keys: keys, Owner: id.Owner, ID: o.requestID, Session: id.Session, Label: id.Label,
		TTL: o.ttl.value, MaxHold: o.maxHold.value, Wait: o.wait.value,
		Reason: o.reason, Worktree: o.worktree, DryRun: a.DryRun,
		Within: task.Within, Times: cfg.Times(),
	}
	if !o.wait.given && !o.noWait && !id.Agent && !a.noWait {
		r.Wait = cfg.WaitTimeout()
	}
	r.Wait = a.left(r.Wait)
	return r, nil
}

// again is the command line that goes on from here: the same flags, and a wait
// that the caller can afford.
func (o *leaseOptions) again(a *App, verb string, keys []string, r lease.AcquireRequest) []string {
	words := append([]string{verb}, keys...)
	wait := cmp.Or(a.wait, r.Wait)
	if wait == 0 {
		wait = 30 * time.Minute
		if a.Identity().Agent {
			wait = 90 * time.Second
		}
	}
	words = append(words, "--wait", exact(wait))
	for _, f := range []struct{ name, value string }{
		{"--ttl", o.ttl.String()},
		{"--max-hold", o.maxHold.String()},
		{"--request-id", o.requestID},
		{"--reason", o.reason},
		{"--worktree", o.worktree},
	} {
		if f.value != "" {
			words = append(words, f.name, f.value)
		}
	}
	return words
}

type acquireOptions struct {
	leaseOptions
	keepAlive keepAliveFlag
	endsWith  keepAliveFlag
	attach    bool
	apart     bool // --independent
	makes     bool // --worktree makes one: see worktree.go
	force     bool
}

func newAcquireCmd(a *App) *cobra.Command {
	o := &acquireOptions{}
	cmd := &cobra.Command{
		Use:   "acquire KEY...",
		Short: "Take keys, all or none; wait for them if need be",
		Long: `Take one or more keys, all or none.

A bare key names a task: its id, number, exact title or an alias mean the same
lock, and a name that no task has is a lock of its own. section:NAME and job:NAME
name the other kinds. The key path:GLOB keeps others out of files: it excludes every path that overlaps it.
It counts from the root of the repository (path:./x from here) and is the same
in all worktrees; *, ? and ** are understood, and a folder covers what is below.

If another owner holds a key, acquire waits in its queue, 30 minutes unless the
configuration or --wait says otherwise; Ctrl+C leaves the queue (exit 130).
A coding agent does not wait unless told with --wait. After a wait that was too
short the same command keeps its place in the queue.

The lock lasts until release, or until --ttl passes without a sign of life: every
command of its owner is one. With --keep-alive it is renewed in the background
for as long as that process lives, and ends with it; auto means the coding agent
that runs this command. --max-hold bounds that, 24 hours if it is not given.
With --ends-with it ends with the process as well, but nobody renews it.
With --ttl none it has no end: no time and no death of a process frees it, only
release, break or acquire --force. That is for a person's own work.

--force takes the keys from their holder in one step: nobody gets in between, not
even the next in the queue. It ends the whole lease of the old holder, as break
does, and the old holder notices at once. --reason is required; history shows it.

With --attach the command goes on: it renews the lock and releases it at the end
of its input, or with SIGTERM, or when it is killed. Two of them exclude each
other. If one waits, its owner is taken to wait with all that it holds, and a
circle of such waits is refused; a program that does several things at once adds
--independent: then each counts by itself. With --json it prints a line for each event: acquired, then released or
lost (exit 7), and for every empty line it reads one that says how long the lock
may still be trusted, or that it still waits.`,
		Example: `  tasklock acquire fix-bug
  tasklock acquire fix-bug section:Backend --wait 10m --reason "refactoring"
  tasklock acquire 'path:src/api/**' --reason "new endpoints"
  tasklock acquire fix-bug --force --reason "bob is on holiday"
  TOKEN=$(tasklock acquire fix-bug --json | jq .data.token)`,
		Args: someKeys,
		RunE: a.forKeys(func(ctx context.Context, keys []string) error { return o.run(ctx, a, keys) }),
	}
	o.flags(cmd)
	o.keepAliveFlag(cmd)
	o.attachFlag(cmd)
	cmd.Flags().BoolVar(&o.force, "force", false, "take the keys from whoever holds them; needs --reason")
	return cmd
}

func (o *acquireOptions) run(ctx context.Context, a *App, keys []string) error {
	req, err := o.request(a, keys, o.attached(a))
	if err != nil {
		return err
	}
	if err := o.bind(a, &req); err != nil {
		return err
	}
	req.Force = o.force
	st, err := a.Store(ctx, true)
	if err != nil {
		return err
	}
	a.retry = o.again(a, "acquire", keys, req)
	for _, f := range []struct{ name, value string }{{"--keep-alive", o.keepAlive.String()}, {"--ends-with", o.endsWith.String()}} {
		if f.value != "" {
			a.retry = append(a.retry, f.name, f.value)
		}
	}
	if o.attached(a) {
		return o.hold(ctx, a, st, req)
	}
	ctx, signals := newListener(ctx)
	defer signals.stop()
	w := a.waiting(req.Wait)
	req.Waiting = func(h lease.HeldError) {
		signals.listen()
		w.update(h)
	}
	g, err := lease.Acquire(ctx, st, req)
	w.end(err == nil, len(g.TookOver) > 0)
	if err != nil {
		return interrupted(ctx, err)
	}
	o.keep(a, g, req.Process)
	return a.answer(g, func(p *printer) { p.grant(g, a.DryRun) })
}

// grant prints what was taken, in at most three lines.
func (p *printer) grant(g lease.Grant, dry bool) {
	verb := "Acquired"
	if dry {
		verb = "Would acquire"
	}
	names := make([]string, len(g.Keys))
	again := true
	for i, k := range g.Keys {
		names[i], again = k.Key, again && k.Reentrant
	}
	if again && !dry {
		verb = "Already held, renewed"
	}
	text := strings.Join(names, ", ")
	if dry {
		p.line("%s %s as %s.", yellow.of(verb), text, g.Owner)
	} else {
		p.line("%s %s (token %d), %s.", green.of(verb), text, g.Token, p.ends(g.ExpiresAt))
	}
	if len(g.TookOver) > 0 {
		var from []string
		for _, t := range g.TookOver {
			from = append(from, t.Key+" of "+short(t.Owner, 60)+" ("+string(t.Why)+")")
		}
		p.line("Took over: %s.", strings.Join(from, ", "))
	}
}
