package etcdtest_test

import (
	"testing"

	"github.com/tasklock/tasklock/internal/etcdtest"
)

// TestServerIsBuilt builds the server if need be; make runs it before all other
// tests, so that none of them pays for it.
func TestServerIsBuilt(t *testing.T) {
	path, err := etcdtest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(path)
}

// TestMemberStarts has one member ready.
func TestMemberStarts(t *testing.T) {
	c := etcdtest.Start(t, 1)
	if i, err := c.Leader(); err != nil || i != 0 {
		t.Fatalf("leader %d, %v", i, err)
	}
}
