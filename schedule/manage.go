package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// ErrNotFound: there is no such job.
var ErrNotFound = errors.New("no such job")

// NotFoundError is ErrNotFound with the name.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("job %q: not found", e.Name) }

// Is makes it an ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// ExistsError: there is a job of that name.
type ExistsError struct{ Name string }

func (e *ExistsError) Error() string { return fmt.Sprintf("job %q exists already", e.Name) }

// update is [store.Store.Update], or with dry a look at what it would do.
func update(ctx context.Context, st *store.Store, dry bool, need driver.Query, fn func(*store.Tx) error) error {
	_, err := lease.UpdateOrLook(ctx, st, dry, need, fn)
	return err
}

// note writes a line of history, which also is the commit's receipt.
func note(tx *store.Tx, event, name, by string) error {
	return lease.Log(tx, lease.Event{Event: "job " + event, Keys: []string{lockPrefix + name}, Owner: by})
}

// remove deletes a job. A present run goes on; its end is still written.
func remove(tx *store.Tx, name, by string, force bool) (Change, error) {
	c := Change{Name: name, Action: "removed"}
	forced := func(err error) bool { return force && errors.Is(err, driver.ErrDamaged) }
	job, err := getJob(tx, name)
	if err != nil && !forced(err) {
		return c, err
	}
	due, err2 := getDue(tx, name)
	if err2 != nil && !forced(err2) {
		return c, err2
	}
	if !job.Exists() && err2 == nil {
		return c, &NotFoundError{name}
	}
	tx.Delete(jobKind + name)
	d := due.Value
	switch {
	case err2 != nil:
		d = dueRecord{}
	case err != nil: // what else was to run is not known
	default:
		c.dropped = d.dropped(job.Value, tx.Now().UTC(), true, "the job was removed before it ran")
	}
	d.Job, d.Triggers = name, nil
	d.setNext(job.Value, time.Time{})
	return c, errors.Join(putDue(tx, d), note(tx, "removed", name, by))
}

// ChangeRequest is about one job.
type ChangeRequest struct {
	Name   string
	By     string
	ID     string // Trigger: a repetition with this id, within a day, has one effect; empty: there is none
	DryRun bool
	Force  bool // Remove, Resume: also a job of which a record cannot be read
}

// Remove deletes a job. Its history stays for its usual time.
func Remove(ctx context.Context, st *store.Store, r ChangeRequest) error {
	if err := CheckName(r.Name); err != nil {
		return err
	}
	return update(ctx, st, r.DryRun, need(r.Name), func(tx *store.Tx) error {
		c, err := remove(tx, r.Name, r.By, r.Force)
		if err != nil {
			return err
		}
		return putSkipped(tx, c.dropped)
	})
}

// Pause keeps a job from firing until Resume. A present run goes on.
func Pause(ctx context.Context, st *store.Store, r ChangeRequest) (Info, error) {
	return r.pause(ctx, st, true)
}

// Resume lets a job fire again, from now on: the times between do not count as missed.
// With Force it also resumes a job whose due record is unreadable; triggers are lost
// then.
func Resume(ctx context.Context, st *store.Store, r ChangeRequest) (Info, error) {
	return r.pause(ctx, st, false)
}

func (r ChangeRequest) pause(ctx context.Context, st *store.Store, paused bool) (Info, error) {
	var out Info
	if err := CheckName(r.Name); err != nil {
		return out, err
	}
	err := update(ctx, st, r.DryRun, need(r.Name), func(tx *store.Tx) error {
		job, due, err := mustJob(tx, r.Name)
		var bad *DamagedError
		if !paused && r.Force && errors.As(err, &bad) && bad.Mend == "resume" && job.Name != "" {
			due, err = remake(tx, job)
		}
		if err != nil {
			return err
		}
		if job.Paused != paused || !paused && due.At == nil { // of a record that was damaged, and taken away
			cron, err := ParseCron(job.Cron, job.Zone)
			if err != nil {
				return job.wrong(err)
			}
			dropped := due.dropped(job, tx.Now().UTC(), false, "the job was paused before it ran")
			job.Paused, job.UpdatedAt = paused, tx.Now().UTC().Truncate(time.Microsecond)
			due.setNext(job, cron.Next(tx.Now()))
			event := "resumed"
			if paused {
				event = "paused"
			}
			if err := errors.Join(tx.Put(jobKind+job.Name, job), putDue(tx, due), note(tx, event, job.Name, r.By), putSkipped(tx, dropped)); err != nil {
				return err
			}
		}
		out = newInfo(job, due)
		return nil
	})
	return out, err
}

func mustJob(tx *store.Tx, name string) (Job, dueRecord, error) {
	job, err := getJob(tx, name)
	if err != nil {
		return Job{}, dueRecord{}, err
	}
	due, err := getDue(tx, name)
	if err == nil && !job.Exists() {
		err = &NotFoundError{name}
	}
	if !due.Exists() { // paused, nothing running
		due.Value = newDue(job.Value)
	}
	return job.Value, due.Value, err
}

// TriggerResult names the fire time that was made.
type TriggerResult struct {
	Job   string    `json:"job"`
	At    time.Time `json:"fireTime"`
	RunID string    `json:"runId"`

	Repeated bool `json:"repeated,omitempty"` // the same request made it before
}

// Trigger fires a job now, paused or not, by its own rules for overlap.
func Trigger(ctx context.Context, st *store.Store, r ChangeRequest) (TriggerResult, error) {
	var out TriggerResult
	id, err := lease.NewRepeatable(r.By, r.ID, "jobs trigger", r.Name)
	if err = cmp.Or(CheckName(r.Name), err); err != nil {
		return out, err
	}
	records := need(r.Name)
	records.Keys = append(records.Keys, id.Need()...)
	err = update(ctx, st, r.DryRun, records, func(tx *store.Tx) error {
		out = TriggerResult{}
		var err error
		if out.Repeated, err = id.Before(tx, &out); out.Repeated || err != nil {
			return err
		}
		job, due, err := mustJob(tx, r.Name)
		if err != nil {
			return err
		}
		if len(due.Triggers) >= MaxTriggers {
			return fmt.Errorf("%w: %d triggers of %s wait already", driver.ErrTooLarge, len(due.Triggers), r.Name)
		}
		at, err := due.firstFree(tx, tx.Began().UTC().Truncate(time.Millisecond)) // part of a key
		if err != nil {
			return err
		}
		due.Triggers = append(due.Triggers, trigger{At: at, By: r.By})
		out = TriggerResult{Job: job.Name, At: at, RunID: runID(job.Name, at)}
		return errors.Join(putDue(tx, due), note(tx, "triggered", job.Name, r.By), id.Keep(tx, out))
	})
	return out, err
}

// firstFree is the first millisecond from at on that is not yet a fire time of the job.
func (d dueRecord) firstFree(tx *store.Tx, at time.Time) (time.Time, error) {
	for ; ; at = at.Add(time.Millisecond) {
		if d.At != nil && d.At.Equal(at) || slices.ContainsFunc(d.Triggers, func(t trigger) bool { return t.At.Equal(at) }) {
			continue
		}
		if f, err := getFire(tx, d.Job, at); err != nil || !f.Exists() {
			return at, err
		}
	}
}

// difference compares what a person can set.
func difference(a, b Job) (fields []Field) {
	was, is := a.settings(), b.settings()
	for i := range was {
		if was[i][1] != is[i][1] {
			fields = append(fields, Field{Name: was[i][0], From: was[i][1], To: is[i][1]})
		}
	}
	return fields
}

// settings are what a person can set, by the names of the file.
func (j Job) settings() [][2]string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		env = append(env, name+"="+j.Env[name])
	}
	return [][2]string{
		{"cron", j.Cron},
		{"tz", j.Zone},
		{"command", words(j.Command)},
		{"dir", j.Dir},
		{"env", words(env)},
		{"pool", j.Pool},
		{"ttl", j.TTL.String()},
		{"max-run", j.MaxRun.String()},
		{"jitter", j.Jitter.String()},
		{"misfire", string(j.Misfire)},
		{"overlap", string(j.Overlap)},
		{"on-crash", string(j.OnCrash)},
		{"max-attempts", fmt.Sprint(j.MaxAttempts)},
		{"keep", fmt.Sprint(j.Keep)},
		{"keep-for", j.KeepFor.String()},
	}
}

// words shows a list so that two lists never look alike.
func words(list []string) string {
	var out []string
	for _, w := range list {
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$") {
			w = fmt.Sprintf("%q", w)
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}
