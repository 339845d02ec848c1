package local_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tasklock/tasklock/internal/local"
)

// Each gate of a path stands for a process.
func TestGateLetsOneThrough(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "gate")
	var wg sync.WaitGroup
	var inside atomic.Int32 // the race detector does not know this lock
	for range 8 {
		g := local.NewGate(path)
		defer g.Close()
		for range 2 {
			wg.Go(func() {
				for range 100 {
					if err := g.Lock(t.Context()); err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two are through")
					}
					inside.Add(-1)
					g.Unlock()
				}
			})
		}
	}
	wg.Wait()
}

func TestGateHonoursContext(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "gate")
	holder, other := local.NewGate(path), local.NewGate(path)
	if err := holder.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 { // a wait that was left is taken over, not added to
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := other.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	holder.Unlock()
	if err := other.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.Unlock()
}

// Who leaves must not be through in secret.
func TestGateLeftWaitOpensAgain(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "gate")
	holder, gone, next := local.NewGate(path), local.NewGate(path), local.NewGate(path)
	if err := holder.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := gone.Lock(ctx); err == nil {
		t.Fatal("two are through")
	}
	gone.Close()
	holder.Unlock()
	if err := next.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	next.Unlock()
	if err := gone.Lock(t.Context()); err == nil {
		t.Error("a closed gate lets through")
	}
}

func TestGateTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gate")
	a, b := local.NewGate(path), local.NewGate(path)
	defer a.Close()
	defer b.Close()
	for _, g := range []*local.Gate{a, b} {
		if !g.TryLock() {
			t.Fatal("nobody was there")
		}
		if a.TryLock() || b.TryLock() {
			t.Fatal("two went through")
		}
		g.Unlock()
	}
	if err := a.Lock(t.Context()); err != nil || b.TryLock() {
		t.Fatal("two went through", err)
	}
	a.Unlock()
}
