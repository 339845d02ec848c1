package host

import (
	"testing"
	"time"
)

func TestMomentCountsTheClockThatMovedMore(t *testing.T) {
	at := func(awake, wall time.Duration) Moment { return Moment{Awake: awake, Wall: int64(wall)} }
	for name, c := range map[string]struct {
		now  Moment
		want time.Duration
	}{
		"both":                 {at(time.Second, time.Second), time.Second},
		"the machine slept":    {at(0, time.Hour), time.Hour},
		"the wall went back":   {at(time.Minute, -time.Hour), time.Minute},
		"nothing, or set back": {at(0, -time.Hour), 0},
	} {
		if got := c.now.Since(Moment{}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if early := Now(); Now().Since(early) < 0 {
		t.Error("time goes back")
	}
}
