package lock_test

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/fault"
)

// TestPlantedBugs shows that the simulation can fail: the same test, built with
// failpoints and with a bug switched on, must find it, and without one must not.
func TestPlantedBugs(t *testing.T) {
	if fault.Enabled || racy || testing.Short() {
		t.Skip("builds the tests once more")
	}
	binary := filepath.Join(t.TempDir(), "lock.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "failpoint", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, bug := range []string{
		"",
		"release_unchecked",   // whoever asks releases
		"no_compare",          // what was read may have changed meanwhile
		"reentrant_by_user",   // two workers of one user are one
		"empty_is_free",       // a lock before its lease
		"deadline_from_reply", // trust counts from the answer, not from the question
		"renew_unchecked",     // a heartbeat takes back what is someone else's
	} {
		t.Run(cmp.Or(bug, "none"), func(t *testing.T) {
			cmd := exec.Command(binary, "-test.run", "^TestSimulate$", "-test.timeout", "5m")
			cmd.Env = append(os.Environ(), "TASKLOCK_FAULT_BUG="+bug, "TASKLOCK_SEED=0", "TASKLOCK_SEEDS=400")
			if bug == "" {
				cmd.Env = append(cmd.Env, "TASKLOCK_SEEDS=20")
			}
			out, err := cmd.CombinedOutput()
			if found := bytes.Contains(out, []byte("TASKLOCK_SEEDS=1)")); found != (bug != "") || found == (err == nil) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
