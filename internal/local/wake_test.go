package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tasklock/tasklock/internal/local"
)

// far is a poll interval that no test waits for.
const far = time.Hour

func TestWake(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := filepath.Join(t.TempDir(), "wake")
	w := local.NewWake(dir, far)
	defer w.Close()
	w.Touch([]string{"lock/a"})
	if _, err := os.Stat(dir); err == nil {
		t.Error("a touch made files although nobody waits")
	}
	for _, subscribed := range []string{"lock/a", "lock/"} {
		sub := w.Subscribe([]string{"task/x", subscribed})
		other := local.NewWake(dir, far)
		other.Touch([]string{"lock/a"})
		heard(t, sub, true)
		heard(t, sub, false)
		sub.Close()
	}
}

func TestWakeAfterFilesWereRemoved(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := filepath.Join(t.TempDir(), "wake")
	w := local.NewWake(dir, far)
	defer w.Close()
	sub := w.Subscribe([]string{"lock/a"})
	defer sub.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	heard(t, sub, true)
	for range 3 { // what removal says may come in several events
		drain(t, sub)
	}
	w.Touch([]string{"lock/a"})
	heard(t, sub, true)
}

func TestWakeManySubscribers(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := local.NewWake(filepath.Join(t.TempDir(), "wake"), far)
	defer w.Close()
	var subs []*local.Subscription
	for range 300 { // more than a user has inotify instances
		subs = append(subs, w.Subscribe([]string{"lock/a"}))
	}
	w.Touch([]string{"lock/a"})
	for _, s := range subs {
		heard(t, s, true)
		s.Close()
	}
}

// A folder that cannot be written leaves only the poll.
func TestWakePolls(t *testing.T) {
	defer goleak.VerifyNone(t)
	file := filepath.Join(t.TempDir(), "wake")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := local.NewWake(file, 20*time.Millisecond)
	defer w.Close()
	sub := w.Subscribe([]string{"lock/a"})
	defer sub.Close()
	heard(t, sub, true)
}

func heard(t *testing.T, s *local.Subscription, want bool) {
	t.Helper()
	patience := 50 * time.Millisecond
	if want {
		patience = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := s.Wait(ctx)
	if want && err != nil {
		t.Fatalf("heard nothing: %v", err)
	}
	if !want && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("heard something: %v", err)
	}
}

func drain(t *testing.T, s *local.Subscription) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_ = s.Wait(ctx)
}
