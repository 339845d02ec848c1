package cli

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
)

type runOptions struct {
	leaseOptions
	grace        durationFlag
	skip         bool
	conflictCode int
}

// guardianVerb starts the guardian of run: a second tasklock, see package
// runner. It is no command for people.
const guardianVerb = "guardian"

func newRunCmd(a *App) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run KEY... -- COMMAND [ARG...]",
		Short: "Run a command while keys are held",
		Long: `Take the keys, run the command, renew the lock while it runs, and release the
keys when the command and everything in its process group has ended. Two runs
of one user exclude each other, also inside a run that holds the same key: of
run K a | run K b the second waits until the first has ended.

If the lock expires, the command is stopped before anyone else can get the
keys. If someone breaks the lock, the keys are free at once and the command is
stopped within a second or two (git: five). On Linux that includes descendants
outside the process group, as under timeout. The exit code is 7 then, and the
message says who ended the lock.

The command finds TASKLOCK_KEY (one key a line), TASKLOCK_TOKEN, TASKLOCK_LEASE,
TASKLOCK_OWNER and TASKLOCK_LEASE_STORE in its environment: commands about that key
ask that store, in whatever folder they run. run exits as the command does, 126 or 127 if it cannot be
started, 128+n for signal n. stdout belongs to the command.`,
		Example: `  tasklock run deploy -- ./deploy.sh
  tasklock run job:nightly --skip-if-locked -- ./nightly.sh`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash < 0 || dash == len(args):
				return usagef("needs a command after --: tasklock run KEY... -- COMMAND")
			case dash == 0:
				return usagef("needs at least one key before --")
			}
			return nil
		},
	}
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		dash := cmd.ArgsLenAtDash()
		keys, err := a.paths(args[:dash:dash])
		if err != nil {
			return err
		}
		return o.run(ctx, a, keys, args[dash:])
	})
	o.flags(cmd)
	o.grace = durationFlag{max: lease.MaxTTL}
	f := cmd.Flags()
	f.Var(&o.grace, "grace", "time between TERM and KILL")
	f.BoolVar(&o.skip, "skip-if-locked", false, "if a key is locked, do nothing and exit 0")
	f.IntVar(&o.conflictCode, "conflict-exit-code", int(problem.Locked), "exit with this code if a key is locked")
	cmd.MarkFlagsMutuallyExclusive("skip-if-locked", "conflict-exit-code")
	return cmd
}

func (o *runOptions) run(ctx context.Context, a *App, keys, command []string) error {
	if o.conflictCode < 0 || o.conflictCode > 255 {
		return usagef("--conflict-exit-code: must be between 0 and 255")
	}
	if o.skip && !o.wait.given {
		o.noWait = true
	}
	req, err := o.request(a, keys, true)
	if err != nil {
		return err
	}
	if req.ID != "" {
		req.Then = lease.Once(req.Owner, req.ID)
	}
	st, err := a.Store(ctx, true)
	if err != nil {
		return err
	}
	a.retry = o.again(a, "run", keys, req)
	if o.grace.given {
		a.retry = append(a.retry, "--grace", o.grace.String())
	}
	if o.conflictCode != int(problem.Locked) {
		a.retry = append(a.retry, "--conflict-exit-code", strconv.Itoa(o.conflictCode))
	}
	a.retry = append(append(a.retry, "--"), command...)
	if a.DryRun {
		return o.dryRun(ctx, a, st, req, command)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w := a.waiting(req.Wait)
	req.Waiting = w.update
	res, err := runner.Run(ctx, st, runner.Options{
		Acquire: req, Command: command, Dir: a.Dir, Env: a.environ(ctx),
		Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr,
		Grace: o.grace.value, Forward: true, Guardian: []string{self, guardianVerb},
		Holding: func(g lease.Grant) { w.end(true, len(g.TookOver) > 0) }, // the terminal is the command's from here on
	})
	w.end(false, false)
	if reported(ctx, st, res.Grant, err) {
		err = nil
	}
	return o.ended(a, res, err)
}

func (o *runOptions) dryRun(ctx context.Context, a *App, st *store.Store, req lease.AcquireRequest, command []string) error {
	g, err := lease.Acquire(ctx, st, req)
	if err != nil {
		return o.ended(a, runner.Result{ExitCode: -1}, err)
	}
	return a.answer(g, func(p *printer) {
		p.grant(g, true)
		words := make([]string, len(command))
		for i, c := range command {
			words[i] = shellQuote(c)
		}
		p.line("Would run: %s", strings.Join(words, " "))
	})
}

// ended turns the end of a run into the command's.
func (o *runOptions) ended(a *App, res runner.Result, err error) error {
	var held *lease.HeldError
	switch {
	case errors.As(err, &held) && o.skip:
		if a.JSON {
			return a.answer(map[string]any{"skipped": true, "lock": problem.Held(held)}, nil)
		}
		a.note("Skipped: %s.", lockedText(held))
		return nil
	case errors.As(err, &held) && o.conflictCode != int(problem.Locked):
		a.refuse(err)
		return &exitWith{problem.Exit(o.conflictCode)}
	case err != nil && (res.ExitCode < 0 || errors.Is(err, lease.ErrLost) || isStart(err) || isSignal(err)):
		return err
	case err != nil: // the command ended; something else went wrong beside it
		a.warn("%v", err)
	}
	if res.ExitCode != 0 {
		return &exitWith{problem.Exit(res.ExitCode)}
	}
	return nil
}

func isStart(err error) bool {
	var e *runner.StartError
	return errors.As(err, &e)
}

func isSignal(err error) bool {
	var e *runner.SignalError
	return errors.As(err, &e)
}
