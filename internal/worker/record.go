package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/presence"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// Others see a runner by its record, also while it is idle, and write there what
// they ask of it.
const runnerKind = "runner/"

type runnerRecord struct {
	presence.Record
	ID      string `json:"id,omitempty"` // of this start of it
	Owner   string `json:"owner"`
	Section string `json:"section,omitempty"`
	Label   string `json:"label,omitempty"`
	Pool    string `json:"pool,omitempty"`
	StopBy  string `json:"stopBy,omitempty"` // who asked it to stop
	Woken   int    `json:"woken,omitempty"`  // how often somebody asked it to look again
}

// Stays reports whether a record belongs to a runner. When the records of a
// store move, its runners do not move with them.
func Stays(key string) bool { return driver.Kind(key) == runnerKind }

func (r runnerRecord) put(tx *store.Tx) error {
	return presence.Put(tx, runnerKind, r.Record, r)
}

// RunningError: there is a runner of that name.
type RunningError struct {
	Name, Host string
	PID        int
}

func (e *RunningError) Error() string {
	return fmt.Sprintf("runner %s: runs already, as process %d on %s", e.Name, e.PID, e.Host)
}

// register writes the record, and deletes those of runners that are gone.
func (w *worker) register(ctx context.Context) error {
	rev, err := w.st.Update(ctx, driver.Query{Ranges: []driver.Range{{Prefix: runnerKind}}}, func(tx *store.Tx) error {
		if err := presence.Sweep(tx, runnerKind, 0); err != nil {
			return err
		}
		old, err := store.Get[runnerRecord](tx, runnerKind+w.o.Name)
		if err != nil {
			return err
		}
		switch {
		case old.Exists() && old.Value.ID == w.id: // written by us: the reply was lost
			return nil
		case old.Exists() && !old.Value.Over(old.Age):
			return &RunningError{Name: w.o.Name, Host: old.Value.Host, PID: old.Value.PID}
		}
		return w.record(tx.Now().UTC()).put(tx)
	})
	w.rev.Store(rev)
	return err
}

func (w *worker) record(since time.Time) runnerRecord {
	return runnerRecord{Record: presence.Here(w.o.Name, since, w.o.TTL), ID: w.id, Owner: w.owner, Section: w.o.Section, Label: w.o.Label, Pool: w.poolName()}
}

// keepRecord keeps the record alive and hears what others write there.
func (w *worker) keepRecord(ctx context.Context) {
	beat := w.o.TTL / 3
	for ctx.Err() == nil {
		wctx, cancel := context.WithTimeout(ctx, beat)
		err := w.st.Wait(wctx, []driver.Guard{w.untouched()})
		if err != nil && wctx.Err() == nil {
			<-wctx.Done() // the store cannot wait now
		}
		cancel()
		if ctx.Err() == nil {
			w.readRecord(ctx, beat)
		}
	}
}

// readRecord reads the record, and renews it when it is time.
func (w *worker) readRecord(ctx context.Context, beat time.Duration) {
	key := runnerKind + w.o.Name
	var stopBy string
	var read int64
	rev, err := w.st.Update(ctx, driver.Query{Keys: []string{key}}, func(tx *store.Tx) error {
		e, err := store.Get[runnerRecord](tx, key)
		if err != nil {
			return err
		}
		read, stopBy = e.Rev, e.Value.StopBy
		switch {
		case !e.Exists():
			read = 0
			return w.record(tx.Now().UTC()).put(tx)
		case !e.Value.Mine(): // taken for dead, and replaced
			return nil
		case e.Age > beat*9/10:
			read = 0
			return e.Value.put(tx)
		}
		return nil
	})
	if err != nil {
		w.pause(0)
		return
	}
	if read != 0 {
		rev = read
	}
	w.rev.Store(rev)
	if stopBy != "" && w.Soft.Err() == nil {
		w.say(LogEntry{Event: "stopping"}, "Stopping: %s asked for it", stopBy)
		w.Stop()
	}
}

// Info is a runner as others see it.
type Info struct {
	Name        string      `json:"name"`
	Owner       string      `json:"owner"`
	State       string      `json:"state"` // working, idle, stopping, dead, silent
	Host        string      `json:"host"`
	PID         int         `json:"pid"`
	Since       time.Time   `json:"since"`
	HeartbeatAt time.Time   `json:"heartbeatAt"`
	Section     string      `json:"section,omitempty"` // all that it works in
	Label       string      `json:"label,omitempty"`
	Pool        string      `json:"pool,omitempty"` // whose slots its commands need
	Tasks       []task.Task `json:"tasks"`          // in its hands
}

// ListResult holds runners by name.
type ListResult struct {
	Runners []Info `json:"runners"`
}

// List returns the runners, those too that died without a word.
func List(ctx context.Context, st *store.Store) (ListResult, error) {
	out := ListResult{Runners: []Info{}}
	err := st.View(ctx, driver.Query{Ranges: []driver.Range{{Prefix: runnerKind}}}, func(tx *store.Tx) error {
		out.Runners = out.Runners[:0]
		all, err := store.All[runnerRecord](tx, runnerKind)
		for _, e := range all {
			out.Runners = append(out.Runners, newInfo(e))
		}
		return err
	})
	if err != nil || len(out.Runners) == 0 {
		return out, err
	}
	working, err := task.List(ctx, st, task.ListRequest{Status: []task.Status{task.InProgress}})
	for i := range out.Runners {
		r := &out.Runners[i]
		for _, t := range working.Tasks {
			if lease.MayUse(t.ClaimedBy, r.Owner) {
				r.Tasks = append(r.Tasks, t.Task)
			}
		}
		if r.State == "idle" && len(r.Tasks) > 0 {
			r.State = "working"
		}
	}
	return out, err
}

func newInfo(e store.Entry[runnerRecord]) Info {
	r := e.Value
	i := Info{
		Name: r.Name, Owner: r.Owner, State: "idle", Host: r.Host, PID: r.PID, Since: r.Since,
		HeartbeatAt: e.Time.UTC(), Section: r.Section, Label: r.Label, Pool: r.Pool, Tasks: []task.Task{},
	}
	switch state := r.State(e.Age); {
	case state != "":
		i.State = state
	case r.StopBy != "":
		i.State = "stopping"
	}
	return i
}

// StopRequest asks runners to stop, as SIGTERM does.
type StopRequest struct {
	Name   string // empty: all
	By     string
	DryRun bool
}

// StopResult names the runners that were asked.
type StopResult struct {
	Asked []string `json:"asked"`
}

// Stop asks runners to stop; they do so in their own time. One that is named
// and does not run is a [lease.ErrNotFound].
func Stop(ctx context.Context, st *store.Store, r StopRequest) (StopResult, error) {
	out := StopResult{}
	err := changeRunning(ctx, st, r.Name, r.DryRun, &out.Asked, func(rec *runnerRecord) { rec.StopBy = r.By })
	if err == nil && r.Name != "" && len(out.Asked) == 0 {
		err = &task.NotFoundError{What: "runner", Ref: r.Name}
	}
	return out, err
}

// changeRunning changes the records of the runners that run.
func changeRunning(ctx context.Context, st *store.Store, name string, dry bool, changed *[]string, change func(*runnerRecord)) error {
	need := driver.Query{Ranges: []driver.Range{{Prefix: runnerKind}}}
	fn := func(tx *store.Tx) error {
		*changed = []string{}
		recs, err := tx.Scan(runnerKind, 0)
		if err != nil {
			return err
		}
		for _, rec := range recs {
			e, err := store.Get[runnerRecord](tx, rec.Key)
			if err != nil {
				return err
			}
			if e.Value.Over(e.Age) || name != "" && e.Value.Name != name {
				continue
			}
			*changed = append(*changed, e.Value.Name)
			change(&e.Value)
			if err := e.Value.put(tx); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := lease.UpdateOrLook(ctx, st, dry, need, fn)
	return err
}

// WakeupRequest recovers what dead and silent workers left behind.
type WakeupRequest struct {
	By     string
	DryRun bool
}

// WakeupResult tells what was recovered and whom it woke.
type WakeupResult struct {
	Recovered []task.Info `json:"recovered"` // as they were
	Woken     []string    `json:"woken"`
}

// Wakeup releases the tasks whose holder is dead or silent, of whatever kind
// it was, and lets every runner look again. None of this is ever needed:
// whoever looks for work takes such tasks over.
func Wakeup(ctx context.Context, st *store.Store, r WakeupRequest) (WakeupResult, error) {
	out := WakeupResult{Recovered: []task.Info{}}
	stalled, err := task.List(ctx, st, task.ListRequest{Stalled: true})
	if err != nil {
		return out, err
	}
	for _, t := range stalled.Tasks {
		_, err := task.ChangeStatus(ctx, st, task.StatusRequest{
			Verb: task.Unclaim, Tasks: []string{t.ID}, Owner: r.By, Reason: "its holder is " + string(t.Lock.State), DryRun: r.DryRun,
		})
		var owner *lease.OwnerError
		var state *task.StateError
		switch {
		case errors.As(err, &owner), errors.As(err, &state), errors.Is(err, lease.ErrNotFound), errors.Is(err, lease.ErrLost):
			continue // someone was faster
		case err != nil:
			return out, err
		}
		out.Recovered = append(out.Recovered, t)
	}
	return out, changeRunning(ctx, st, "", r.DryRun, &out.Woken, func(rec *runnerRecord) { rec.Woken++ })
}
