package session

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
)

// LeaseVariables is the lease of this process by its environment, which run, the runner
// and the scheduler set. See package runner.
type LeaseVariables struct {
	Keys   []string // one a line
	names  []string // the requested name of each key
	leases []string // one for each key, or one for all
	Token  string   // the largest
}

// LeaseEnv is what the environment says of the lease that the command runs under.
func (s *Session) LeaseEnv() LeaseVariables {
	return LeaseVariables{lines(s.Env("TASKLOCK_KEY")), lines(s.Env("TASKLOCK_NAME")), lines(s.Env("TASKLOCK_LEASE")), s.Env("TASKLOCK_TOKEN")}
}

func lines(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
}

// has reports whether the lease has all the keys.
func (e LeaseVariables) has(keys []string) bool {
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(k string) bool { return e.index(k) < 0 })
}

func (e LeaseVariables) index(key string) int {
	name, err := lease.CheckKey(key)
	if err != nil {
		return -1
	}
	if i := slices.Index(e.Keys, name); i >= 0 || len(e.names) != len(e.Keys) {
		return i
	}
	return slices.Index(e.names, name)
}

// Lease holds the keys; empty if they are in several.
func (e LeaseVariables) Lease(keys []string) string {
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

// Number is the token; 0 if there is none.
func (e LeaseVariables) Number() (int64, error) {
	if e.Token == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(e.Token, 10, 64)
	if err != nil || n <= 0 {
		return 0, Usagef("TASKLOCK_TOKEN: must be a positive number, not %q", term.Short(e.Token, 40))
	}
	return n, nil
}

// FenceOptions say which grant is meant: the store refuses the commands of a
// holder that was replaced. Under run both come from the environment.
type FenceOptions struct {
	Token   int64
	Latest  int64 // from the environment: the largest token of several keys
	Lease   string
	FromEnv bool // nobody gave a flag
}

// Flags adds them to a command.
func (o *FenceOptions) Flags(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&o.Token, "token", 0, "only if the lock has this token (also: TASKLOCK_TOKEN)")
	cmd.Flags().StringVar(&o.Lease, "lease", "", "the name of a lease; with keys: only if it holds them (also: TASKLOCK_LEASE)")
}

// Fill checks the flags, and takes missing ones from the environment if that is
// about these keys. There a lease and its token identify a grant: in another store
// the key may be at the same token.
func (o *FenceOptions) Fill(s *Session, cmd *cobra.Command, keys []string) error {
	if o.Token <= 0 && cmd.Flags().Changed("token") {
		return Usagef("--token: must be a positive number")
	}
	if o.Lease == "" && cmd.Flags().Changed("lease") {
		return Usagef("--lease: must not be empty")
	}
	env := s.LeaseEnv()
	if o.Token != 0 || o.Lease != "" || !env.has(keys) {
		return nil
	}
	token, err := env.Number()
	if err != nil {
		return err
	}
	o.FromEnv, o.Lease = true, env.Lease(keys)
	if len(env.Keys) == 1 {
		o.Token = token
	} else {
		o.Latest = token // the largest: the tokens of these keys may be older
	}
	return nil
}

// Target is what release and heartbeat are about: keys, one lease, or all.
type Target struct {
	FenceOptions
	All bool
}

// Flags adds them to a command.
func (t *Target) Flags(cmd *cobra.Command) {
	t.FenceOptions.Flags(cmd)
	cmd.Flags().BoolVar(&t.All, "all", false, "everything the owner holds")
}

// Check requires exactly one of the three. A lease with keys is a condition.
func (t *Target) Check(s *Session, cmd *cobra.Command, keys []string) error {
	if err := t.Fill(s, cmd, keys); err != nil {
		return err
	}
	given := 0
	for _, b := range []bool{len(keys) > 0, t.Lease != "" && len(keys) == 0, t.All} {
		if b {
			given++
		}
	}
	switch {
	case given == 0:
		return Usagef("needs keys, --lease NAME or --all")
	case given > 1 || t.All && t.Lease != "":
		return Usagef("takes only one of keys, --lease NAME and --all")
	case t.Token != 0 && len(keys) != 1:
		return Usagef("--token goes with exactly one key")
	}
	return nil
}
