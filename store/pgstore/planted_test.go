//go:build failpoint

package pgstore_test

import (
	"os"
	"os/exec"
	"testing"
)

// The tests must find a schema that dates records by the beginning of their
// transaction, one that draws revisions from a sequence, and a NOTIFY that does
// not say what it should: waiters are then served by their own looking only.
func TestPlantedBugs(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	for bug, run := range map[string]string{
		"pg_now":            "^TestAgeCountsFromTheWriting$",
		"sequence_revision": "^TestConformance$/(histories|unrelated)",
		"lost_notify":       "^TestNotifiesOnlyListeners$",
	} {
		caught := false
		for range 10 { // races need luck; a bug that is never found is the failure
			cmd := exec.Command(exe, "-test.run", run, "-test.count=1")
			cmd.Env = append(os.Environ(), "TASKLOCK_FAULT_BUG="+bug, "TASKLOCK_FAULT_JITTER=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				caught = true
				t.Logf("%s: caught: %.300s", bug, out)
				break
			}
		}
		if !caught {
			t.Errorf("the tests pass with %s in place", bug)
		}
	}
}

// With every NOTIFY lost, waiters are served all the same, by looking.
func TestPlantedLossIsSurvived(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, "-test.run", "^TestConformance$/wait_wakes_for_(a_changed|another_handle)", "-test.count=1")
	cmd.Env = append(os.Environ(), "TASKLOCK_FAULT_BUG=lost_notify")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
