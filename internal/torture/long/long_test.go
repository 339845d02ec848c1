package long_test

import (
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

func TestLoop(t *testing.T) {
	count := func(short int, d time.Duration) (n int) {
		for i := range long.Loop(t, short, d) {
			if i != n {
				t.Fatalf("round %d after %d rounds", i, n)
			}
			n++
			time.Sleep(time.Millisecond)
		}
		return n
	}
	t.Setenv("TASKLOCK_TORTURE", "")
	if n := count(7, time.Nanosecond); n != 7 || long.Asked() {
		t.Errorf("short form: %d rounds", n)
	}
	t.Setenv("TASKLOCK_TORTURE", "10")
	if n := count(7, 0); n != 1 || !long.Asked() {
		t.Errorf("without time: %d rounds", n)
	}
	if n := count(1, 10*time.Millisecond); n < 2 || n > 101 {
		t.Errorf("100 ms: %d rounds", n)
	}
	if long.Count(3) != 30 || long.Time(time.Second) != 10*time.Second {
		t.Error(long.Count(3), long.Time(time.Second))
	}
	t.Setenv("TASKLOCK_TORTURE", "0.1")
	if long.Count(30) != 3 || long.Count(3) != 1 {
		t.Error(long.Count(30), long.Count(3))
	}
}
