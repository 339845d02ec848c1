package task_test

import (
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

// A lock on keys that are not tasks takes one read, although each might be a task of
// a section.
func TestOuterKeyIsReadWithTheLock(t *testing.T) {
	counted := drivertest.NewCounted(memstore.New())
	st := store.New(counted)
	keys := []string{"a", "section:B", "path:c/**", "d e"}
	r := lease.AcquireRequest{Keys: keys, Owner: "me", OuterKey: task.OuterKey, Need: task.NeedOuterKey(keys)}
	if _, err := lease.Acquire(t.Context(), st, r); err != nil {
		t.Fatal(err)
	}
	if c := counted.Take(); c.Reads != 1 {
		t.Errorf("%d reads", c.Reads)
	}
	if need := task.NeedOuterKey([]string{"", "\xff", "section:x"}); len(need) > 0 {
		t.Errorf("needs %q", need)
	}
}
