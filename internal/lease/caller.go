package lease

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Models do not heartbeat. So every call of an owner counts as a heartbeat of
// what it and its parents hold, written when a third of the ttl has passed
// ([Caller]); and where calls may stay away for longer than that, a process of
// its own renews for as long as another one lives ([Keep]).

// A Caller is an owner whose calls count as heartbeats. Leases that belong to
// another process than the caller's renew themselves, or end with it: a call
// leaves them alone, except one of an earlier process of the same session that is
// provably gone. The session goes on in this process, and so does the lease; also
// one of the same session that names no process.
type Caller struct {
	Owner   string
	Process host.Process // of the session; zero: unknown
	Session string
	Late    bool // also for what has expired and nobody has taken: an agent was only silent
}

func (c Caller) Range() driver.Range {
	first, _, _ := strings.Cut(c.Owner, "/")
	return driver.Range{Prefix: leaseKind + first + "/", Limit: 100}
}

// Due returns the leases in a snapshot that want a heartbeat now.
func (c Caller) Due(snap driver.Snapshot) (names []string) {
	prefix := c.Range().Prefix
	for _, rec := range snap.Records {
		if !strings.HasPrefix(rec.Key, prefix) || slices.Contains(names, leaseName(rec.Key)) {
			continue
		}
		ls, err := store.DecodeAt[leaseRecord](snap.Now, rec)
		if err == nil && (c.wants(ls) || c.adopts(ls.Value)) { // what is damaged is for others to report
			names = append(names, leaseName(rec.Key))
		}
	}
	return names
}

func (c Caller) wants(ls store.Entry[leaseRecord]) bool {
	v := ls.Value
	return len(v.Keys) > 0 && MayUse(c.Owner, v.Owner) && ls.Age > v.ttl()/3 && (c.Late || ls.Age < v.ttl()) && (v.PID == 0 || v.Process == c.Process)
}

// adopts reports whether a lease of the session is to end with this process from now
// on: its own is gone, or it was taken where the process cannot be seen, as in a
// sandbox.
func (c Caller) adopts(v leaseRecord) bool {
	if len(v.Keys) == 0 || !MayUse(c.Owner, v.Owner) || c.Process.PID == 0 || c.Session == "" || v.Session != c.Session || v.Group != 0 {
		return false
	}
	if v.PID == 0 {
		return !v.endless() && !v.Attached
	}
	return v.Process != c.Process && v.gone()
}

// Renew renews those leases that still want it, each in a commit
// of its own: one that was lost does not matter to the others.
func (c Caller) Renew(ctx context.Context, st *store.Store, names []string) error {
	var failed error
	for _, name := range names {
		_, err := st.Update(ctx, driver.Query{Keys: []string{leaseKind + name}}, func(tx *store.Tx) error {
			ls, err := getLease(tx, name)
			if err != nil {
				return err
			}
			beat := heartbeat{by: c.Owner}
			switch {
			case c.adopts(ls.Value):
				beat.process = &c.Process
			case !c.wants(ls):
				return nil
			}
			_, err = beat.renew(tx, name)
			return err
		})
		if err != nil && !errors.Is(err, ErrLost) {
			failed = err
		}
	}
	return failed
}
