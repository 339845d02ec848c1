package gitstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A call may take as long as its timeout. Another push starts it again, and
// so do those who wait before it, as long as they get on.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		over := func(ctx context.Context, want time.Duration) {
			t.Helper()
			<-ctx.Done()
			if got := time.Since(began); got != want || !silent(ctx) {
				t.Errorf("over after %v, want %v: %v", got, want, context.Cause(ctx))
			}
			began = time.Now()
		}
		ctx, cancel := limit(t.Context(), time.Second)
		defer cancel()
		if inner, _ := limit(ctx, time.Hour); inner != ctx {
			t.Error("a call within a call has a time of its own")
		}
		over(ctx, time.Second)
		patienceOf(ctx).renew() // too late
		if !silent(ctx) {
			t.Error("the dead rise")
		}

		ctx, cancel = limit(t.Context(), time.Second)
		defer cancel()
		time.Sleep(900 * time.Millisecond)
		patienceOf(ctx).renew()
		over(ctx, 1900*time.Millisecond)

		ctx, cancel = limit(t.Context(), time.Second)
		defer cancel()
		left := 3
		patienceOf(ctx).queue(func() bool { left--; return left >= 0 })
		over(ctx, 4*time.Second)

		caller, leave := context.WithCancel(t.Context())
		ctx, cancel = limit(caller, time.Second)
		defer cancel()
		leave()
		<-ctx.Done()
		if silent(ctx) {
			t.Error("a caller that left hears that the server is silent")
		}
	})
}
