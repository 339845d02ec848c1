package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
)

// keepAliveFlag names the process with which a lease lives: a pid, or "auto"
// for that of the coding agent around us.
type keepAliveFlag struct {
	pid  int
	auto bool
}

func (f *keepAliveFlag) Type() string { return "PID|auto" }

func (f *keepAliveFlag) String() string {
	switch {
	case f.auto:
		return "auto"
	case f.pid != 0:
		return strconv.Itoa(f.pid)
	}
	return ""
}

func (f *keepAliveFlag) Set(s string) error {
	if f.auto = s == "auto"; f.auto {
		return nil
	}
	pid, err := strconv.Atoi(s)
	if err != nil || pid <= 0 {
		return usagef("must be the number of a process, or auto")
	}
	f.pid = pid
	return nil
}

func (f *keepAliveFlag) given() bool { return f.auto || f.pid != 0 }

func (o *acquireOptions) keepAliveFlag(cmd *cobra.Command) {
	cmd.Flags().Var(&o.keepAlive, "keep-alive", "renew while this process lives, and end with it")
	cmd.Flags().Var(&o.endsWith, "ends-with", "end with this process, and leave renewing to others")
	cmd.MarkFlagsMutuallyExclusive("keep-alive", "ends-with")
}

// maxKept bounds a lease that renews itself and for which nothing else was
// said: a program that was left open must not keep others out for ever.
const maxKept = 24 * time.Hour

// bind lets the lease of a request live with a process, if there is one.
func (o *acquireOptions) bind(a *App, req *lease.AcquireRequest) (err error) {
	if o.keepAlive.given() && req.MaxHold == 0 {
		req.MaxHold = maxKept
	}
	if req.For, err = o.actor(req.Owner); err != nil {
		return err
	}
	req.Process, err = o.process(a)
	return err
}

// process is the one whose death ends the lease: the one that was named, else
// that of the coding agent, if it can be seen from here.
func (o *acquireOptions) process(a *App) (host.Process, error) {
	if o.attached(a) {
		return host.Process{}, nil // lease.Hold names this one
	}
	if o.ttl.value == lease.Endless && !o.keepAlive.given() && !o.endsWith.given() {
		return host.Process{}, nil
	}
	switch pid := a.Identity().PID; {
	case o.keepAlive.given():
		return o.keepAlive.find(a, "--keep-alive")
	case o.endsWith.given():
		return o.endsWith.find(a, "--ends-with")
	case pid > 0:
		if p, err := host.Find(pid); err == nil {
			return p, nil
		}
	}
	return host.Process{}, nil
}

func (f *keepAliveFlag) find(a *App, name string) (host.Process, error) {
	pid := f.pid
	if f.auto {
		var err error
		if pid, err = identity.Process(a.Identity()); err != nil {
			return host.Process{}, usagef("%s auto: %v; name one: %s PID", name, err, name)
		}
	}
	p, err := host.Find(pid)
	if err != nil {
		return p, usagef("%s: %v", name, err)
	}
	return p, nil
}

// keep starts the keeper of a lease that was just granted. That it cannot be
// started is no reason to give the lease back: it lasts for its ttl.
func (o *acquireOptions) keep(a *App, g lease.Grant, p host.Process) {
	if !o.keepAlive.given() || a.DryRun || len(g.Keys) == 0 {
		return
	}
	args := []string{"keeper", g.LeaseID, "--pid", strconv.Itoa(p.PID), "--start=" + p.Start}
	if err := a.detach(args); err != nil {
		a.warn("the lock is not renewed by itself: %v", err)
	}
}

// detach starts this program once more, on its own: it outlives us and whoever
// called us.
func (a *App) detach(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	switch url := a.StoreURL; {
	case url != "":
		args = append(args, "--store", url)
	case a.cfg != nil && a.cfg.ofLease: // it is about no key, so it would not ask there
		url, _ = a.cfg.Store()
		args = append(args, "--store", url)
	}
	if a.UnsafeFS {
		args = append(args, "--allow-unsafe-fs")
	}
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Env = a.Dir, a.Environ
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// newKeeperCmd is what keep starts.
func newKeeperCmd(a *App) *cobra.Command {
	var p host.Process
	cmd := &cobra.Command{
		Use:    "keeper LEASE",
		Short:  "Renew a lease while a process lives",
		Hidden: true,
		Args:   oneKey,
		RunE: a.does(func(ctx context.Context, args []string) error {
			now, err := host.Find(p.PID)
			if err == nil && now.Start == p.Start {
				p = now
			}
			st, err := a.Store(ctx, false)
			if err != nil {
				return err
			}
			only, free := a.onlyKeeper(args[0], p)
			if !only {
				return nil
			}
			defer free()
			return lease.Keep(ctx, st, args[0], p)
		}),
	}
	cmd.Flags().IntVar(&p.PID, "pid", 0, "the process")
	cmd.Flags().StringVar(&p.Start, "start", "", "when it was started, in the kernel's words")
	return cmd
}

// onlyKeeper makes sure that a lease has one keeper on this machine, however
// often it is taken again. Where that cannot be found out, two do no harm.
func (a *App) onlyKeeper(lease string, p host.Process) (only bool, free func()) {
	none := func() {}
	dir, err := os.UserCacheDir()
	if err != nil {
		return true, none
	}
	dir = filepath.Join(dir, "tasklock", "keepers")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return true, none
	}
	url, _ := a.cfg.Store()
	name := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %q", url, lease, p.PID, p.Start))
	file := flock.New(filepath.Join(dir, hex.EncodeToString(name[:16])))
	got, err := file.TryLock()
	if err != nil {
		return true, none
	}
	return got, func() {
		_ = os.Remove(file.Path())
		_ = file.Unlock()
	}
}
