package schedule

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// memory is what a pod has read of due/. A look reads only what has changed since,
// however many jobs there are. It reads all of it once a minute: deleted records show
// in no scan, and a server that another has replaced may have lost commits. Until then
// a record that is gone costs an attempt to claim it, after which the pod looks for it.
type memory struct {
	dues map[string]*store.Entry[dueRecord]
	rev  int64     // it has all up to this one
	read time.Time // when it read all of it; zero: it must do so again
}

// remember brings the memory up to date, and runs fn in the same view. damaged are the
// jobs that cannot be read.
func (p *pod) remember(fn func(tx *store.Tx, damaged []*DamagedError) error) error {
	m := &p.memory
	if time.Since(m.read) < longSleep {
		err := p.rememberChanges(fn)
		if err == nil {
			return nil
		}
		if m.read = (time.Time{}); !errors.Is(err, driver.ErrDamaged) {
			return err
		}
	}
	p.takeRecheck()
	return dues(p.Soft, p.st, driver.Query{}, func(tx *store.Tx, all dueList) error {
		*m = memory{dues: make(map[string]*store.Entry[dueRecord], len(all.list)), rev: tx.Rev()}
		for _, d := range all.list {
			m.dues[d.Value.Job] = &d
		}
		if len(all.damaged) == 0 {
			m.read = time.Now()
		}
		return fn(tx, all.damaged)
	})
}

func (p *pod) rememberChanges(fn func(*store.Tx, []*DamagedError) error) error {
	m, since, doubtful := &p.memory, p.memory.rev, p.takeRecheck()
	need := driver.Query{Ranges: []driver.Range{{Prefix: dueKind, Since: since}}}
	return p.st.View(p.Soft, need, func(tx *store.Tx) error {
		recs, err := tx.ScanSince(dueKind, since)
		if err != nil {
			return err
		}
		for _, rec := range recs {
			if err := m.note(store.Decode[dueRecord](tx, rec)); err != nil {
				return err
			}
		}
		if err := m.recall(tx, doubtful); err != nil {
			return err
		}
		m.rev = tx.Rev()
		return fn(tx, nil)
	})
}

// recall reads the records of jobs that may be gone.
func (m *memory) recall(tx *store.Tx, jobs []string) error {
	var keys []string
	for _, job := range jobs {
		keys = append(keys, dueKind+job)
	}
	if err := tx.Want(keys...); err != nil {
		return err
	}
	for _, key := range keys {
		if err := m.note(store.Peek[dueRecord](tx, key)); err != nil {
			return err
		}
	}
	return nil
}

// note remembers a record as it was just read.
func (m *memory) note(e store.Entry[dueRecord], err error) error {
	job := strings.TrimPrefix(e.Key, dueKind)
	if err == nil && e.Exists() {
		m.dues[job] = &e
	} else if err == nil {
		delete(m.dues, job)
	}
	return err
}

// mine are the due records of the jobs that this pod knows how to run.
func (p *pod) mine() iter.Seq[*store.Entry[dueRecord]] {
	return func(yield func(*store.Entry[dueRecord]) bool) {
		for _, d := range p.memory.dues {
			if p.canRun(d.Value) && !yield(d) {
				return
			}
		}
	}
}

// doubt makes the next look find out whether a job's due record is gone.
func (p *pod) doubt(job string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recheck[job] = true
}

func (p *pod) takeRecheck() (jobs []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for job := range p.recheck {
		jobs = append(jobs, job)
	}
	clear(p.recheck)
	slices.Sort(jobs)
	return jobs
}
