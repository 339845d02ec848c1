package schedule

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// PoolSizeError: there is no such pool. Its Size is 0.
type PoolSizeError = lease.PoolSizeError

// ApplyRequest adds and changes jobs: see [Apply].
type ApplyRequest struct {
	Jobs   []Job
	New    bool // refuse a name that exists
	Prune  bool // remove the jobs that are not among them
	By     string
	DryRun bool
}

// ApplyResult says what changed, by name.
type ApplyResult struct {
	Changes []Change `json:"changes"`
}

// Change is the change of one job.
type Change struct {
	Name   string     `json:"name"`
	Action string     `json:"action"` // added, changed, removed, unchanged
	Fields []Field    `json:"fields,omitempty"`
	Next   *time.Time `json:"next,omitempty"` // fire time
	Job    *Job       `json:"job,omitempty"`  // as it is now

	dropped []Fire // what was to run, and will not
}

func (r ApplyResult) dropped() (all []Fire) {
	for _, c := range r.Changes {
		all = append(all, c.dropped...)
	}
	return all
}

// Field is one difference.
type Field struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Apply adds and changes jobs. A job whose times change fires next at the first of
// its new times after now; one that is paused stays so. If a job names a pool that does
// not exist, the error is a [*PoolSizeError].
//
// What fits into one commit is all or none. More jobs take several commits, each job
// whole; everything that can be refused is refused before the first of them. If it
// is interrupted, the same request again completes it.
func Apply(ctx context.Context, st *store.Store, r ApplyRequest) (ApplyResult, error) {
	r, err := r.normal()
	if err != nil {
		return ApplyResult{}, err
	}
	out, err := ApplyResult{}, errBusy
	if len(r.Jobs) <= 2*manyJobs || r.DryRun {
		out, err = r.once(ctx, st, r.Jobs, r.most(math.MaxInt))
	}
	if tooMuch(err) {
		out, err = r.inSteps(ctx, st)
	}
	if err != nil {
		return ApplyResult{}, err
	}
	slices.SortFunc(out.Changes, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// normal validates the request and fills in the defaults of its jobs.
func (r ApplyRequest) normal() (ApplyRequest, error) {
	if len(r.Jobs) > MaxJobs {
		return r, fmt.Errorf("%w: %d jobs, at most %d", driver.ErrTooLarge, len(r.Jobs), MaxJobs)
	}
	seen := map[string]bool{}
	r.Jobs = slices.Clone(r.Jobs)
	for i, j := range r.Jobs {
		var err error
		if r.Jobs[i], err = j.normal(); err != nil {
			return r, err
		}
		if seen[j.Name] {
			return r, &lease.InvalidError{What: "job " + short(j.Name), Rule: "is defined twice"}
		}
		seen[j.Name] = true
	}
	return r, nil
}

const (
	manyJobs = 1000 // that fit into one commit, about
	fewJobs  = 30   // whose records a commit can guard each by itself
	patience = 20   // runs of one transaction before it is made smaller
)

// errBusy: others write so often that a commit with guards on whole kinds does not
// get through.
var errBusy = errors.New("too many jobs at once while others write")

// tooMuch reports whether fewer jobs may succeed.
func tooMuch(err error) bool { return errors.Is(err, driver.ErrTooLarge) || errors.Is(err, errBusy) }

// inSteps applies in as many commits as it takes. The removals come last.
func (r ApplyRequest) inSteps(ctx context.Context, st *store.Store) (out ApplyResult, err error) {
	dry := r
	dry.DryRun = true
	all, err := dry.once(ctx, st, r.Jobs, r.most(math.MaxInt))
	if err != nil {
		return out, err
	}
	size := max(fewJobs, min(len(all.Changes)/2, manyJobs))
	for rest := r.Jobs; len(rest) > 0 || r.Prune; {
		some, most := rest[:min(len(rest), size)], 0
		if len(some) == 0 {
			most = r.most(size)
		}
		part, err := r.once(ctx, st, some, most)
		switch {
		case tooMuch(err) && size > 1: // a single job may have many bytes
			size /= 2
			continue
		case err != nil && len(out.Changes) > 0:
			return out, fmt.Errorf("%d jobs are applied; the same command applies the rest: %w", len(out.Changes), err)
		case err != nil:
			return out, err
		}
		out.Changes = append(out.Changes, part.Changes...)
		if rest = rest[len(some):]; most > 0 && len(part.Changes) == 0 {
			break
		}
	}
	return out, nil
}

// most is how many of n jobs may be removed.
func (r ApplyRequest) most(n int) int {
	if !r.Prune {
		return 0
	}
	return n
}

// once applies some of the jobs in one commit, and removes at most most of those that
// are not in the request.
func (r ApplyRequest) once(ctx context.Context, st *store.Store, jobs []Job, most int) (out ApplyResult, err error) {
	runs := 0
	err = update(ctx, st, r.DryRun, needJobs(jobs, most > 0), func(tx *store.Tx) error {
		out = ApplyResult{Changes: []Change{}}
		if runs++; runs > patience && max(len(jobs), most) > fewJobs {
			return errBusy
		}
		for _, j := range jobs {
			c, err := r.apply(tx, j)
			if err != nil {
				return err
			}
			out.Changes = append(out.Changes, c)
		}
		if most > 0 {
			if err := r.prune(tx, most, &out); err != nil {
				return err
			}
		}
		return putSkipped(tx, out.dropped())
	})
	return out, err
}

func needJobs(jobs []Job, prune bool) (q driver.Query) {
	for _, j := range jobs {
		q.Keys = append(q.Keys, need(j.Name).Keys...)
		if j.Pool != "" {
			q.Keys = append(q.Keys, lease.NeedPool(j.pool()))
		}
	}
	if prune {
		q.Ranges = []driver.Range{{Prefix: jobKind}, {Prefix: dueKind}}
	}
	return q
}

func (r ApplyRequest) apply(tx *store.Tx, j Job) (Change, error) {
	old, err := getJob(tx, j.Name)
	if err != nil {
		return Change{}, err
	}
	due, err := getDue(tx, j.Name)
	if err != nil {
		return Change{}, err
	}
	if j.Pool != "" {
		if err := lease.MustPool(tx, j.pool()); err != nil {
			return Change{}, err
		}
	}
	now := tx.Now().UTC().Truncate(time.Microsecond)
	c := Change{Name: j.Name, Action: "added"}
	j.CreatedAt, j.UpdatedAt, j.By = now, now, r.By
	switch {
	case old.Exists() && r.New:
		return c, &ExistsError{j.Name}
	case old.Exists():
		j.CreatedAt, j.Paused = old.Value.CreatedAt, old.Value.Paused
		c.Action, c.Fields = "changed", difference(old.Value, j)
	}
	d := due.Value
	if len(c.Fields) == 0 && old.Exists() {
		c.Action, j = "unchanged", old.Value
	} else {
		d.Job, d.TTL, d.Handler = j.Name, j.TTL.Seconds(), len(j.Command) == 0
		if !old.Exists() || !old.Value.sameSchedule(j) {
			c.dropped = d.dropped(old.Value, now, false, "its times were changed before it ran")
			d.setNext(j, j.cron().Next(now))
		}
		d.Each, d.Pool = j.Overlap == OverlapAllow, j.pool()
		if err := errors.Join(tx.Put(jobKind+j.Name, j), putDue(tx, d), note(tx, c.Action, j.Name, r.By)); err != nil {
			return c, err
		}
	}
	c.Next, c.Job = d.At, &j
	return c, nil
}

// prune removes at most most jobs that are not in the request.
func (r ApplyRequest) prune(tx *store.Tx, most int, out *ApplyResult) error {
	recs, err := tx.Scan(jobKind, 0)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, j := range r.Jobs {
		keep[j.Name] = true
	}
	tx.GuardKind(jobKind)
	var names, keys []string
	for _, rec := range recs {
		if name := strings.TrimPrefix(rec.Key, jobKind); !keep[name] && len(names) < most {
			names, keys = append(names, name), append(keys, need(name).Keys...)
		}
	}
	if err := tx.Want(keys...); err != nil {
		return err
	}
	for _, name := range names {
		c, err := remove(tx, name, r.By, false)
		if err != nil {
			return err
		}
		out.Changes = append(out.Changes, c)
	}
	return nil
}
