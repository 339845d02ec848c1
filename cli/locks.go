package cli

import (
	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/lock"
)

// newLocksCmd offers the commands about locks under their long names.
func newLocksCmd(a *App) *cobra.Command {
	return a.group("locks", "The same as list, show, release, cleanup",
		newListCmd(a), newShowCmd(a), newReleaseCmd(a), newCleanupCmd(a))
}

// lockData is a lock with every field present, also those it does not have.
type lockData struct {
	lock.Info
	Host     string `json:"host"`
	PID      int    `json:"pid"`
	Worktree string `json:"worktree"`
	Session  string `json:"session"`
	Reason   string `json:"reason"`
}

func newLockData(i lock.Info) lockData {
	return lockData{Info: i, Host: i.Host, PID: i.PID, Worktree: i.Worktree, Session: i.Session, Reason: i.Reason}
}

// oneLock is null for a key that is free.
func oneLock(i *lock.Info) *lockData {
	if i == nil {
		return nil
	}
	d := newLockData(*i)
	return &d
}

func lockList(locks []lock.Info) []lockData {
	list := make([]lockData, len(locks))
	for i, l := range locks {
		list[i] = newLockData(l)
	}
	return list
}
