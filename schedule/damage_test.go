package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// spoil writes a record that is well-formed and says nothing.
func (w *world) spoil(key string) {
	w.t.Helper()
	_, err := w.st.Update(w.t.Context(), driver.Query{}, func(tx *store.Tx) error { return tx.Put(key, map[string]string{"job": "?"}) })
	w.must(err)
}

// A record that cannot be read stops its own job, and the others go on: what is
// due, the definition, the lock of a run on another pod.
func TestDamageStopsOneJob(t *testing.T) {
	for _, key := range []string{"due/b", "job/b", "lock/job:b"} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t, Job{Name: "a", Cron: "@every 1s", Misfire: MisfireOnce}, Job{Name: "b", Cron: "@every 1s", Misfire: MisfireOnce}, Job{Name: "c", Cron: "@every 1s", Misfire: MisfireOnce})
			w.outage(3 * time.Second)
			_, err := claimNext(t.Context(), w.st, candidate{job: "b", key: "job:b", ttl: time.Minute}, lease.AcquireRequest{Owner: "elsewhere"})
			w.must(err)
			w.spoil(key)
			var log []string
			err = New(w.st).Handle("a", w.handle).Handle("b", w.handle).Handle("c", w.handle).Run(t.Context(), &Options{
				Once: true, Log: func(e LogEntry) { log = append(log, e.Event+" "+e.Job+" "+e.Message) },
			})
			if len(w.runs["a"]) == 0 || len(w.runs["b"]) != 0 || len(w.runs["c"]) == 0 {
				t.Errorf("ran %v", w.runs)
			}
			if key != "job/b" { // that one is met only when it is to be claimed
				var bad *DamagedError
				if !errors.As(err, &bad) || bad.Job != "b" || !errors.Is(err, driver.ErrDamaged) {
					t.Errorf("%v", err)
				}
				if n := slices.IndexFunc(log, func(s string) bool { return strings.HasPrefix(s, "damaged b Not firing: ") }); n < 0 {
					t.Errorf("%q", log)
				}
			}
			h, err := History(t.Context(), w.st, HistoryRequest{})
			if err != nil || len(h.Fires) == 0 {
				t.Errorf("%+v, %v", h, err)
			}
			out, err := List(t.Context(), w.st)
			if err != nil || len(out.Jobs) != 3 || out.Jobs[0].Damaged != nil || out.Jobs[2].Damaged != nil {
				t.Errorf("%+v, %v", out, err)
			}
			if (out.Jobs[1].Damaged == nil) != (key == "lock/job:b") { // List does not look at locks
				t.Errorf("%+v", out.Jobs[1])
			}
		})
	}
}

// A job that cannot be claimed is not asked for again and again, and a pod that
// runs once ends.
func TestDamagedDefinition(t *testing.T) {
	w := newWorld(t, Job{Name: "a", Cron: "@every 1s", Misfire: MisfireOnce}, Job{Name: "b", Cron: "@every 1s", Misfire: MisfireOnce})
	w.outage(3 * time.Second)
	w.spoil("job/b")
	warned := 0
	err := New(w.st).Handle("a", w.handle).Handle("b", w.handle).Run(t.Context(), &Options{Once: true, Log: func(e LogEntry) {
		if e.Event == "damaged" {
			warned++
		}
	}})
	var bad *DamagedError
	if !errors.As(err, &bad) || bad.Mend != "remove" || warned != 1 || len(w.runs["a"]) == 0 || len(w.runs["b"]) != 0 {
		t.Errorf("%v, %d warnings, ran %v", err, warned, w.runs)
	}
	if err := Remove(t.Context(), w.st, ChangeRequest{Name: "b"}); !errors.Is(err, driver.ErrDamaged) {
		t.Error(err)
	}
	w.must(Remove(t.Context(), w.st, ChangeRequest{Name: "b", Force: true}))
	if out, err := List(t.Context(), w.st); err != nil || len(out.Jobs) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// What is due can be written anew. What runs is still known then, and no fire
// time runs twice.
func TestRemakeDue(t *testing.T) {
	for _, overlap := range []Overlap{OverlapSkip, OverlapAllow} {
		w := newWorld(t, Job{Name: "b", Cron: "* * * * *", Misfire: MisfireOnce, Overlap: overlap})
		w.outage(time.Minute)
		var due dueRecord
		read := func() dueRecord {
			w.must(w.st.View(t.Context(), need("b"), func(tx *store.Tx) error {
				d, err := getDue(tx, "b")
				due = d.Value
				return err
			}))
			return due
		}
		_, err := claimNext(t.Context(), w.st, candidate{job: "b", key: read().key(*read().At), ttl: time.Minute}, lease.AcquireRequest{Owner: "elsewhere"})
		w.must(err)
		ran := read().Running
		w.spoil("due/b")
		_, err = Resume(t.Context(), w.st, ChangeRequest{Name: "b"})
		var bad *DamagedError
		if !errors.As(err, &bad) || bad.Mend != "resume" {
			t.Errorf("%v", err)
		}
		_, err = Resume(t.Context(), w.st, ChangeRequest{Name: "b", Force: true})
		w.must(err)
		if len(ran) != 1 || !slices.Equal(read().Running, ran) || due.At == nil || !due.At.After(time.Now()) {
			t.Errorf("%s: %v was %v", overlap, due, ran)
		}
	}
}

// The end of a run counts although what is due cannot be read.
func TestEndWithDamage(t *testing.T) {
	w := newWorld(t, Job{Name: "b", Cron: "* * * * *", Misfire: MisfireOnce})
	w.outage(time.Minute)
	c, err := claimNext(t.Context(), w.st, candidate{job: "b", key: "job:b", ttl: time.Minute}, lease.AcquireRequest{Owner: "pod-1"})
	w.must(err)
	w.spoil("due/b")
	_, err = finish(t.Context(), w.st, c, ending{state: Done})
	w.must(err)
	if h := w.history("b"); len(h) != 1 || h[0].State != Done {
		t.Errorf("%+v", h)
	}
}
