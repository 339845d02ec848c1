package store_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/internal/fault"
)

// TestPlantedBugs shows that the tests can fail.
func TestPlantedBugs(t *testing.T) {
	if fault.Enabled || testing.Short() {
		t.Skip("builds the tests once more")
	}
	binary := filepath.Join(t.TempDir(), "store.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "failpoint", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, bug := range []string{
		"",
		"move_unsealed",       // the old store stays open
		"move_same_revisions", // tokens begin again
		"move_unseen",         // whatever is in the target belongs to the copy
		"upgrade_unclosed",    // older versions write while the records are converted
		"seen_is_kept",        // a receipt counts as soon as it can be seen
	} {
		t.Run(cmp.Or(bug, "none"), func(t *testing.T) {
			cmd := exec.Command(binary, "-test.run", "^Test(Move(WhileOthersWrite|DiesAnywhere|Refuses)|UpgradeLocal|SeenIsNotKept)$", "-test.timeout", "5m")
			cmd.Env = append(os.Environ(), "TASKLOCK_FAULT_BUG="+bug)
			if out, err := cmd.CombinedOutput(); (err == nil) != (bug == "") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
