package runner

import (
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
)

const ms = time.Millisecond

// at is a moment n milliseconds after an arbitrary one, by both clocks.
func at(n int) host.Moment { return both(n, n) }

func both(awake, wall int) host.Moment {
	return host.Moment{Awake: time.Hour + time.Duration(awake)*ms, Wall: int64(time.Duration(wall) * ms)}
}

func TestWatch(t *testing.T) {
	type step struct {
		at    host.Moment
		trust [2]int // left and grace, from at
		stop  int    // grace, from at; -1: at once
		want  action
	}
	for name, steps := range map[string][]step{
		"nothing to do while trusted": {
			{at: at(0), trust: [2]int{100, 50}}, {at: at(99)}, {at: at(99), trust: [2]int{100, 50}}, {at: at(198)},
		},
		"silence: TERM once, then KILL again and again": {
			{at: at(0), trust: [2]int{100, 50}},
			{at: at(100), want: doTerm},
			{at: at(149)},
			{at: at(150), want: doKill},
			{at: at(170), want: doKill},
		},
		"a late heartbeat does not take TERM back": {
			{at: at(0), trust: [2]int{100, 50}},
			{at: at(100), want: doTerm},
			{at: at(110), trust: [2]int{1000, 50}},
			{at: at(150), want: doKill},
		},
		"after a long pause there is no grace left": {
			{at: at(0), trust: [2]int{100, 50}}, {at: at(1000), want: doKill},
		},
		"sleep: only the wall clock moved": {
			{at: both(0, 0), trust: [2]int{100, 50}}, {at: both(1, 500), want: doKill},
		},
		"the wall clock was set back": {
			{at: both(0, 0), trust: [2]int{100, 50}}, {at: both(100, -99999), want: doTerm}, {at: both(150, -99999), want: doKill},
		},
		"ordered": {
			{at: at(0), trust: [2]int{100, 50}}, {at: at(10), stop: 30, want: doTerm}, {at: at(39)}, {at: at(40), want: doKill},
		},
		"ordered without grace": {
			{at: at(0), trust: [2]int{100, 50}}, {at: at(10), stop: -1, want: doKill},
		},
		"the nearer of two orders counts": {
			{at: at(0), stop: 100, want: doTerm}, {at: at(10), stop: 20}, {at: at(15), stop: 500}, {at: at(30), want: doKill},
		},
		"an order does not outlast the lease": {
			{at: at(0), trust: [2]int{100, 50}}, {at: at(90), stop: 500, want: doTerm}, {at: at(149)}, {at: at(150), want: doKill},
		},
		"while an end takes its time the lease may be renewed": {
			{at: at(0), trust: [2]int{100, 50}},
			{at: at(90), stop: 500, want: doTerm},
			{at: at(95), trust: [2]int{1000, 50}},
			{at: at(589)},
			{at: at(590), want: doKill},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w watch
			for i, s := range steps {
				if s.trust != [2]int{} {
					w.trust(s.at, time.Duration(s.trust[0])*ms, time.Duration(s.trust[1])*ms)
				}
				if s.stop != 0 {
					w.stop(s.at, time.Duration(max(0, s.stop))*ms)
				}
				got, next := w.due(s.at)
				if got != s.want {
					t.Fatalf("step %d: action %d, want %d", i, got, s.want)
				}
				if next <= 0 || next > lookAgain {
					t.Fatalf("step %d: look again in %s", i, next)
				}
			}
		})
	}
}

// Whatever happens, what must be done is done in time if the watch is asked
// when it wants to be.
func TestWatchAsksInTime(t *testing.T) {
	for left := 0; left < 3000; left += 137 {
		for grace := 0; grace < 3000; grace += 211 {
			var w watch
			w.trust(at(0), time.Duration(left)*ms, time.Duration(grace)*ms)
			clock := time.Duration(0)
			for {
				do, next := w.due(at(int(clock / ms)))
				if do == doKill {
					break
				}
				clock += next
			}
			if want := time.Duration(left+grace) * ms; clock != want {
				t.Fatalf("left %d grace %d: KILL at %s, want %s", left, grace, clock, want)
			}
		}
	}
}

func TestOverdueMeansNobodySaidSo(t *testing.T) {
	var w watch
	w.trust(at(0), 100*ms, 50*ms)
	w.stop(at(50), 100*ms)
	if w.due(at(120)); w.overdue {
		t.Error("overdue although the wrapper had ordered the end")
	}
	w = watch{}
	w.trust(at(0), 100*ms, 50*ms)
	if w.due(at(120)); !w.overdue {
		t.Error("not overdue although nobody said anything")
	}
}
