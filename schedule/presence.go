package schedule

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/presence"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A scheduler has a record, because a waiting one holds no lock, and jobs that nobody
// fires would look healthy.
const (
	podKind = "pod/"
	podTTL  = 5 * time.Minute
	podBeat = podTTL / 3
)

type podRecord struct {
	presence.Record
	Commands bool     `json:"commands,omitempty"` // it runs the jobs that have a command,
	Handlers []string `json:"handlers,omitempty"` // and these
}

// maxHandlers is how many handlers a record names. One with more counts as
// able to do everything.
const maxHandlers = 200

// Pod is a scheduler as others see it.
type Pod struct {
	Name        string    `json:"name"`
	State       string    `json:"state"` // running, dead, silent
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	Since       time.Time `json:"since"`
	HeartbeatAt time.Time `json:"heartbeatAt"`
	Commands    bool      `json:"commands"`           // it runs the jobs that have a command
	Handlers    []string  `json:"handlers,omitempty"` // jobs that it runs by itself
}

// Stays reports whether a record belongs to a scheduler. When the records of a
// store move, its schedulers do not move with them.
func Stays(key string) bool { return driver.Kind(key) == podKind }

// announce shows others that this pod runs, until the end. The pod fires even if its
// record cannot be written. A pod that runs once has no record.
func (p *pod) announce() (leave func()) {
	if p.o.Once {
		return func() {}
	}
	since := time.Now().UTC()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p.Soft.Err() == nil {
			beat := podBeat
			if p.putRecord(since) != nil {
				beat = min(beat, 10*time.Second)
			}
			p.pause(beat)
		}
	}()
	return func() {
		<-done
		presence.Remove(p.Soft, p.st, podKind, p.o.Pod)
	}
}

// putRecord writes the record, and deletes those of schedulers that are gone.
func (p *pod) putRecord(since time.Time) error {
	r := podRecord{Record: presence.Here(p.o.Pod, since, podTTL), Commands: p.o.Commands != nil}
	if r.Handlers = slices.Sorted(maps.Keys(p.handlers)); len(r.Handlers) > maxHandlers {
		r.Handlers, r.Commands = nil, true
	}
	_, err := p.st.Update(p.Soft, driver.Query{Ranges: []driver.Range{{Prefix: podKind, Limit: maxSwept}}}, func(tx *store.Tx) error {
		if err := presence.Sweep(tx, podKind, maxSwept); err != nil {
			return err
		}
		return presence.Put(tx, podKind, r.Record, r)
	})
	return err
}

// maxSwept is how many records one heartbeat looks through.
const maxSwept = 50

// Pods returns the schedulers, dead ones too.
func Pods(ctx context.Context, st *store.Store) (out []Pod, err error) {
	err = st.View(ctx, driver.Query{Ranges: []driver.Range{{Prefix: podKind}}}, func(tx *store.Tx) error {
		out, err = pods(tx)
		return err
	})
	return out, err
}

// pods reads the records. It skips unreadable ones.
func pods(tx *store.Tx) ([]Pod, error) {
	recs, err := tx.Scan(podKind, 0)
	if err != nil {
		return nil, err
	}
	out := []Pod{}
	for _, rec := range recs {
		e, err := store.Decode[podRecord](tx, rec)
		if err != nil {
			continue
		}
		r := e.Value
		out = append(out, Pod{
			Name: r.Name, State: orElse(r.State(e.Age), "running"), Host: r.Host, PID: r.PID,
			Since: r.Since, HeartbeatAt: e.Time.UTC(), Commands: r.Commands, Handlers: r.Handlers,
		})
	}
	return out, nil
}

// Able are the schedulers that can run one of the jobs.
func Able(all []Pod, jobs ...Job) []Pod {
	able := []Pod{}
	for _, p := range all {
		if slices.ContainsFunc(jobs, func(j Job) bool {
			return len(j.Command) > 0 && p.Commands || slices.Contains(p.Handlers, j.Name)
		}) {
			able = append(able, p)
		}
	}
	return able
}
