package host

import "time"

// A Moment is one look at two clocks. A holder compares moments to learn how
// long it may still rely on its lease.
type Moment struct {
	Awake time.Duration `json:"awake"` // stands still while the machine sleeps
	Wall  int64         `json:"wall"`  // nanoseconds; somebody may set this clock
}

// Now reads both clocks. All processes of a boot read the same ones, so a
// moment keeps its meaning when one process sends it to another.
func Now() Moment {
	awake, _ := Awake()
	return Moment{Awake: awake, Wall: time.Now().UnixNano()}
}

// Since is the time from earlier to m by the clock that moved more: sleep stops
// one clock, a step moves the other, and a holder must err towards safety.
func (m Moment) Since(earlier Moment) time.Duration {
	return max(m.Awake-earlier.Awake, time.Duration(m.Wall-earlier.Wall))
}
