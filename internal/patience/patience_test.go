package patience

import (
	"testing"
	"testing/synctest"
	"time"
)

// failing notes that a test was ended, and goes on.
type failing struct {
	testing.TB
	said bool
}

func (f *failing) Fatalf(string, ...any) { f.said = true }

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &failing{TB: t}
		if took := Within(f, time.Minute, "a second", func() bool { return time.Since(start) > time.Second }); f.said || took < time.Second || took > 2*time.Second {
			t.Errorf("it took %v, ended: %v", took, f.said)
		}
		Within(f, time.Minute, "never", func() bool { return f.said })
		if !f.said || time.Since(start) < time.Minute {
			t.Errorf("a test that waits in vain goes on")
		}
	})
}
