//go:build failpoint

package sqlitestore_test

import (
	"os"
	"os/exec"
	"testing"
)

// The suite must find a transaction that looks before it locks.
func TestPlantedDeferredTransaction(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, "-test.run", "^TestConformance$/(one_winner|write_skew)", "-test.count=10", "-test.failfast") // races need luck
	cmd.Env = append(os.Environ(), "TASKLOCK_FAULT_BUG=deferred_transaction", "TASKLOCK_FAULT_JITTER=1")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("the suite passes with the bug in place:\n%s", out)
	}
}
