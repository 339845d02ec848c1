package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/lock"
)

// fenceOptions say which grant is meant: commands of a holder that was replaced
// are refused. Under run both come from the environment.
type fenceOptions struct {
	token int64
	lease string
}

func (o *fenceOptions) flags(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&o.token, "token", 0, "only if the lock has this token (also: TASKLOCK_TOKEN)")
	cmd.Flags().StringVar(&o.lease, "lease", "", "the lease with this id (also: TASKLOCK_LEASE)")
}

// fill checks the flags, and takes what is missing from the environment when
// that speaks about the one key which is meant.
func (o *fenceOptions) fill(a *App, cmd *cobra.Command, keys []string) error {
	if o.token <= 0 && cmd.Flags().Changed("token") {
		return usagef("--token: must be a positive number")
	}
	if o.lease == "" && cmd.Flags().Changed("lease") {
		return usagef("--lease: must not be empty")
	}
	if len(keys) != 1 || o.token != 0 || o.lease != "" {
		return nil
	}
	key, err := lock.CheckKey(keys[0])
	if err != nil || a.Env("TASKLOCK_KEY") != key {
		return err
	}
	if text := a.Env("TASKLOCK_TOKEN"); text != "" {
		if o.token, err = strconv.ParseInt(text, 10, 64); err != nil || o.token <= 0 {
			return usagef("TASKLOCK_TOKEN: must be a positive number, not %q", short(text, 40))
		}
	}
	return nil
}

// target is what release and heartbeat are about: keys, one lease, or all.
type target struct {
	fenceOptions
	all bool
}

func (t *target) flags(cmd *cobra.Command) {
	t.fenceOptions.flags(cmd)
	cmd.Flags().BoolVar(&t.all, "all", false, "everything that the owner holds")
}

// check makes sure that exactly one of the three was given.
func (t *target) check(a *App, cmd *cobra.Command, keys []string) error {
	if err := t.fill(a, cmd, keys); err != nil {
		return err
	}
	given := 0
	for _, b := range []bool{len(keys) > 0, t.lease != "", t.all} {
		if b {
			given++
		}
	}
	switch {
	case given == 0:
		return usagef("needs keys, --lease ID or --all")
	case given > 1:
		return usagef("takes keys, --lease ID or --all: only one of them")
	case t.token != 0 && len(keys) != 1:
		return usagef("--token goes with exactly one key")
	}
	return nil
}
