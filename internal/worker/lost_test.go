//go:build linux || darwin

package worker_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

// firstReplyLost applies the first commit and does not say so.
type firstReplyLost struct {
	driver.Store
	lost atomic.Bool
}

func (s *firstReplyLost) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	rev, err := s.Store.Commit(ctx, b)
	if err == nil && s.lost.CompareAndSwap(false, true) {
		return 0, drivertest.ErrFlaky
	}
	return rev, err
}

// A runner whose announcement was written, and the reply lost, is not another runner.
func TestRunnerKnowsItself(t *testing.T) {
	st := &firstReplyLost{Store: memstore.New()}
	_, err := worker.Work(t.Context(), store.New(st), worker.Options{Owner: "me", Name: "R", Command: []string{"true"}})
	if err != nil || !st.lost.Load() {
		t.Fatal(err, st.lost.Load())
	}
}
