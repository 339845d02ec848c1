package mcpserver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/internal/fault"
)

// TestPlantedBugs shows that these tests can fail: built with failpoints and
// with a bug switched on, they must.
func TestPlantedBugs(t *testing.T) {
	if fault.Enabled || testing.Short() {
		t.Skip("builds the tests once more")
	}
	binary := filepath.Join(t.TempDir(), "mcpserver.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "failpoint", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, b := range []struct{ bug, test string }{
		{"", "^TestRace$|^TestLost$|^TestSharedServer$"},
		{"no_compare", "^TestRace$"},                // what was read may have changed meanwhile
		{"complete_unfenced", "^TestLost$"},         // whoever had a task once may complete it
		{"reentrant_by_user", "^TestSharedServer$"}, // clients of one server are one holder
	} {
		cmd := exec.Command(binary, "-test.run", b.test, "-test.timeout", "2m")
		cmd.Env = append(os.Environ(), "TASKLOCK_FAULT_BUG="+b.bug)
		if out, err := cmd.CombinedOutput(); (err == nil) != (b.bug == "") {
			t.Errorf("bug %q: %v\n%s", b.bug, err, out)
		}
	}
}
