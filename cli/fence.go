package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/lock"
)

// fenceOptions say which grant is meant: commands of a holder that was replaced
// are refused. Under run both come from the environment.
type fenceOptions struct {
	token  int64
	latest int64 // from the environment: the largest token of several keys
	lease  string
}

func (o *fenceOptions) flags(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&o.token, "token", 0, "only if the lock has this token (also: TASKLOCK_TOKEN)")
	cmd.Flags().StringVar(&o.lease, "lease", "", "the lease with this id; beside keys: only if it holds them (also: TASKLOCK_LEASE)")
}

// fill checks the flags, and takes what is missing from the environment when
// that speaks about the keys which are meant. A token says which grant it was;
// the lease counts where there is none.
func (o *fenceOptions) fill(a *App, cmd *cobra.Command, keys []string) error {
	if o.token <= 0 && cmd.Flags().Changed("token") {
		return usagef("--token: must be a positive number")
	}
	if o.lease == "" && cmd.Flags().Changed("lease") {
		return usagef("--lease: must not be empty")
	}
	if len(keys) == 0 || o.token != 0 || o.lease != "" {
		return nil
	}
	named := a.Env("TASKLOCK_KEY")
	for _, k := range keys {
		key, err := lock.CheckKey(k)
		if err != nil || !strings.Contains(" "+named+" ", " "+key+" ") { // several are separated by spaces
			return err
		}
	}
	text := a.Env("TASKLOCK_TOKEN")
	if text == "" {
		o.lease = a.Env("TASKLOCK_LEASE")
		return nil
	}
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil || token <= 0 {
		return usagef("TASKLOCK_TOKEN: must be a positive number, not %q", short(text, 40))
	}
	if key, _ := lock.CheckKey(keys[0]); key == named {
		o.token = token
	} else {
		o.latest = token // it is the largest: that of this key may be older
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

// check makes sure that exactly one of the three was given. A lease beside keys
// is a condition.
func (t *target) check(a *App, cmd *cobra.Command, keys []string) error {
	if err := t.fill(a, cmd, keys); err != nil {
		return err
	}
	given := 0
	for _, b := range []bool{len(keys) > 0, t.lease != "" && len(keys) == 0, t.all} {
		if b {
			given++
		}
	}
	switch {
	case given == 0:
		return usagef("needs keys, --lease ID or --all")
	case given > 1 || t.all && t.lease != "":
		return usagef("takes keys, --lease ID or --all: only one of them")
	case t.token != 0 && len(keys) != 1:
		return usagef("--token goes with exactly one key")
	}
	return nil
}
