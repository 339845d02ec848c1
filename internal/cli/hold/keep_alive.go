package hold

import (
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
)

// ProcessFlag names the process that a lease lives with: a pid, or "auto" for
// the coding agent that runs us.
type ProcessFlag struct {
	pid  int
	auto bool
}

func (f *ProcessFlag) Type() string { return "PID|auto" }

func (f *ProcessFlag) String() string {
	switch {
	case f.auto:
		return "auto"
	case f.pid != 0:
		return strconv.Itoa(f.pid)
	}
	return ""
}

func (f *ProcessFlag) Set(s string) error {
	if f.auto = s == "auto"; f.auto {
		return nil
	}
	pid, err := strconv.Atoi(s)
	if err != nil || pid <= 0 {
		return session.Usagef("must be the number of a process, or auto")
	}
	f.pid = pid
	return nil
}

func (f *ProcessFlag) given() bool { return f.auto || f.pid != 0 }

// KeepAliveFlag adds --keep-alive and --ends-with.
func (o *KeepOptions) KeepAliveFlag(cmd *cobra.Command) {
	cmd.Flags().Var(&o.KeepAlive, "keep-alive", "renew while this process lives, release when it ends")
	cmd.Flags().Var(&o.EndsWith, "ends-with", "release when this process ends; do not renew")
	cmd.MarkFlagsMutuallyExclusive("keep-alive", "ends-with")
}

// maxKept limits a lease that renews itself, by default: a forgotten program must
// not keep others out for ever.
const maxKept = 24 * time.Hour

// Bind ties the lease of a request to a process, if there is one.
func (o *KeepOptions) Bind(s *session.Session, req *lease.AcquireRequest) (err error) {
	if o.KeepAlive.given() && req.MaxHold == 0 {
		req.MaxHold = maxKept
	}
	if req.For, err = o.actor(req.Owner); err != nil {
		return err
	}
	req.Process, err = o.process(s)
	return err
}

// process is the one whose death ends the lease: the named one, else that of the
// coding agent, if it is visible from here.
func (o *KeepOptions) process(s *session.Session) (host.Process, error) {
	if o.Attached(s) {
		return host.Process{}, nil // lease.Hold names this one
	}
	if o.TTL.Value == lease.Endless && !o.KeepAlive.given() && !o.EndsWith.given() {
		return host.Process{}, nil
	}
	switch pid := s.Identity().PID; {
	case o.KeepAlive.given():
		return o.KeepAlive.find(s, "--keep-alive")
	case o.EndsWith.given():
		return o.EndsWith.find(s, "--ends-with")
	case pid > 0:
		if p, err := host.Find(pid); err == nil {
			return p, nil
		}
	}
	return host.Process{}, nil
}

func (f *ProcessFlag) find(s *session.Session, name string) (host.Process, error) {
	pid := f.pid
	if f.auto {
		var err error
		if pid, err = identity.Process(s.Identity()); err != nil {
			return host.Process{}, session.Usagef("%s auto: %v; name one: %s PID", name, err, name)
		}
	}
	p, err := host.Find(pid)
	if err != nil {
		return p, session.Usagef("%s: %v", name, err)
	}
	return p, nil
}

// Keep starts the keeper of a new lease. If it cannot start, the lease stays: it
// lasts for its ttl.
func (o *KeepOptions) Keep(s *session.Session, g lease.Grant, p host.Process) {
	if !o.KeepAlive.given() || s.DryRun || len(g.Keys) == 0 {
		return
	}
	args := []string{"keeper", g.LeaseID, "--pid", strconv.Itoa(p.PID), "--start=" + p.Start}
	if err := Detach(s, args); err != nil {
		s.Warn("nothing renews the lock in the background: %v", err)
	}
}

// Detach starts this program once more, separately: it outlives us and our caller.
func Detach(s *session.Session, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg, err := s.Config()
	switch {
	case err != nil:
		return err
	case s.StoreURL != "":
		args = append(args, "--store", s.StoreURL)
	case cfg.OfLease: // it names no key, so it would not ask that store
		args = append(args, "--store", s.URL())
	}
	if s.UnsafeFS {
		args = append(args, "--allow-unsafe-fs")
	}
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Env = s.Dir, s.Environ
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
