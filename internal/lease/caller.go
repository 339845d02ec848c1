package lease

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Models do not send heartbeats. So every call of an owner counts as a heartbeat
// for what it and its parents hold, written when a third of the ttl has passed
// ([Caller]). If calls may stay away for longer, a separate process renews while
// another one lives ([Keep]).

// A Caller is an owner whose calls count as heartbeats. A call does not touch
// leases of another process than the caller's: that process renews them, or they
// end with it. There are two exceptions, both of the same session: a lease whose
// process is provably gone, and one without a process. The session goes on in
// this process, and so does the lease.
type Caller struct {
	Owner   string
	Process host.Process // of the session; zero: unknown
	Session string
	Late    bool // also renew expired leases that nobody has taken: an agent was only silent
}

func (c Caller) Range() driver.Range {
	first, _, _ := strings.Cut(c.Owner, "/")
	return driver.Range{Prefix: leaseKind + first + "/", Limit: 100}
}

// Due returns the leases in a snapshot that need a heartbeat now.
func (c Caller) Due(snap driver.Snapshot) (names []string) {
	prefix := c.Range().Prefix
	for _, rec := range snap.Records {
		if !strings.HasPrefix(rec.Key, prefix) || slices.Contains(names, leaseName(rec.Key)) || c.tooSoon(snap.Now, rec) {
			continue
		}
		ls, err := store.DecodeAt[leaseRecord](snap.Now, rec)
		if err == nil && (c.wants(ls) || c.adopts(ls.Value)) { // others report damage
			names = append(names, leaseName(rec.Key))
		}
	}
	return names
}

// tooSoon reports whether a lease cannot be due, by the little that is quick to read: an
// owner may hold a hundred leases, and each of its commands looks at all of them.
func (c Caller) tooSoon(now time.Time, rec driver.Record) bool {
	ls, err := store.DecodeAt[struct {
		TTL     float64 `json:"ttlSeconds"`
		Session string  `json:"session"`
	}](now, rec)
	return err == nil && ls.Age <= seconds(ls.Value.TTL)/3 && (c.Session == "" || ls.Value.Session != c.Session)
}

func (c Caller) wants(ls store.Entry[leaseRecord]) bool {
	v := ls.Value
	return len(v.Keys) > 0 && MayUse(c.Owner, v.Owner) && ls.Age > v.ttl()/3 && (c.Late || ls.Age < v.ttl()) && (v.PID == 0 || v.Process == c.Process)
}

// adopts reports whether a lease of the session will end with this process from
// now on: its own process is gone, or was not visible, as in a sandbox.
func (c Caller) adopts(v leaseRecord) bool {
	if len(v.Keys) == 0 || !MayUse(c.Owner, v.Owner) || c.Process.PID == 0 || c.Session == "" || v.Session != c.Session || v.Group != 0 {
		return false
	}
	if v.PID == 0 {
		return !v.endless() && !v.Attached
	}
	return v.Process != c.Process && v.gone()
}

// Renew renews the leases that still need it, each in its own commit: the loss of
// one does not matter to the others.
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
