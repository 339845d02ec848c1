package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/githooks"
	"github.com/tasklock/tasklock/internal/guard"
	"github.com/tasklock/tasklock/internal/harness"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/store"
)

// beforeTool denies a tool that would write what it may not.
func (h *hook) beforeTool(ctx context.Context) error {
	w := guard.Resolve(h.writes())
	if d := w.Forbidden(); d != nil {
		return h.deny(denial(h.s, d))
	}
	if h.Session == "" && h.s.Identity().Source == identity.FromProcess {
		return fmt.Errorf("the event names no session, so nobody can tell whose edit this is")
	}
	var faults []error
	if h.Cut {
		faults = append(faults, fmt.Errorf("the command has more than %d bytes, of which only the first were read", harness.MaxCommand))
	}
	if h.Unsure != "" && !h.Cut && h.strict() {
		faults = append(faults, fmt.Errorf("%s", h.Unsure))
	}
	if w.None() {
		return errors.Join(append(faults, h.renew(ctx))...)
	}
	d, err := w.Locked(ctx)
	if d != nil {
		return h.deny(denial(h.s, d))
	}
	for _, s := range h.others {
		s.RenewDue()
	}
	return errors.Join(append(faults, err)...)
}

// writes asks the guard about what the tool would do.
func (h *hook) writes() guard.Request {
	state, _ := place.State(h.s.Env)
	return guard.Request{
		Dir: h.s.Dir, Owners: h.owners, Targets: h.Targets, Calls: h.Calls, Strict: h.strict(), State: state,
		Store: func(dir string) (guard.Store, error) {
			cfg, err := h.in(dir).Config()
			if err != nil {
				return guard.Store{}, err
			}
			out := guard.Store{Users: cfg.Users()}
			out.URL, _ = cfg.Store()
			if cfg.Place.Kind != place.User {
				out.Folder = cfg.Place.Folder
			}
			return out, nil
		},
		Open: func(ctx context.Context, dir string) (*store.Store, error) {
			s := h.in(dir)
			s.Quiet = true
			return s.Look(ctx)
		},
	}
}

// in is the same command in another folder.
func (h *hook) in(dir string) *session.Session {
	if dir == h.s.Dir {
		return h.s
	}
	if h.others[dir] == nil {
		h.others[dir] = h.s.At(dir)
	}
	return h.others[dir]
}

// denial says why something is denied, and names the next command.
func denial(s *session.Session, d *guard.Denial) string {
	what, l := term.Clean(term.Short(d.What, 120)), d.Lock
	owner, key := term.Clean(term.Short(l.Owner, 120)), term.Clean(term.Short(l.Key, 120))
	switch d.Why {
	case guard.Settings:
		return fmt.Sprintf("tasklock: %s says how locks are checked, and hooks.strict is set: ask a person to change it.\nNext: tasklock config", what)
	case guard.Records:
		return fmt.Sprintf("tasklock: %s would change or remove tasklock's own store: every lock would be free, and the tokens would begin again. Only tasklock's commands change it.\nNext: tasklock list", what)
	case guard.Forced:
		return fmt.Sprintf("tasklock: %q takes a lock from its holder, and hooks.strict is set: ask a person to do it.\nNext: %s", what, s.CommandLine("list"))
	case guard.Occupied:
		return fmt.Sprintf("tasklock: %s is in the worktree of %s (%s), which works there on %s. Work in a worktree of your own.\nNext: %s",
			what, owner, term.Clean(term.Short(l.Worktree, 120)), key, s.CommandLine("next", "--claim", "--worktree"))
	}
	pr := &term.Printer{Now: s.Now()}
	text := fmt.Sprintf("tasklock: %s is locked by %s (%s), %s, last heartbeat %s.", what, owner, key, view.EndsIn(pr, l.ExpiresAt), pr.Relative(l.HeartbeatAt))
	if why := view.ReasonOf(l.Reason); why != "" {
		text += "\n" + why
	}
	wanted := lease.Path.Key(d.What)
	if _, err := lease.CheckKey(wanted); err != nil {
		wanted = l.Key
	}
	wait := s.CommandLine("acquire", wanted, "--wait", "90s")
	if other := s.OtherWork(); other != "" {
		return text + "\nNext: " + other + "\nOr wait: " + wait
	}
	return text + "\nNext: " + wait
}

// pass lets the action go on. If the harness gives a command no owner, or another
// one's, pass adds the right owner to the command; if git would run no guard, pass
// adds that too.
func (h *hook) pass(ctx context.Context) harness.Reply {
	if h.What != harness.BeforeTool || !h.unnamed && !h.Hookless() {
		return h.Pass()
	}
	n := harness.Naming{Owner: h.s.Identity().Owner, Named: !h.unnamed, Guarded: func(dirs []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return githooks.Live(ctx, dir, h.s.Env) })
	}}
	if h.Hookless() {
		n.Hooks = githooks.Folder(place.State(h.s.Env))
	}
	return h.Rename(n)
}
