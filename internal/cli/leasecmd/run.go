package leasecmd

import (
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

type runOptions struct {
	hold.TakeOptions
	grace        session.DurationFlag
	skip         bool
	conflictCode int
	saysLoss     bool // the command reports a loss itself, with exit code 7
}

func NewRun(s *session.Session) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run KEY... -- COMMAND [ARG...]",
		Short: "Run a command while keys are held",
		Long: `Acquire the keys, run the command, renew the lock while it runs, and release the keys
when the command and its process group have ended.

Two runs of one user exclude each other, even inside a run that holds the same key:
in run K a | run K b the second waits until the first has ended.

If the lock expires, run stops the command before anyone else can get the keys. If
someone breaks the lock, the keys are free at once, and run stops the command within
a second or two (git: five). On Linux that includes descendants outside the process
group, as under timeout. The message says who ended the lock.

The command finds TASKLOCK_KEY (one key a line), TASKLOCK_TOKEN, TASKLOCK_LEASE,
TASKLOCK_OWNER and TASKLOCK_LEASE_STORE in its environment: commands about that key
ask that store, in every folder. stdout belongs to the command.

pool:NAME lets several runs in at a time, first come first served, up to its size.
--slots makes the pool, or must be the size that it has; --take takes several slots,
or all. TASKLOCK_SLOT is the number of the slot, for a port or the name of a
database; several numbers have spaces between them.

Exit codes:
  the command's, 128+n for signal n; 126 or 127 if it cannot start
  6  a key is locked, unless --conflict-exit-code or --skip-if-locked
  7  the lock was lost
  11  the pool has another size, or none`,
		Example: `  tasklock run deploy -- ./deploy.sh
  tasklock run pool:tests --slots 4 -- make test
  tasklock run job:nightly --skip-if-locked -- ./nightly.sh`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash < 0 || dash == len(args):
				return session.Usagef("needs a command after --: tasklock run KEY... -- COMMAND")
			case dash == 0:
				return session.Usagef("needs at least one key before --")
			}
			return nil
		},
	}
	cmd.RunE = s.Run(func(ctx context.Context, args []string) error {
		dash := cmd.ArgsLenAtDash()
		keys, err := s.Keys(args[:dash:dash])
		if err != nil {
			return err
		}
		return o.run(ctx, s, keys, args[dash:])
	})
	o.Flags(cmd)
	o.PoolFlags(cmd)
	cmd.Flags().Lookup("ttl").Usage = "expire after this long without a heartbeat (default 5m; git 1h)"
	cmd.Flags().Lookup("max-hold").Usage = "do not renew beyond this (default: no limit)"
	o.grace = session.DurationFlag{Max: lease.MaxTTL}
	f := cmd.Flags()
	f.Var(&o.grace, "grace", "time between TERM and KILL (default: a part of the ttl)")
	f.BoolVar(&o.skip, "skip-if-locked", false, "if a key is locked, do nothing and exit 0")
	f.IntVar(&o.conflictCode, "conflict-exit-code", int(problem.Locked), "exit with this code if a key is locked")
	cmd.MarkFlagsMutuallyExclusive("skip-if-locked", "conflict-exit-code")
	return cmd
}

func (o *runOptions) run(ctx context.Context, s *session.Session, keys, command []string) error {
	if o.conflictCode < 0 || o.conflictCode > 255 {
		return session.Usagef("--conflict-exit-code: must be between 0 and 255")
	}
	if o.skip && !o.Wait.Given {
		o.NoWait = true
	}
	req, err := o.Request(ctx, s, keys, true)
	if err != nil {
		return err
	}
	if req.ID != "" {
		req.Then = lease.Once(req.Owner, req.ID)
	}
	st, err := s.Store(ctx, true)
	if err != nil {
		return err
	}
	if s.DryRun {
		return o.dryRun(ctx, s, st, req, command)
	}
	return o.under(ctx, s, st, req, runner.Options{Command: command}, o.retry(ctx, s, req, command))
}

// under runs a command while the keys of a request are held. retry is the command
// line that goes on waiting.
func (o *runOptions) under(ctx context.Context, s *session.Session, st *store.Store, req lease.AcquireRequest, run runner.Options, retry []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w := hold.NewWait(s, req.Wait)
	req.Waiting = w.Update
	run.Acquire, run.Dir, run.Env = req, s.Dir, s.LeaseEnviron(ctx)
	run.Stdin, run.Stdout, run.Stderr = s.Stdin, s.Stdout, s.Stderr
	run.Grace, run.Forward, run.Guardian = o.grace.Value, true, []string{self, session.GuardianVerb}
	run.Holding = func(g lease.Grant) { w.End(true, len(g.TookOver) > 0) } // the terminal is the command's from here on
	res, err := runner.Run(ctx, st, run)
	w.End(false, false)
	if reported(ctx, st, res.Grant, err) {
		err = nil
	}
	return o.ended(s, res, session.Tried(w.Failed(err), retry))
}

// retry is the command line that goes on waiting.
func (o *runOptions) retry(ctx context.Context, s *session.Session, req lease.AcquireRequest, command []string) []string {
	words := o.Again(ctx, s, "run", req.Keys, req)
	if o.grace.Given {
		words = append(words, "--grace", o.grace.String())
	}
	if o.conflictCode != int(problem.Locked) {
		words = append(words, "--conflict-exit-code", strconv.Itoa(o.conflictCode))
	}
	return append(append(words, "--"), command...)
}

func (o *runOptions) dryRun(ctx context.Context, s *session.Session, st *store.Store, req lease.AcquireRequest, command []string) error {
	g, err := lease.Acquire(ctx, st, req)
	if err != nil {
		return o.ended(s, runner.Result{ExitCode: -1}, session.Tried(err, o.retry(ctx, s, req, command)))
	}
	return s.Answer(g, func(p *term.Printer) {
		printGrant(p, g)
		p.Line("Would run: %s", term.QuotedLine(command))
	})
}

// ended turns the end of a run into the command's.
func (o *runOptions) ended(s *session.Session, res runner.Result, err error) error {
	var held *lease.HeldError
	switch {
	case errors.As(err, &held) && o.skip:
		if s.JSON {
			return s.Answer(map[string]any{"skipped": true, "lock": problem.Held(held)}, nil)
		}
		s.Note("Skipped: %s.", view.LockedText(held))
		return nil
	case errors.As(err, &held) && o.conflictCode != int(problem.Locked):
		s.Refuse(err)
		return session.ExitError(problem.Exit(o.conflictCode))
	case errors.Is(err, lease.ErrLost) && o.saysLoss && res.ExitCode == int(problem.Lost):
	case err != nil && (res.ExitCode < 0 || errors.Is(err, lease.ErrLost) || errors.As(err, new(*runner.StartError)) || errors.As(err, new(*runner.SignalError))):
		return err
	case err != nil: // the command ended; something else went wrong beside it
		s.Warn("%v", err)
	}
	if res.ExitCode != 0 {
		return session.ExitError(problem.Exit(res.ExitCode))
	}
	return nil
}

// reported distinguishes a loss from success: a command under run that completes its
// task, or reports on it in another way, also releases the lock. The task remembers the
// token.
func reported(ctx context.Context, st *store.Store, g lease.Grant, err error) bool {
	if !errors.Is(err, lease.ErrLost) {
		return false
	}
	found := false
	for _, k := range g.Keys {
		if kind, _ := lease.KindOf(k.Key); kind != lease.Task {
			continue
		}
		i, err := task.Show(ctx, st, k.Key)
		if err != nil || i.ID != k.Key || i.LastVerb == "" || i.LastToken != k.Token {
			return false
		}
		found = true
	}
	return found
}
