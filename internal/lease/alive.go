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

// Models do not heartbeat. So every call of an owner counts as a sign of life
// of what it and its parents hold, written when a third of the ttl has passed
// ([Life]); and where calls may stay away for longer than that, a process of
// its own renews for as long as another one lives ([Keep]).

// Life is whose calls count as signs of life. Leases that belong to another
// process than the caller's renew themselves, or end with it: they are left
// alone, except one of an earlier process of the same session that is
// provably gone. The session goes on in this process, and so does the lease; also
// one of the same session that names no process.
type Life struct {
	Owner   string
	Process host.Process // of the session; zero: unknown
	Session string
	Late    bool // also of what has expired and nobody has taken: an agent was only silent
}

// Range is what to read for [Life.Due], along with something else. It is
// bounded: who has more leases than that is no model, and can heartbeat.
func (l Life) Range() driver.Range {
	first, _, _ := strings.Cut(l.Owner, "/")
	return driver.Range{Prefix: leaseKind + first + "/", Limit: 100}
}

// Due returns the leases in a snapshot that want a sign of life now.
func (l Life) Due(snap driver.Snapshot) (names []string) {
	prefix := l.Range().Prefix
	for _, rec := range snap.Records {
		if !strings.HasPrefix(rec.Key, prefix) || slices.Contains(names, rec.Key[len(leaseKind):]) {
			continue
		}
		ls, err := store.DecodeAt[leaseRecord](snap.Now, rec)
		if err == nil && (l.wants(ls) || l.adopts(ls.Value)) { // what is damaged is for others to report
			names = append(names, rec.Key[len(leaseKind):])
		}
	}
	return names
}

func (l Life) wants(ls store.Entry[leaseRecord]) bool {
	v := ls.Value
	return len(v.Keys) > 0 && usable(v.Owner, l.Owner) && ls.Age > v.ttl()/3 && (l.Late || ls.Age < v.ttl()) && (v.PID == 0 || v.Process == l.Process)
}

// adopts reports whether a lease of the session is to end with this process from now
// on: its own is gone, or it was taken where the process cannot be seen, as in a
// sandbox.
func (l Life) adopts(v leaseRecord) bool {
	if len(v.Keys) == 0 || !usable(v.Owner, l.Owner) || l.Process.PID == 0 || l.Session == "" || v.Session != l.Session || v.Group != 0 {
		return false
	}
	if v.PID == 0 {
		return !v.endless() && !v.Attached
	}
	return v.Process != l.Process && v.gone()
}

// Renew gives those leases that still want it a sign of life, each in a commit
// of its own: one that was lost does not matter to the others.
func (l Life) Renew(ctx context.Context, st *store.Store, names []string) error {
	var failed error
	for _, name := range names {
		_, err := st.Update(ctx, driver.Query{Keys: []string{leaseKind + name}}, func(tx *store.Tx) error {
			ls, err := getLease(tx, name)
			if err != nil {
				return err
			}
			beat := heartbeat{by: l.Owner}
			switch {
			case l.adopts(ls.Value):
				beat.process = &l.Process
			case !l.wants(ls):
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

// Keep renews a lease for as long as a process lives, and gives it back when
// that has ended, if it still lives with that one: its owner may have tied it
// to another process since, and who keeps a parent's lease does not end it. It returns when the lease has ended, by whatever means, or
// with ctx. What the store says and can pass is asked again: a late renewal
// counts while nobody else has taken over.
func Keep(ctx context.Context, st *store.Store, lease string, p host.Process) error {
	owner := leaseOwner(lease)
	for {
		if ended(p) {
			r := release{ReleaseRequest: ReleaseRequest{Owner: owner, Lease: lease, Reason: "its process has ended"}, process: &p, leave: true}
			_, err := r.run(ctx, st)
			return err
		}
		next, guards, err := keepOnce(ctx, st, owner, lease)
		switch {
		case errors.Is(err, ErrLost):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !store.MayPass(err):
			return err
		case err != nil:
			next = time.Second
		}
		if err := keepWatch(ctx, st, p, guards, next); err != nil {
			return err
		}
	}
}

// keepWatch returns when the process has ended, the locks have changed, or the
// time is over. The store is asked as seldom as it can be.
func keepWatch(ctx context.Context, st *store.Store, p host.Process, guards []driver.Guard, next time.Duration) error {
	watch := leaseRecord{Process: p}
	for until := time.Now().Add(next); !ended(p) && time.Now().Before(until); {
		left := time.Until(until)
		if !watch.watchable() { // its death cannot be proved, only seen
			left = min(left, time.Second)
		}
		if err := pauseFor(ctx, st, []blocker{{guards: guards, lease: watch, ends: left}}, left); err != nil {
			return err
		}
		if len(guards) == 0 || changed(ctx, st, guards) {
			return nil
		}
	}
	return nil
}

// ended is weaker than proof: whoever keeps a lease for a process runs beside
// it, so that no answer about it from here means that it is gone.
func ended(p host.Process) bool {
	now, err := host.Find(p.PID)
	return err != nil || now.Start != p.Start
}

// keepOnce renews, and says when to do so again unless the locks change.
func keepOnce(ctx context.Context, st *store.Store, owner, lease string) (next time.Duration, guards []driver.Guard, err error) {
	_, err = st.Update(ctx, driver.Query{Keys: []string{leaseKind + lease}}, func(tx *store.Tx) error {
		l, err := heartbeat{by: owner}.renew(tx, lease)
		if err != nil {
			return err
		}
		next, guards = l.window/3, nil
		for _, key := range l.Keys {
			lk, err := getLock(tx, key)
			if err != nil {
				return err
			}
			guards = append(guards, driver.Guard{Key: lk.Key, Rev: lk.Rev})
		}
		return nil
	})
	return max(next, MinTTL/3), guards, err
}

// changed reports whether a guard does not hold any more: a wait may end early.
func changed(ctx context.Context, st *store.Store, guards []driver.Guard) bool {
	var keys []string
	for _, g := range guards {
		keys = append(keys, g.Key)
	}
	found := false
	err := st.View(ctx, driver.Query{Keys: keys}, func(tx *store.Tx) error {
		found = false
		for _, g := range guards {
			lk, err := store.Get[lockRecord](tx, g.Key)
			if err != nil {
				return err
			}
			found = found || lk.Rev != g.Rev
		}
		return nil
	})
	return err == nil && found
}
