package local_test

import (
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/local"
)

func TestAge(t *testing.T) {
	const s = int64(time.Second)
	now := local.Stamp{Wall: 1000 * s, Awake: 50 * s, Domain: "boot"}
	for _, c := range []struct {
		name string
		then local.Stamp
		want time.Duration
	}{
		{"this boot", local.Stamp{Wall: 990 * s, Awake: 45 * s, Domain: "boot"}, 5 * time.Second},
		{"wall clock set forward", local.Stamp{Wall: 0, Awake: 45 * s, Domain: "boot"}, 5 * time.Second},
		{"wall clock set back", local.Stamp{Wall: 9999 * s, Awake: 45 * s, Domain: "boot"}, 5 * time.Second},
		{"another boot", local.Stamp{Wall: 990 * s, Awake: 45 * s, Domain: "other"}, 10 * time.Second},
		{"unknown boot", local.Stamp{Wall: 990 * s, Awake: 45 * s}, 10 * time.Second},
		{"of the future", local.Stamp{Wall: 990 * s, Awake: 51 * s, Domain: "boot"}, 0},
		{"of another boot's future", local.Stamp{Wall: 1001 * s, Awake: 45 * s, Domain: "other"}, 0},
	} {
		if got := c.then.Age(now); got != c.want {
			t.Errorf("%s: age %v, want %v", c.name, got, c.want)
		}
		if got := time.Unix(0, now.Wall).Sub(c.then.Time(now)); got != c.want {
			t.Errorf("%s: time is %v ago, want %v", c.name, got, c.want)
		}
	}
	unknown := local.Stamp{Wall: 1000 * s, Awake: 50 * s}
	if got := (local.Stamp{Wall: 990 * s, Awake: 45 * s}).Age(unknown); got != 10*time.Second {
		t.Errorf("two unknown boots: age %v", got)
	}
}

func TestClockRuns(t *testing.T) {
	a := local.Clock()
	time.Sleep(10 * time.Millisecond)
	if age := a.Age(local.Clock()); age < 5*time.Millisecond || age > time.Minute {
		t.Errorf("age %v", age)
	}
}
