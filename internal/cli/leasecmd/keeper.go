package leasecmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
)

// NewKeeper is what keep starts.
func NewKeeper(s *session.Session) *cobra.Command {
	var p host.Process
	cmd := &cobra.Command{
		Use:    "keeper LEASE",
		Short:  "Renew a lease while a process lives",
		Hidden: true,
		Args:   session.One("key"),
		RunE: s.Run(func(ctx context.Context, args []string) error {
			now, err := host.Find(p.PID)
			if err == nil && now.Start == p.Start {
				p = now
			}
			st, err := s.Store(ctx, false)
			if err != nil {
				return err
			}
			only, free := onlyKeeper(s, args[0], p)
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

// onlyKeeper makes sure that a lease has one keeper on this machine, however often it
// is acquired again. If it cannot check that, two do no harm.
func onlyKeeper(s *session.Session, lease string, p host.Process) (only bool, free func()) {
	none := func() {}
	dir, err := os.UserCacheDir()
	if err != nil {
		return true, none
	}
	dir = filepath.Join(dir, "tasklock", "keepers")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return true, none
	}
	name := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %q", s.URL(), lease, p.PID, p.Start))
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
