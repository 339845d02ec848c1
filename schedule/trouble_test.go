package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

// The ways in which a store can fail for a while.
var moods = []struct {
	name         string
	read, commit error
}{
	{"read-only", nil, fmt.Errorf("%w: it is a standby", driver.ErrDenied)},
	{"no room", nil, fmt.Errorf("%w: /data", driver.ErrFull)},
	{"commits lost", nil, errors.New("connection reset")},
	{"unreachable", errors.New("connection refused"), errors.New("connection refused")},
	{"refused", fmt.Errorf("%w: password", driver.ErrDenied), fmt.Errorf("%w: password", driver.ErrDenied)},
}

// dream is a world whose clock moves when nobody has anything to do.
type dream struct {
	*world
	m   *drivertest.Moody
	log []string
	end func() error
}

// asleep runs fn with pods at work on a store, by a clock of its own. It begins at a
// full minute.
func asleep(t *testing.T, pods int, jobs []Job, fn func(*dream)) {
	synctest.Test(t, func(t *testing.T) {
		d := &dream{m: &drivertest.Moody{Store: memstore.New()}}
		d.world = &world{t: t, st: store.New(d.m), runs: map[string][]time.Time{}, now: map[string]int{}, most: map[string]int{}}
		_, err := Apply(t.Context(), d.st, ApplyRequest{Jobs: jobs, By: "tester"})
		d.must(err)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range pods {
			s := New(d.st)
			for _, j := range jobs {
				s.Handle(j.Name, d.handle)
			}
			all.Go(func() {
				err := s.Run(ctx, &Options{Pod: fmt.Sprintf("pod-%d", i), Log: func(e LogEntry) {
					d.mu.Lock()
					defer d.mu.Unlock()
					d.log = append(d.log, fmt.Sprintf("%s %s %s", e.Time.Format("04:05.000"), e.Event, e.Message))
				}})
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		fn(d)
		stop()
		all.Wait()
		if t.Failed() {
			t.Logf("%s", strings.Join(d.log, "\n"))
		}
		d.must(d.st.Close())
	})
}

// down makes the store fail at a second of the run, for that length.
func (d *dream) down(at, length time.Duration, read, commit error) {
	time.Sleep(at)
	d.m.Fail(read, commit)
	time.Sleep(length)
	d.m.Fail(nil, nil)
}

// ran returns the fire times that ran.
func (d *dream) ran(job string) []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.runs[job])
}

func (d *dream) skipped(job string) (list []Fire) {
	for _, f := range d.history(job) {
		if f.State == Skipped {
			list = append(list, f)
		}
	}
	return list
}

// A store that refuses at the fire time for less than the limit of lateness
// loses no fire, however it refuses and whenever it comes back.
func TestOutageWithinTheLimit(t *testing.T) {
	for _, mood := range moods {
		for _, length := range []time.Duration{3 * time.Second, 11 * time.Second, 24 * time.Second, 27 * time.Second, 29 * time.Second, 29900 * time.Millisecond} {
			for _, early := range []time.Duration{0, 20 * time.Second} { // before the fire time
				t.Run(fmt.Sprint(mood.name, " for ", early+length), func(t *testing.T) {
					asleep(t, 1, []Job{{Name: "x", Cron: "* * * * *"}}, func(d *dream) {
						t := d.t
						d.down(30*time.Second-early-time.Millisecond, early+length, mood.read, mood.commit)
						time.Sleep(20 * time.Second)
						if len(d.ran("x")) != 1 || len(d.skipped("x")) > 0 {
							t.Errorf("ran %v, skipped %+v", d.ran("x"), d.skipped("x"))
						}
					})
				})
			}
		}
	}
}

// One that refuses for longer makes a miss, which says why; and the next fire
// time is not lost to it.
func TestOutageBeyondTheLimit(t *testing.T) {
	for _, mood := range moods {
		t.Run(mood.name, func(t *testing.T) {
			asleep(t, 3, []Job{{Name: "x", Cron: "* * * * *"}}, func(d *dream) {
				t := d.t
				d.down(29*time.Second, 3*time.Minute+25*time.Second, mood.read, mood.commit)
				time.Sleep(20 * time.Second)
				list := d.skipped("x")
				if len(d.ran("x")) != 1 || len(list) != 1 || list[0].Count != 3 {
					t.Fatalf("ran %v, skipped %+v", d.ran("x"), list)
				}
				reason := errors.Join(mood.read, mood.commit).Error()
				reason, _, _ = strings.Cut(reason, "\n")
				if why := list[0].Why; !strings.HasPrefix(why, "missed: could not be claimed for 3m") || !strings.Contains(why, reason) {
					t.Errorf("%s", why)
				}
			})
		})
	}
}

// A time without any pod is called that, also if the store failed long before or after.
func TestMissWithoutOutage(t *testing.T) {
	asleep(t, 1, []Job{{Name: "x", Cron: "@yearly"}}, func(d *dream) {
		t := d.t
		d.down(0, 20*time.Second, nil, driver.ErrDenied)
		time.Sleep(4 * time.Minute)
		_, err := Apply(t.Context(), d.st, ApplyRequest{Jobs: []Job{{Name: "y", Cron: "* * * * *"}}})
		d.must(err)
		time.Sleep(3 * time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- New(d.st).Handle("y", d.handle).Run(ctx, nil) }()
		time.Sleep(time.Minute)
		stop()
		d.must(<-done)
		if list := d.skipped("y"); len(list) != 1 || list[0].Why != "missed: no pod was there or free" {
			t.Errorf("%+v", list)
		}
	})
}

// After an outage, policy skip and once start one of the runs that it held up,
// and not all that count as on time; all makes up for all of them. Each fire time
// has its record.
func TestNoBurstAfterAnOutage(t *testing.T) {
	for _, c := range []struct {
		misfire Misfire
		overlap Overlap
		length  time.Duration
		want    int // runs of what came during the outage
	}{
		{MisfireSkip, OverlapSkip, 60 * time.Second, 1},
		{MisfireSkip, OverlapAllow, 60 * time.Second, 1},
		{MisfireSkip, OverlapQueue, 20 * time.Second, 1},
		{MisfireOnce, OverlapSkip, 60 * time.Second, 1},
		{MisfireAll, OverlapAllow, 60 * time.Second, 30},
		{MisfireAll, OverlapSkip, 60 * time.Second, 30},
	} {
		t.Run(fmt.Sprint(c.misfire, " ", c.overlap, " ", c.length), func(t *testing.T) {
			asleep(t, 3, []Job{{Name: "x", Cron: "*/2 * * * * *", Misfire: c.misfire, Overlap: c.overlap, Keep: 500}}, func(d *dream) {
				t := d.t
				d.down(999*time.Millisecond, c.length, nil, driver.ErrDenied)
				back := time.Now()
				time.Sleep(20 * time.Second)
				during := func(at time.Time) bool { return at.After(back.Add(-c.length)) && at.Before(back) }
				ran, off := 0, 0
				for _, at := range d.ran("x") {
					if during(at) {
						ran++
					}
				}
				for _, f := range d.skipped("x") {
					for n := range max(1, f.Count) {
						if during(f.At.Add(time.Duration(n) * 2 * time.Second)) {
							off++
						}
					}
				}
				if ran > c.want || ran+1 < c.want || ran+off != int(c.length/(2*time.Second)) { // the newest may have come while the pods rested
					t.Errorf("%d runs, %d skipped: %v %+v", ran, off, d.ran("x"), d.skipped("x"))
				}
				d.mu.Lock()
				defer d.mu.Unlock()
				told := 0
				for _, line := range d.log {
					if strings.Contains(line, " skipped Skipping x:") {
						told++
					}
				}
				if want := len(d.skipped("x")); told != want {
					t.Errorf("the log tells of %d skips, and there are %d records", told, want)
				}
			})
		})
	}
}

// Jitter above the interval makes no fire time a miss, nor does it run out of order.
func TestJitterAboveTheInterval(t *testing.T) {
	for _, c := range []struct {
		cron   string
		jitter time.Duration
		want   int // in twenty minutes
	}{
		{"* * * * *", 10 * time.Minute, 20},
		{"* * * * *", time.Minute, 20},
		{"@every 10s", time.Minute, 120},
		{"0,50 * * * * *", time.Minute, 40}, // ten seconds, and fifty
	} {
		t.Run(c.cron, func(t *testing.T) {
			asleep(t, 2, []Job{{Name: "x", Cron: c.cron, Jitter: c.jitter, Keep: 500}}, func(d *dream) {
				t := d.t
				before := len(d.ran("x"))
				time.Sleep(20 * time.Minute)
				runs := d.ran("x")
				if n := len(runs) - before; n < c.want-1 || n > c.want+1 || !slices.IsSortedFunc(runs, time.Time.Compare) {
					t.Errorf("%d runs, want %d: %v", n, c.want, runs)
				}
				if list := d.skipped("x"); len(list) > 0 {
					t.Errorf("%+v", list)
				}
			})
		})
	}
}

// What cannot pass ends the scheduler, at its start and later; what can does not.
func TestWhatEndsAScheduler(t *testing.T) {
	for _, c := range []struct {
		err          error
		start, later bool // whether it ends
	}{
		{errors.New("connection refused"), false, false},
		{context.DeadlineExceeded, false, false},
		{driver.ErrFull, false, false},
		{driver.ErrDenied, true, false},
		{driver.ErrNewer, true, true},
		{driver.ErrOlder, true, true},
		{driver.ErrMissing, true, true},
		{driver.ErrUnsafe, true, true},
		{driver.ErrDamaged, true, true},
		{driver.ErrClosed, true, true},
	} {
		for _, later := range []bool{false, true} {
			t.Run(fmt.Sprint(c.err, later), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := &drivertest.Moody{Store: memstore.New()}
					st := store.New(m)
					_, err := Apply(t.Context(), st, ApplyRequest{Jobs: []Job{{Name: "x", Cron: "* * * * *"}}})
					if err != nil {
						t.Fatal(err)
					}
					if !later {
						m.Fail(c.err, c.err)
					}
					ctx, stop := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() {
						done <- New(st).Handle("x", func(context.Context, Fire) error { return nil }).Run(ctx, nil)
					}()
					time.Sleep(30 * time.Second)
					m.Fail(c.err, c.err)
					time.Sleep(3 * time.Minute)
					want := c.start
					if later {
						want = c.later
					}
					select {
					case err := <-done:
						if !want || !errors.Is(err, c.err) {
							t.Errorf("ended with %v", err)
						}
					default:
						if want {
							t.Error("goes on")
						}
						m.Fail(nil, nil)
						time.Sleep(2 * time.Minute)
						h, err := History(t.Context(), st, HistoryRequest{})
						if err != nil || len(h.Jobs) == 0 || h.Jobs[0].Done == 0 {
							t.Errorf("does not fire after it: %+v, %v", h.Jobs, err)
						}
						stop()
						if err := <-done; err != nil {
							t.Error(err)
						}
					}
					stop()
				})
			})
		}
	}
}
