package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
)

// leaseEnv is the lease that the environment says this process works under: what
// run, the runner and the scheduler tell their commands. See package runner.
type leaseEnv struct {
	keys   []string // one a line
	names  []string // what each was asked for as, beside its key
	leases []string // one a line, beside its key; or one for all
	token  string   // the largest
}

func (a *App) leaseEnv() leaseEnv {
	return leaseEnv{lines(a.Env("TASKLOCK_KEY")), lines(a.Env("TASKLOCK_NAME")), lines(a.Env("TASKLOCK_LEASE")), a.Env("TASKLOCK_TOKEN")}
}

func lines(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
}

// has reports whether the lease is that of all the keys, of which there is one.
func (e leaseEnv) has(keys []string) bool {
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(k string) bool { return e.index(k) < 0 })
}

func (e leaseEnv) index(key string) int {
	name, err := lease.CheckKey(key)
	if err != nil {
		return -1
	}
	if i := slices.Index(e.keys, name); i >= 0 || len(e.names) != len(e.keys) {
		return i
	}
	return slices.Index(e.names, name)
}

// lease is the one that holds the keys; empty if they are in several.
func (e leaseEnv) lease(keys []string) string {
	name := ""
	for i, k := range keys {
		of := ""
		switch n := e.index(k); {
		case len(e.leases) == 1:
			of = e.leases[0]
		case n < len(e.leases):
			of = e.leases[n]
		}
		if i > 0 && of != name {
			return ""
		}
		name = of
	}
	return name
}

// number is the token; 0 if there is none.
func (e leaseEnv) number() (int64, error) {
	if e.token == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(e.token, 10, 64)
	if err != nil || n <= 0 {
		return 0, usagef("TASKLOCK_TOKEN: must be a positive number, not %q", short(e.token, 40))
	}
	return n, nil
}

// fenceOptions say which grant is meant: commands of a holder that was replaced
// are refused. Under run both come from the environment.
type fenceOptions struct {
	token   int64
	latest  int64 // from the environment: the largest token of several keys
	lease   string
	fromEnv bool // nobody gave a flag
}

func (o *fenceOptions) flags(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&o.token, "token", 0, "only if the lock has this token (also: TASKLOCK_TOKEN)")
	cmd.Flags().StringVar(&o.lease, "lease", "", "the lease with this id; beside keys: only if it holds them (also: TASKLOCK_LEASE)")
}

// fill checks the flags, and takes what is missing from the environment when
// that speaks about the keys which are meant. There a grant is known by its lease
// and its token: in another store the key may be at the same token.
func (o *fenceOptions) fill(a *App, cmd *cobra.Command, keys []string) error {
	if o.token <= 0 && cmd.Flags().Changed("token") {
		return usagef("--token: must be a positive number")
	}
	if o.lease == "" && cmd.Flags().Changed("lease") {
		return usagef("--lease: must not be empty")
	}
	for _, k := range keys { // before a store is looked for
		if _, err := lease.CheckKey(k); err != nil {
			return err
		}
	}
	env := a.leaseEnv()
	if o.token != 0 || o.lease != "" || !env.has(keys) {
		return nil
	}
	token, err := env.number()
	if err != nil {
		return err
	}
	o.fromEnv, o.lease = true, env.lease(keys)
	if len(env.keys) == 1 {
		o.token = token
	} else {
		o.latest = token // it is the largest: that of these keys may be older
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
