package local

import (
	"time"

	"github.com/tasklock/tasklock/internal/host"
)

// A Stamp is one reading of this machine's clocks, in a form that can be
// stored: the wall clock, and a clock that nobody can set and that stands
// still while the machine sleeps, with the domain in which its readings can be
// compared (one boot). An empty domain compares with nothing.
type Stamp struct {
	Wall   int64 // nanoseconds since 1970
	Awake  int64 // nanoseconds
	Domain string
}

// Clock reads the clocks.
func Clock() Stamp {
	awake, domain := host.Awake()
	return Stamp{Wall: time.Now().UnixNano(), Awake: int64(awake), Domain: domain}
}

// Moment is the wall clock's part of s.
func (s Stamp) Moment() time.Time { return time.Unix(0, s.Wall).UTC() }

// Age returns how old s is at now: by the awake clock if the two compare, else
// by the wall clock. A stamp of the future has age 0.
func (s Stamp) Age(now Stamp) time.Duration {
	if s.Domain != "" && s.Domain == now.Domain {
		return time.Duration(max(0, now.Awake-s.Awake))
	}
	return time.Duration(max(0, now.Wall-s.Wall))
}

// Time returns the moment of s as seen at now: now's wall clock less the age.
func (s Stamp) Time(now Stamp) time.Time {
	return now.Moment().Add(-s.Age(now))
}
