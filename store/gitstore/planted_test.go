//go:build failpoint

package gitstore_test

import (
	"os"
	"os/exec"
	"testing"
)

// The tests must find a store in which two clients can make the same commit,
// whether the loser is told so by git or has to look.
func TestPlantedBugs(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	for bug, run := range map[string]string{"git_no_nonce": "^TestClonesOnOneKey$", "git_same_wins": "^TestClonesOnOneKey$"} {
		caught := false
		for range 10 { // races need luck; a bug that is never found is the failure
			cmd := exec.Command(exe, "-test.run", run, "-test.count=1")
			cmd.Env = append(os.Environ(), "TASKLOCK_FAULT_BUG="+bug, "TASKLOCK_FAULT_JITTER=1")
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
