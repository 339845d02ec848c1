package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// day is what the tables below count from.
var day = time.Date(2026, 11, 15, 6, 0, 0, 0, time.UTC)

func at(minutes float64) time.Time { return day.Add(time.Duration(minutes * float64(time.Minute))) }

// situationOf is a job that fires each minute, due at six.
func situationOf(now float64, change ...func(*situation)) situation {
	j, err := Job{Name: "x", Cron: "* * * * *", Command: []string{"true"}}.normal()
	if err != nil {
		panic(err)
	}
	s := situation{job: j, exists: true, now: at(now), due: dueRecord{Job: "x"}}
	s.due.setNext(j, at(0))
	for _, c := range change {
		c(&s)
	}
	return s
}

func policy(p any) func(*situation) {
	return func(s *situation) {
		switch p := p.(type) {
		case Misfire:
			s.job.Misfire = p
		case Overlap:
			s.job.Overlap = p
		case OnCrash:
			s.job.OnCrash = p
		}
	}
}

func held(s *situation) { s.held = &lockHolder{owner: "pod-1", since: at(-1)} }

func dead(attempt int) func(*situation) {
	return func(s *situation) {
		r := runRecord{At: at(-1), Attempt: attempt, Lease: "pod-1/a/b", Key: "job:x"}
		s.due.Running = []runRecord{r}
		s.dead = []deadRun{{run: r, why: "its pod died", stuck: true}}
	}
}

func queued(s *situation) { t := at(0); s.due.QueuedAt = &t }

func triggered(s *situation) { s.due.Triggers = []trigger{{At: at(0.5), By: "alice"}} }

// what is a plan in a line: claim, records, what was lost, the next fire time.
func (p plan) what() string {
	minute := func(t time.Time) string { return fmt.Sprintf("%g", t.Sub(day).Minutes()) }
	var out []string
	if p.claim != nil {
		out = append(out, fmt.Sprintf("claim %s/%d", minute(p.claim.at), p.claim.attempt))
	}
	for _, f := range p.records {
		why, _, _ := strings.Cut(f.Why, " ")
		out = append(out, fmt.Sprintf("skip %s×%d %s", minute(f.At), max(1, f.Count), strings.TrimSuffix(why, ":")))
	}
	for _, d := range p.lost {
		out = append(out, "lost "+minute(d.run.At))
	}
	if p.blocked {
		out = append(out, "wait")
	}
	if p.due.At != nil {
		out = append(out, "next "+minute(*p.due.At))
	}
	if p.due.QueuedAt != nil {
		out = append(out, "queued")
	}
	return strings.Join(out, ", ")
}

func TestDecide(t *testing.T) {
	each := func(s *situation) { s.due.Each = true }
	jitter := func(s *situation) { s.job.Jitter = time.Minute; s.due.setNext(s.job, at(0)) }
	paused := func(s *situation) { s.job.Paused = true; s.due.setNext(s.job, at(0)) }
	full := func(s *situation) { s.full = true }
	removed := func(s *situation) { s.exists, s.due.At = false, nil }
	for _, c := range []struct {
		name string
		s    situation
		want string
	}{
		{"not yet", situationOf(-0.1), "next 0"},
		{"now", situationOf(0), "claim 0/1, next 1"},
		{"a little late", situationOf(0.4), "claim 0/1, next 1"},
		{"paused", situationOf(5, paused), ""},
		{"jitter", situationOf(0, jitter), "next 0"},
		{"removed", situationOf(5, removed), ""},

		{"missed one, skip", situationOf(0.9), "skip 0×1 missed, next 1"},
		{"missed an hour, skip", situationOf(60.75), "skip 0×61 missed, next 61"},
		{"missed an hour, skip, and one is on time", situationOf(60.2), "claim 60/1, skip 0×60 missed, next 61"},
		{"missed an hour, once", situationOf(60.75, policy(MisfireOnce)), "claim 60/1, skip 0×60 missed, next 61"},
		{"missed one, once", situationOf(0.9, policy(MisfireOnce)), "claim 0/1, next 1"},
		{"missed an hour, all", situationOf(60.75, policy(MisfireAll)), "claim 0/1, next 1"},
		{"missed a day, all", situationOf(1440, policy(MisfireAll)), "claim 1340/1, skip 0×1340 missed, next 1341"},
		{"missed an hour, all, one runs", situationOf(60.75, policy(MisfireAll), held), "wait, next 0"},
		{"missed an hour, once, one runs", situationOf(60.75, policy(MisfireOnce), held), "skip 0×60 missed, wait, next 60"},

		{"still running, skip", situationOf(0, held), "skip 0×1 still, next 1"},
		{"still running, skip, two at once", situationOf(0.4, held, func(s *situation) { s.due.setNext(s.job, at(0)); s.now = at(0.45) }), "skip 0×1 still, next 1"},
		{"still running, queue", situationOf(0, held, policy(OverlapQueue)), "wait, next 0, queued"},
		{"still running, in the queue", situationOf(7, held, policy(OverlapQueue), queued), "wait, next 0, queued"},
		{"queue, and free", situationOf(7.1, policy(OverlapQueue), queued), "claim 0/1, skip 1×7 one, next 8"},
		{"still running, allow", situationOf(0, policy(OverlapAllow), each), "claim 0/1, next 1"},

		{"dead, lost", situationOf(-0.5, dead(1)), "lost -1, next 0"},
		{"dead, lost, and the next is due", situationOf(0, dead(1)), "claim 0/1, lost -1, next 1"},
		{"dead, retry", situationOf(-0.5, dead(1), policy(CrashRetry)), "claim -1/2, next 0"},
		{"dead, retry before what is due", situationOf(0, dead(2), policy(CrashRetry)), "claim -1/3, next 0"},
		{"dead, no attempts left", situationOf(0, dead(3), policy(CrashRetry)), "claim 0/1, lost -1, next 1"},
		{"dead, retry, lock taken by a person", situationOf(0, dead(1), policy(CrashRetry), held), "wait, next 0"},
		{"dead and removed", situationOf(0, dead(1), policy(CrashRetry), removed), "lost -1"},

		{"no slot", situationOf(0, full), "wait, next 0, queued"},
		{"no slot, in the queue", situationOf(7, full, queued), "wait, next 0, queued"},
		{"a slot, and it had waited", situationOf(7.1, queued), "claim 0/1, skip 1×7 one, next 8"},
		{"no slot, and it still runs", situationOf(0, full, held), "skip 0×1 still, next 1"},
		{"no slot, missed an hour, all", situationOf(60.75, full, policy(MisfireAll)), "wait, next 0"},
		{"no slot, missed one, skip", situationOf(0.9, full), "skip 0×1 missed, next 1"},
		{"no slot for a retry", situationOf(0, full, dead(1), policy(CrashRetry)), "wait, next 0"},
		{"no slot, triggered", situationOf(-0.5, full, triggered), "wait, next 0"},

		{"triggered", situationOf(0.5, triggered), "claim 0.5/1, next 0"},
		{"triggered while paused", situationOf(0.5, paused, triggered), "claim 0.5/1"},
		{"triggered while it runs", situationOf(0.5, triggered, held), "skip 0.5×1 still, next 0"},
		{"triggered while it runs, queue", situationOf(-0.5, triggered, held, policy(OverlapQueue)), "wait, next 0"},
		{"triggered while it runs, queue, and one is due", situationOf(0.5, triggered, held, policy(OverlapQueue)), "wait, next 0, queued"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := decide(c.s).what(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// A fire time whose jitter has not passed is neither missed nor in the way.
func TestDecideLeavesStartsThatAreToCome(t *testing.T) {
	now := at(600)
	for _, change := range []func(*situation){func(*situation) {}, held, func(s *situation) { queued(s); s.job.Overlap = OverlapQueue }} {
		s := situationOf(0, change, func(s *situation) {
			s.job.Jitter, s.now = time.Hour, now
			s.due.setNext(s.job, at(580))
			s.due.Start = s.due.At
		})
		if p := decide(s); p.due.At == nil || s.job.start(*p.due.At).Before(now.Add(-onTime)) || len(p.records) == 0 {
			t.Errorf("%s", p.what())
		} else {
			last := p.records[len(p.records)-1]
			if until := deref(last.Until); until.IsZero() && last.At.Equal(at(580)) {
				continue
			} else if s.job.start(until).After(now) {
				t.Errorf("%s: %s was to start at %s", p.what(), until, s.job.start(until))
			}
		}
	}
}

// The record of those that are beyond the bound ends before the first that runs.
func TestDecideCatchUpEnds(t *testing.T) {
	p := decide(situationOf(1440, policy(MisfireAll)))
	if f := p.records[0]; !f.Until.Equal(p.claim.at.Add(-time.Minute)) || f.Count != 1340 {
		t.Errorf("%d until %s, and %s runs", f.Count, f.Until, p.claim.at)
	}
}

// An outage of years ends in a few records and little time.
func TestDecideIsBounded(t *testing.T) {
	for _, m := range []Misfire{MisfireSkip, MisfireOnce, MisfireAll} {
		s := situationOf(0, policy(m), func(s *situation) {
			s.job.Cron = "* * * * * *"
			s.now = at(0).AddDate(3, 0, 0)
		})
		p := decide(s)
		if len(p.records) != 1 || p.records[0].Count < manyTimes || p.due.At.Before(s.now.Add(-3*time.Minute)) {
			t.Errorf("%s: %s", m, p.what())
		}
	}
}

func TestSpread(t *testing.T) {
	j := Job{Name: "x", Cron: "* * * * *", Zone: "UTC", Jitter: 30 * time.Second}
	spread := func(at time.Time) time.Duration { return j.start(at).Sub(at) }
	var low, high int
	for i := range 1000 {
		d := spread(at(float64(i)))
		if d < 0 || d > j.Jitter || d != spread(at(float64(i))) {
			t.Fatalf("%s", d)
		}
		if d < 10*time.Second {
			low++
		} else if d > 20*time.Second {
			high++
		}
	}
	if low < 250 || high < 250 {
		t.Errorf("not spread: %d low, %d high of 1000", low, high)
	}
}

func deref(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
