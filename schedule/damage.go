package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// DamagedError: a record of a job cannot be read. Unless it is that of a fire time,
// the job does not fire until somebody repairs it; the others do.
type DamagedError struct {
	Job  string
	Mend string // "resume" or "remove": with Force that mends it; empty: neither does
	Err  error  // a driver.ErrDamaged
}

func (e *DamagedError) Error() string { return fmt.Sprintf("job %q: %v", e.Job, e.Err) }

// warning is its line in the log.
func (e *DamagedError) warning() string {
	return fmt.Sprintf("Not firing: %v; next: tasklock doctor", e)
}

// MarshalText is the error in JSON.
func (e *DamagedError) MarshalText() ([]byte, error) { return []byte(e.Error()), nil }

// Unwrap makes it a driver.ErrDamaged.
func (e *DamagedError) Unwrap() error { return e.Err }

// damaged adds the name of a job to an error that is damage.
func damaged(name, mend string, err error) error {
	var known *DamagedError
	if !errors.Is(err, driver.ErrDamaged) || errors.As(err, &known) {
		return err
	}
	return &DamagedError{Job: name, Mend: mend, Err: err}
}

// dueList is what is due, and the jobs whose record cannot be read.
type dueList struct {
	list    []store.Entry[dueRecord]
	damaged []*DamagedError
}

// dues runs fn on all that is due in one view, together with what need names. If
// something cannot be read, by us or by the driver, fn runs on the other jobs: one
// damaged record stops its own job and no other.
func dues(ctx context.Context, st *store.Store, need driver.Query, fn func(*store.Tx, dueList) error) error {
	q := need
	q.Ranges = append([]driver.Range{{Prefix: dueKind}}, need.Ranges...)
	err := st.View(ctx, q, func(tx *store.Tx) error {
		list, err := store.All[dueRecord](tx, dueKind)
		if err != nil {
			return err
		}
		return fn(tx, dueList{list: list})
	})
	if !errors.Is(err, driver.ErrDamaged) {
		return err
	}
	jobs, e := names(ctx, st, jobKind)
	if e != nil {
		return err
	}
	all := jobs
	if rest, e := names(ctx, st, dueKind); e == nil { // what still runs of jobs that were removed
		all = slices.Compact(slices.Sorted(slices.Values(append(rest, jobs...))))
	}
	some := func(names []string, bad []*DamagedError) error {
		q := driver.Query{Keys: slices.Clone(need.Keys), Ranges: need.Ranges}
		for _, name := range names {
			q.Keys = append(q.Keys, dueKind+name)
		}
		return st.View(ctx, q, func(tx *store.Tx) error {
			part := dueList{damaged: bad}
			for _, name := range names {
				d, err := getDue(tx, name)
				if err != nil {
					return err
				}
				if d.Exists() {
					part.list = append(part.list, d)
				}
			}
			return fn(tx, part)
		})
	}
	if err := some(nil, nil); err != nil {
		return err // it is not about jobs
	}
	good, bad, err := sound(all, func(names []string) error { return some(names, nil) })
	if err != nil {
		return err
	}
	for _, b := range bad {
		if b.Mend == "resume" && !slices.Contains(jobs, b.Job) {
			b.Mend = "remove"
		}
	}
	return some(good, bad)
}

// names lists a kind without reading its records.
func names(ctx context.Context, st *store.Store, kind string) (list []string, err error) {
	err = st.View(ctx, driver.Query{Ranges: []driver.Range{{Prefix: kind}}}, func(tx *store.Tx) error {
		list = nil
		recs, err := tx.Scan(kind, 0)
		for _, rec := range recs {
			list = append(list, strings.TrimPrefix(rec.Key, kind))
		}
		return err
	})
	return list, err
}

// sound separates the jobs that can be read from those that cannot.
func sound(names []string, look func([]string) error) (good []string, bad []*DamagedError, err error) {
	err = look(names)
	var one *DamagedError
	switch {
	case err == nil:
		return names, nil, nil
	case !errors.Is(err, driver.ErrDamaged):
		return nil, nil, err
	case len(names) == 1:
		errors.As(damaged(names[0], "", err), &one)
		return nil, []*DamagedError{one}, nil
	}
	for _, half := range [][]string{names[:len(names)/2], names[len(names)/2:]} {
		g, b, err := sound(half, look)
		if err != nil {
			return nil, nil, err
		}
		good, bad = append(slices.Clip(good), g...), append(bad, b...)
	}
	return good, bad, nil
}

// remake is a new due record of a job whose own is lost: nothing is due yet, and the
// records of its fire times show what runs. Triggers are lost.
func remake(tx *store.Tx, j Job) (dueRecord, error) {
	d := newDue(j)
	recs, err := tx.Scan(firePrefix(j.Name), 0)
	if err != nil {
		return d, err
	}
	for _, rec := range recs {
		if f, err := store.Decode[Fire](tx, rec); err != nil || f.Value.State != Claimed {
			continue
		}
		f, err := store.Get[Fire](tx, rec.Key) // its end may be on its way
		if err != nil {
			return d, err
		}
		r := runRecord{At: f.Value.At, Attempt: f.Value.Attempt, Lease: f.Value.Lease, Key: d.key(f.Value.At)}
		other := d
		other.Each = !d.Each // how runs are locked may have changed since
		lk, err := lease.Look(tx, other.key(r.At))
		if err != nil {
			return d, err
		}
		if lk != nil && lk.LeaseID == r.Lease {
			r.Key = lk.Key
		}
		d.Running = append(d.Running, r)
	}
	return d, nil
}
