//go:build failpoint

package etcdstore_test

import (
	"os"
	"os/exec"
	"testing"
)

// The tests must find a store that hangs records on leases which end too soon.
func TestPlantedBugs(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	for bug, run := range map[string]string{"etcd_stale_lease": "^TestNoRecordEndsEarly$"} {
		caught := false
		for range 5 { // on a busy machine an end may be seen late
			cmd := exec.Command(exe, "-test.run", run, "-test.count=1")
			cmd.Env = append(os.Environ(), "TASKLOCK_FAULT_BUG="+bug)
			if _, err := cmd.CombinedOutput(); err != nil {
				caught = true
				break
			}
		}
		if !caught {
			t.Errorf("the tests pass with %s in place", bug)
		}
	}
}
