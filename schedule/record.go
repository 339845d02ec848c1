package schedule

import (
	"errors"
	"hash/fnv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// The kinds of records of this package, and the prefix of its locks.
const (
	jobKind    = "job/"
	dueKind    = "due/"
	fireKind   = "fire/"
	lockPrefix = string(lease.Job) + ":"
)

// dueRecord is what a pod must know about a job to sleep: when it fires next, what
// waits, and what runs. This kind is a pod's whole view.
type dueRecord struct {
	Job      string      `json:"job"`
	At       *time.Time  `json:"at,omitempty"`       // the next fire time; none while paused
	Start    *time.Time  `json:"startAt,omitempty"`  // when it may be claimed, where jitter makes that later
	QueuedAt *time.Time  `json:"queuedAt,omitempty"` // since when it waits for the run before it, or for a slot
	TTL      float64     `json:"ttlSeconds"`         // of the lease
	Handler  bool        `json:"handler,omitempty"`  // no command: for programs that know the job
	Each     bool        `json:"each,omitempty"`     // runs may overlap: each has a lock of its own
	Pool     string      `json:"pool,omitempty"`     // the key of the pool whose slots its runs need
	Triggers []trigger   `json:"triggers,omitempty"`
	Running  []runRecord `json:"running,omitempty"`
}

// trigger is a fire time that a person asked for.
type trigger struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
}

// runRecord is a fire time that was claimed and has not ended.
type runRecord struct {
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Lease   string    `json:"lease"`
	Key     string    `json:"key"` // of its lock
}

// Check tells a damaged record from one that says something.
func (d dueRecord) Check(key string) error {
	if key != dueKind+d.Job {
		return errors.New("nothing due for that job")
	}
	return nil
}

// full reports whether there is no room for another run: all of them are in this
// record.
func (d dueRecord) full(runs int) bool {
	const room = driver.MaxValue * 3 / 4 // names may be long
	if runs < MaxRuns/4 {
		return false
	}
	b, err := store.Encode(dueKind+d.Job, d)
	return runs >= MaxRuns || err == nil && len(b) > room
}

// newDue is the due record of a job that has no fire time yet.
func newDue(j Job) dueRecord {
	return dueRecord{Job: j.Name, TTL: j.TTL.Seconds(), Handler: len(j.Command) == 0, Each: j.Overlap == OverlapAllow, Pool: j.pool()}
}

func (d dueRecord) empty() bool { return d.At == nil && len(d.Triggers)+len(d.Running) == 0 }

// start is when the next fire time may be claimed.
func (d dueRecord) start() time.Time {
	if d.Start != nil {
		return *d.Start
	}
	return *d.At
}

// isDue reports whether the next fire time may be claimed.
func (d dueRecord) isDue(now time.Time) bool { return d.At != nil && !now.Before(d.start()) }

// dropped are the records of fire times that were due up to now and will never run.
func (d dueRecord) dropped(j Job, now time.Time, triggers bool, why string) []Fire {
	var p plan
	if d.At != nil && !now.Before(*d.At) {
		j.Jitter = 0 // that a start was still to come does not matter
		list, count := between(j, j.cron(), *d.At, now, 1)
		p.skipRange(j, *d.At, list[0], count, why)
	}
	for _, t := range d.Triggers {
		if triggers {
			p.skipRange(j, t.At, t.At, 1, why)
			p.records[len(p.records)-1].By = t.By
		}
	}
	return p.records
}

// setNext makes at the next fire time.
func (d *dueRecord) setNext(j Job, at time.Time) {
	d.At, d.Start, d.QueuedAt = nil, nil, nil
	if at.IsZero() || j.Paused {
		return
	}
	d.At = &at
	if start := j.start(at); start.After(at) {
		d.Start = &start
	}
}

// key is the lock of a run that begins now.
func (d dueRecord) key(at time.Time) string {
	if d.Each {
		return lockPrefix + d.Job + "@" + timeKey(at)
	}
	return lockPrefix + d.Job
}

// start is when a fire time may be claimed.
func (j Job) start(at time.Time) time.Time {
	if j.Jitter <= 0 {
		return at
	}
	return j.startIn(j.cron(), at)
}

// startIn is start for a caller with the table. A fire time starts before the next one
// comes, however large the jitter is: a job has one next fire time, and the one after
// it would be late before it could be claimed.
func (j Job) startIn(c Cron, at time.Time) time.Time {
	if j.Jitter <= 0 {
		return at
	}
	room := j.Jitter + 1
	if next := c.Next(at); !next.IsZero() {
		room = min(room, next.Sub(at))
	}
	return at.Add(time.Duration(fireHash(j.Name, at) % uint64(room)).Truncate(time.Millisecond))
}

// fireHash is a number that belongs to a fire time.
func fireHash(job string, at time.Time) uint64 {
	h := fnv.New64a()
	h.Write([]byte(runID(job, at)))
	x := h.Sum64() // neighbours differ in their last bits only: mix
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}

// State of a fire time.
type State string

// The states. All but Claimed are final.
const (
	Claimed State = "claimed" // a pod has it
	Done    State = "done"
	Failed  State = "failed"  // the command ended with another code than 0, was stopped, or did not start
	Lost    State = "lost"    // its pod died, or lost the lease: how far it came is not known
	Skipped State = "skipped" // why says why
)

// Fire is the record of one fire time; a handler gets it.
type Fire struct {
	Job       string     `json:"job"`
	At        time.Time  `json:"fireTime"`
	RunID     string     `json:"runId"` // the same for every attempt: a key for idempotence
	State     State      `json:"state"`
	Why       string     `json:"why,omitempty"`
	Attempt   int        `json:"attempt,omitempty"`
	Pod       string     `json:"pod,omitempty"`
	Lease     string     `json:"lease,omitempty"`
	Token     int64      `json:"token,omitempty"`
	Slot      int        `json:"slot,omitempty"` // of the job's pool
	By        string     `json:"triggeredBy,omitempty"`
	ClaimedAt *time.Time `json:"claimedAt,omitempty"`
	EndedAt   *time.Time `json:"endedAt,omitempty"`
	ExitCode  *int       `json:"exitCode,omitempty"`
	Output    string     `json:"output,omitempty"` // the last lines

	// A record of skipped fire times may stand for several in a row.
	Count int        `json:"count,omitempty"`
	Until *time.Time `json:"until,omitempty"`
}

// Check tells a damaged record from one that says something.
func (f Fire) Check(key string) error {
	if f.Job == "" || key != fireKey(f.Job, f.At) || f.State == "" {
		return errors.New("no fire of that job and time")
	}
	return nil
}

// Duration is how long it ran.
func (f Fire) Duration() time.Duration {
	if f.ClaimedAt == nil || f.EndedAt == nil {
		return 0
	}
	return f.EndedAt.Sub(*f.ClaimedAt)
}

// timeKey is a fire time in keys and run ids; the order of the text is that of time.
func timeKey(at time.Time) string { return at.UTC().Format("20060102T150405.000Z") }

// firePrefix is the prefix of the records of a job's fire times; of all jobs for "".
func firePrefix(job string) string {
	if job == "" {
		return fireKind
	}
	return fireKind + job + "/"
}

// jobOf is the job of a record of a fire time.
func jobOf(fireKey string) string {
	job, _, _ := strings.Cut(strings.TrimPrefix(fireKey, fireKind), "/")
	return job
}

func fireKey(job string, at time.Time) string { return firePrefix(job) + timeKey(at) }

func runID(job string, at time.Time) string { return job + "@" + timeKey(at) }

func getJob(tx *store.Tx, name string) (store.Entry[Job], error) {
	e, err := store.Get[Job](tx, jobKind+name)
	return e, damaged(name, "remove", err)
}

func getDue(tx *store.Tx, name string) (store.Entry[dueRecord], error) {
	e, err := store.Get[dueRecord](tx, dueKind+name)
	return e, damaged(name, "resume", err)
}

func getFire(tx *store.Tx, name string, at time.Time) (store.Entry[Fire], error) {
	return store.Get[Fire](tx, fireKey(name, at))
}

func putFire(tx *store.Tx, f Fire) error { return tx.Put(fireKey(f.Job, f.At), f) }

// putDue writes the due record, or deletes it when nothing is due.
func putDue(tx *store.Tx, d dueRecord) error {
	if d.empty() {
		tx.Delete(dueKind + d.Job)
		return nil
	}
	return tx.Put(dueKind+d.Job, d)
}
