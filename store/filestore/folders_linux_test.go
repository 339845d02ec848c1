package filestore

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The time of a folder shows that nothing changed only when a further change would
// have another time. Some file systems keep whole seconds: a lock whose folder was
// made later in the same second was not found, and two processes held it.
func TestSettled(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		changed, age time.Duration
		want         bool
	}{
		{changed: 1, age: tick - 1},
		{changed: 1, age: tick, want: true},
		{changed: 0, age: 250 * time.Millisecond},
		{changed: 0, age: 2 * time.Second},
		{changed: 0, age: coarseTick, want: true},
		{changed: 1, age: -time.Hour}, // the clock was set back
	} {
		changed := start.Add(c.changed)
		if got := settled(unix.NsecToTimespec(changed.UnixNano()), changed.Add(c.age)); got != c.want {
			t.Errorf("changed at %v, %v ago: %v", c.changed, c.age, got)
		}
	}
}
