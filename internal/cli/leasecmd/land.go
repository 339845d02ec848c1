package leasecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/landing"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
)

type landOptions struct {
	runOptions
	onto, remote, key string
	lease             string // the steps run under this one
}

func NewLand(s *session.Session) *cobra.Command {
	o := &landOptions{}
	cmd := &cobra.Command{
		Use:   "land [flags] -- TEST [ARG...]",
		Short: "Rebase, test and push a branch, one at a time",
		Long: `Land the commits of this branch on a branch of a remote: wait for the lock of that
branch, fetch, rebase, run TEST, push fast-forward, release. One lands at a time,
first come, first served, so no push is refused because somebody was faster.

TEST runs in this worktree, on the rebased commits, with HEAD detached; untracked and
ignored files are there. It gets what run gives to its command. Its output goes to
stderr and to a log. After the push the branch is at the commit that landed. To land
without a test: -- true.

If anything goes wrong, the branch is at its old commit and the files are as they were
found. A conflict never touches your files: land rebases in a worktree of its own. If
land itself is killed, the next land in this worktree undoes or finishes it; by hand:
git checkout BRANCH.

land never pushes what was not tested: if TEST changes tracked files, land refuses. If
somebody pushed without land during the test, land begins again, up to five times.
The push is never forced: even if the lock is lost, git refuses to replace commits of
others. A store on this machine orders the landings of this machine only.

No step asks: no editor, no password. Fetch and push take ten minutes at most, or
--timeout. With --json, stdout has one object for each step.

Exit codes:
  0  landed, or the remote has it all already
  TEST's own code, if TEST fails
  4  no such remote or branch
  5  the remote or a hook refused the push
  6  the wait timed out
  7  the lock was lost; nothing was pushed
  8  the remote cannot be reached
 11  uncommitted changes, a conflict, merge commits, or no branch`,
		Example: `  tasklock land -- make test
  tasklock land --onto release/1.4 --remote upstream -- ./check.sh
  tasklock land --dry-run -- make test`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash > 0:
				return session.Usagef("takes no arguments before --, got %q", term.Short(args[0], 60))
			case dash < 0 || len(args) == 0:
				return session.Usagef("needs a test after --: tasklock land -- TEST; without a test: -- true")
			}
			return nil
		},
	}
	cmd.RunE = s.Run(func(ctx context.Context, args []string) error {
		if o.lease != "" {
			return o.steps(ctx, s, args)
		}
		return o.run(ctx, s, args)
	})
	o.flags(s, cmd)
	return cmd
}

func (o *landOptions) flags(s *session.Session, cmd *cobra.Command) {
	o.TakeOptions.Flags(cmd)
	o.grace = session.DurationFlag{Max: lease.MaxTTL}
	o.conflictCode, o.saysLoss = int(problem.Locked), true
	f := cmd.Flags()
	f.Lookup("ttl").Usage = "expire after this long without a heartbeat (default 5m; git 1h)"
	f.Lookup("max-hold").Usage = "do not renew beyond this (default: no limit)"
	f.Var(&o.grace, "grace", "time between TERM and KILL (default: a part of the ttl)")
	f.StringVar(&o.onto, "onto", "", "the remote's branch (default: its default branch, else main)")
	f.StringVar(&o.remote, "remote", "origin", "the remote")
	f.StringVar(&o.key, "key", "", "the key to hold (default land:REMOTE/BRANCH)")
	f.StringVar(&o.lease, "lease", "", "run the steps under this lease")
	for _, internal := range []string{"lease", "request-id", "worktree"} {
		_ = f.MarkHidden(internal)
	}
	_ = cmd.RegisterFlagCompletionFunc("remote", fromGit(s, func() []string { return []string{"remote"} }))
	_ = cmd.RegisterFlagCompletionFunc("onto", fromGit(s, func() []string {
		return []string{"for-each-ref", "--format=%(refname:lstrip=3)", "refs/remotes/" + o.remote + "/"}
	}))
}

// fromGit completes with the lines that a command of git prints.
func fromGit(s *session.Session, args func() []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		out, _ := git.Run(ctx, s.Dir, args()...)
		return slices.DeleteFunc(strings.Fields(out), func(name string) bool { return name == "HEAD" }), cobra.ShellCompDirectiveNoFileComp
	}
}

// run checks what can be checked before the wait, and runs the steps under the lock.
func (o *landOptions) run(ctx context.Context, s *session.Session, test []string) error {
	if err := (&runner.Options{Command: test, Dir: s.Dir}).Check(); err != nil {
		return err
	}
	from, err := landing.Look(ctx, landing.Place{Dir: s.Dir, Environ: s.Environ, Remote: o.remote, Onto: o.onto})
	if err != nil {
		return err
	}
	o.remote, o.onto = from.Remote, from.Onto
	o.key = cmp.Or(o.key, "land:"+o.remote+"/"+o.onto)
	keys, err := s.Keys([]string{o.key})
	if err != nil {
		return err
	}
	if !from.Busy && from.Tip != "" && from.Commits == 0 {
		return o.landed(s, landing.Result{Branch: from.Branch, Remote: o.remote, Onto: o.onto, From: from.Tip, To: from.Tip})
	}
	if from.Branch != "" {
		o.Reason = cmp.Or(o.Reason, "landing "+from.Branch)
	}
	req, err := o.request(ctx, s, keys)
	if err != nil {
		return err
	}
	st, err := s.Store(ctx, true)
	if err != nil {
		return err
	}
	if len(from.Untracked) > 0 {
		s.Note("Note: untracked files do not land: %s.", term.Short(strings.Join(from.Untracked, ", "), 200))
	}
	if s.DryRun {
		return o.dryRun(ctx, s, st, req, from, test)
	}
	if !s.Shared() {
		s.Note("Note: the store is on this machine, so it orders the landings of this machine only.")
	}
	return o.under(ctx, s, st, req, o.itself(s, st, test), o.retry(ctx, s, req, test))
}

// request waits by default, a coding agent too: whoever leaves the queue goes to its end.
func (o *landOptions) request(ctx context.Context, s *session.Session, keys []string) (lease.AcquireRequest, error) {
	req, err := o.Request(ctx, s, keys, true)
	if err != nil {
		return req, err
	}
	if cfg, err := s.Config(); err == nil && !o.Wait.Given && !o.NoWait {
		req.Wait = session.Left(ctx, cfg.WaitTimeout())
	}
	return req, nil
}

// itself runs this command once more, for the steps under the lease. So all of them,
// the push too, are in one process group, which ends before the lock can be granted to
// another owner.
func (o *landOptions) itself(s *session.Session, st *store.Store, test []string) runner.Options {
	self, err := os.Executable()
	if err != nil {
		self = "tasklock"
	}
	return runner.Options{
		Command: []string{self},
		Claim: func(ctx context.Context, r runner.AcquireRequest) (runner.Claim, error) {
			l, err := lease.Hold(ctx, st, r)
			if err != nil {
				return runner.Claim{}, err
			}
			args := []string{"land", "--onto", o.onto, "--remote", o.remote, "--key", o.key, "--lease", l.Grant().Keys[0].Lease}
			return runner.Claim{Lease: l, Args: slices.Concat(args, s.Switches(), []string{"--"}, test)}, nil
		},
	}
}

// retry is the command line that goes on waiting.
func (o *landOptions) retry(ctx context.Context, s *session.Session, req lease.AcquireRequest, test []string) []string {
	words := o.Again(ctx, s, "land", nil, req)
	words = append(words, "--onto", o.onto, "--remote", o.remote)
	if o.key != "land:"+o.remote+"/"+o.onto {
		words = append(words, "--key", o.key)
	}
	return append(append(words, "--"), test...)
}

func (o *landOptions) dryRun(ctx context.Context, s *session.Session, st *store.Store, req lease.AcquireRequest, from landing.State, test []string) error {
	req.Wait = 0
	var held *lease.HeldError
	if _, err := lease.Acquire(ctx, st, req); err != nil && !errors.As(err, &held) {
		return err
	}
	onto := o.remote + "/" + o.onto
	data := map[string]any{
		"key": o.key, "branch": from.Branch, "remote": o.remote, "onto": o.onto, "commits": from.Commits, "test": test,
		"steps": []string{"wait", "fetch", "rebase", "test", "push", "release"},
	}
	return s.Answer(data, func(p *term.Printer) {
		if held != nil {
			p.Line("Would wait for %s, which %s holds.", o.key, term.Short(held.Owner, 60))
		} else {
			p.Line("Would acquire %s, which is free.", o.key)
		}
		p.Line("Would fetch %s from %s.", o.onto, o.remote)
		if from.Tip == "" {
			p.Line("Would rebase %s on %s.", from.Branch, onto)
		} else {
			p.Line("Would rebase %s of %s on %s (%s when it was last fetched).", term.Plural(from.Commits, "commit"), from.Branch, onto, short(from.Tip))
		}
		p.Line("Would run: %s", term.QuotedLine(test))
		p.Line("Would push %s to %s.", from.Branch, onto)
	})
}

// steps lands under the lease of the process above.
func (o *landOptions) steps(ctx context.Context, s *session.Session, test []string) error {
	ctx, stop := session.Listen(ctx)
	defer stop()
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	held := func(ctx context.Context) error {
		_, err := lease.Check(ctx, st, lease.CheckRequest{Key: o.key, HeldBy: s.Identity().Owner})
		return err
	}
	if err := held(ctx); err != nil {
		return err
	}
	limit, _ := term.ParseDuration(s.Timeout)
	r := landing.Request{
		Dir: s.Dir, Environ: s.Environ, Remote: o.remote, Onto: o.onto, Test: test, Stdin: s.Stdin,
		Held: held, NetTime: limit, Say: func(e landing.Event) { o.say(s, e) },
	}
	if !s.Quiet {
		r.Output = s.Stderr
	}
	res, err := landing.Run(ctx, r)
	if interrupted := (*session.SignalError)(nil); errors.As(err, &interrupted) {
		return fmt.Errorf("%w: the branch and the files are as they were", interrupted)
	}
	if err != nil {
		return err
	}
	return o.landed(s, res)
}

// say prints a step.
func (o *landOptions) say(s *session.Session, e landing.Event) {
	onto := e.Remote + "/" + e.Onto
	_ = s.Event(string(e.Step), e, func(p *term.Printer) {
		switch e.Step {
		case landing.Recovered:
			p.Line("Recovered %s from a landing that was killed here.", e.Branch)
		case landing.Fetched:
			p.Line("Fetched %s at %s.", onto, short(e.From))
		case landing.Rebased:
			if e.From == e.To {
				p.Line("%s is on top of %s already: %s.", e.Branch, onto, term.Plural(e.Commits, "commit"))
				break
			}
			p.Line("Rebased %s: %s, now at %s.", e.Branch, term.Plural(e.Commits, "commit"), short(e.To))
		case landing.Testing:
			p.Line("Testing %s, log in %s", short(e.To), e.Log)
		case landing.Tested:
			p.Line("Tested %s in %s.", short(e.To), term.Rough(time.Duration(e.Seconds*float64(time.Second))))
		case landing.Pushed:
			p.Line("Pushed %s to %s.", short(e.To), onto)
		case landing.Moved:
			p.Line("Somebody pushed to %s without tasklock land: beginning again.", onto)
		case landing.Noted:
			p.Line("Note: %s.", e.Text)
		}
	})
}

// landed is the answer.
func (o *landOptions) landed(s *session.Session, r landing.Result) error {
	onto := r.Remote + "/" + r.Onto
	return s.Event("landed", r, func(p *term.Printer) {
		if r.Commits == 0 {
			p.Line("Nothing to land: %s has every change of %s.", onto, r.Branch)
			return
		}
		p.Line("Landed %s of %s on %s (%s..%s).", term.Plural(r.Commits, "commit"), r.Branch, onto, short(r.From), short(r.To))
		if r.Local != "" {
			p.Line("The local branch %s stays at %s.", r.Onto, short(r.Local))
		}
	})
}

// short is a commit for people.
func short(commit string) string { return commit[:min(len(commit), 10)] }
