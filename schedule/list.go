package schedule

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Info is a job with its fire times.
type Info struct {
	Job
	Next      *time.Time `json:"next"`      // none while paused
	Waiting   bool       `json:"waiting"`   // the next one waits for a run to end
	Triggered int        `json:"triggered"` // by hand, and not claimed yet
	Running   []Run      `json:"running"`
	Last      *Fire      `json:"last"` // that has ended, or was skipped; Show only
	shown     bool

	Schedulers []Pod `json:"schedulers"` // that can run it; Show only

	Damaged *DamagedError `json:"damaged,omitempty"` // why something is missing here; List only
}

// Run is a fire time whose command runs.
type Run struct {
	At      time.Time `json:"fireTime"`
	Attempt int       `json:"attempt"`
	Pod     string    `json:"pod"`
}

// MarshalJSON adds what Info has to its job: the job's own method would hide it.
func (i Info) MarshalJSON() ([]byte, error) {
	more := map[string]any{"next": i.Next, "waiting": i.Waiting, "triggered": i.Triggered, "running": i.Running}
	if i.shown {
		more["last"], more["schedulers"] = i.Last, i.Schedulers
	}
	if i.Damaged != nil {
		more["damaged"] = i.Damaged
	}
	return marshalJob(i.Job, more)
}

func newInfo(j Job, d dueRecord) Info {
	i := Info{Job: j, Next: d.At, Waiting: d.QueuedAt != nil, Triggered: len(d.Triggers), Running: []Run{}}
	for _, r := range d.Running {
		i.Running = append(i.Running, Run{At: r.At, Attempt: r.Attempt, Pod: podOf(r.Lease)})
	}
	return i
}

// ListResult holds jobs in the order of their names.
type ListResult struct {
	Jobs       []Info `json:"jobs"`
	Schedulers []Pod  `json:"schedulers"`
}

// List returns all jobs, even those with an unreadable record.
func List(ctx context.Context, st *store.Store) (ListResult, error) {
	var out ListResult
	err := dues(ctx, st, driver.Query{Ranges: []driver.Range{{Prefix: jobKind}, {Prefix: podKind}}}, func(tx *store.Tx, all dueList) (err error) {
		out = ListResult{Jobs: []Info{}}
		if out.Schedulers, err = pods(tx); err != nil {
			return err
		}
		jobs, err := tx.Scan(jobKind, 0)
		if err != nil {
			return err
		}
		due, bad := map[string]dueRecord{}, map[string]*DamagedError{}
		for _, d := range all.list {
			due[d.Value.Job] = d.Value
		}
		for _, d := range all.damaged {
			bad[d.Job] = d
		}
		for _, rec := range jobs {
			name := strings.TrimPrefix(rec.Key, jobKind)
			j, err := store.Decode[Job](tx, rec)
			i := newInfo(j.Value, due[name])
			i.Damaged = bad[name]
			if errors.As(damaged(name, "remove", err), &i.Damaged) {
				i.Job = Job{Name: name}
			}
			out.Jobs = append(out.Jobs, i)
			delete(bad, name)
		}
		for _, d := range all.damaged { // of jobs that were removed
			if bad[d.Job] != nil {
				out.Jobs = append(out.Jobs, Info{Job: Job{Name: d.Job}, Running: []Run{}, Damaged: d})
			}
		}
		return nil
	})
	return out, err
}

// Show returns one job with the last of its fire times.
func Show(ctx context.Context, st *store.Store, name string) (Info, error) {
	var out Info
	if err := CheckName(name); err != nil {
		return out, err
	}
	q := need(name)
	q.Ranges = []driver.Range{{Prefix: firePrefix(name), Limit: -20}, {Prefix: podKind}}
	err := st.View(ctx, q, func(tx *store.Tx) error {
		job, due, err := mustJob(tx, name)
		if err != nil {
			return err
		}
		fires, _, err := fires(tx, name, 20)
		if err != nil {
			return err
		}
		all, err := pods(tx)
		if err != nil {
			return err
		}
		out = newInfo(job, due)
		out.shown, out.Schedulers = true, Able(all, job)
		for _, f := range fires {
			if f.State != Claimed {
				out.Last = &f
				break
			}
		}
		return nil
	})
	return out, err
}

// fires returns the newest records of a job, newest first, and which of them
// cannot be read.
func fires(tx *store.Tx, name string, limit int) (list []Fire, bad []*DamagedError, err error) {
	recs, err := tx.Scan(firePrefix(name), -limit)
	if err != nil {
		return nil, nil, err
	}
	for _, rec := range recs {
		f, err := store.Decode[Fire](tx, rec)
		if err != nil {
			bad = append(bad, &DamagedError{Job: jobOf(rec.Key), Err: err})
			continue
		}
		if f.Value.State == Claimed {
			f.Value.Token = f.Rev // what a commit cannot know of itself
		}
		list = append(list, f.Value)
	}
	slices.SortStableFunc(list, func(a, b Fire) int { return b.At.Compare(a.At) })
	return list, bad, nil
}

// HistoryRequest selects records of fire times.
type HistoryRequest struct {
	Job   string // empty: of all jobs
	Limit int    // the newest so many; 0: 20
}

// HistoryResult holds them newest first, with sums over all that are kept.
type HistoryResult struct {
	Fires []Fire  `json:"fires"`
	Jobs  []Stats `json:"jobs"`

	Damaged []*DamagedError `json:"damaged,omitempty"` // what cannot be read, also of what is due
}

// Stats sums up the records of one job.
type Stats struct {
	Job     string   `json:"job"`
	Done    int      `json:"done"`
	Failed  int      `json:"failed"`
	Lost    int      `json:"lost"`
	Skipped int      `json:"skipped"`
	Running int      `json:"running"`
	Success *float64 `json:"successRate"` // of those that ended; none: nothing has
	Mean    float64  `json:"meanSeconds"` // of those that are done
}

// History returns the records of fire times.
func History(ctx context.Context, st *store.Store, r HistoryRequest) (HistoryResult, error) {
	if r.Limit < 0 {
		return HistoryResult{}, &lease.InvalidError{What: "limit", Rule: "must not be negative"}
	}
	if r.Job != "" {
		if err := CheckName(r.Job); err != nil {
			return HistoryResult{}, err
		}
	}
	q := driver.Query{Keys: []string{jobKind + orElse(r.Job, "-")}, Ranges: []driver.Range{{Prefix: firePrefix(r.Job)}}}
	out := HistoryResult{}
	err := dues(ctx, st, q, func(tx *store.Tx, due dueList) error {
		all, bad, err := fires(tx, r.Job, 0)
		if err != nil {
			return err
		}
		for _, d := range due.damaged {
			if r.Job == "" || r.Job == d.Job {
				bad = append(bad, d)
			}
		}
		if r.Job != "" && len(all)+len(bad) == 0 {
			if job, err := getJob(tx, r.Job); err != nil || !job.Exists() {
				return orElse(err, error(&NotFoundError{r.Job}))
			}
		}
		out = HistoryResult{Fires: append([]Fire{}, all[:min(len(all), orElse(r.Limit, 20))]...), Jobs: stats(all), Damaged: bad}
		return nil
	})
	return out, err
}

// stats sums up by job.
func stats(all []Fire) []Stats {
	byJob := map[string]*Stats{}
	list := []Stats{}
	for _, f := range all {
		s := byJob[f.Job]
		if s == nil {
			s = &Stats{Job: f.Job}
			byJob[f.Job] = s
		}
		switch f.State {
		case Done:
			s.Mean += f.Duration().Seconds()
			s.Done++
		case Failed:
			s.Failed++
		case Lost:
			s.Lost++
		case Skipped:
			s.Skipped += max(1, f.Count)
		case Claimed:
			s.Running++
		}
	}
	for _, s := range byJob {
		if n := s.Done + s.Failed + s.Lost; n > 0 {
			rate := float64(s.Done) / float64(n)
			s.Success = &rate
		}
		s.Mean /= float64(max(1, s.Done))
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Stats) int { return strings.Compare(a.Job, b.Job) })
	return list
}

// Times returns the next n fire times of a job, whether it is paused or not.
func Times(ctx context.Context, st *store.Store, name string, n int) (Job, []time.Time, error) {
	var job Job
	var times []time.Time
	if err := CheckName(name); err != nil {
		return job, nil, err
	}
	err := st.View(ctx, need(name), func(tx *store.Tx) error {
		var due dueRecord
		var err error
		if job, due, err = mustJob(tx, name); err != nil {
			return err
		}
		if _, err := ParseCron(job.Cron, job.Zone); err != nil {
			return job.wrong(err)
		}
		times = job.cron().Times(tx.Now(), n)
		if due.At != nil && (len(times) == 0 || due.At.Before(times[0])) { // it has come, and may still run
			times = append([]time.Time{*due.At}, times...)[:max(1, min(n, len(times)+1))]
		}
		return nil
	})
	return job, times, err
}

// Times returns the next n fire times after t.
func (c Cron) Times(t time.Time, n int) []time.Time {
	times := []time.Time{}
	for t = c.Next(t); len(times) < n && !t.IsZero(); t = c.Next(t) {
		times = append(times, t)
	}
	return times
}
