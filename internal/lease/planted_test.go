package lease_test

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tasklock/tasklock/internal/fault"
)

// TestPlantedBugs shows that the simulation and the sequences can fail: the same test, built with
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
		"users_unrecorded",    // who works under a lock is not noted in its lease
		"keeper_releases",     // a keeper gives back what lives with another process now
		"abandon_adopted",     // who gives up waiting gives back what another call was granted
	} {
		t.Run(cmp.Or(bug, "none"), func(t *testing.T) {
			test, seeds := "^TestSimulate$", "400"
			switch {
			case bug == "":
				seeds = "20"
			case slices.Contains([]string{"users_unrecorded", "keeper_releases", "abandon_adopted"}, bug):
				test = "^TestSequences$"
			}
			cmd := exec.Command(binary, "-test.run", test, "-test.timeout", "5m")
			cmd.Env = append(os.Environ(), "TASKLOCK_FAULT_BUG="+bug, "TASKLOCK_SEED=0", "TASKLOCK_SEEDS="+seeds)
			out, err := cmd.CombinedOutput()
			if found := bytes.Contains(out, []byte("TASKLOCK_SEEDS=1)")); found != (bug != "") || found == (err == nil) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
