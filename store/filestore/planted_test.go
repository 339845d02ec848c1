//go:build failpoint && linux

package filestore_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The tests must find each of these bugs.
func TestPlanted(t *testing.T) {
	for bug, test := range map[string]string{
		"journal_emptied_early": "^TestPowerLoss$",
		"no_dir_sync":           "^TestPowerLoss$",
		"empty_is_free":         "^TestDamagedRecord$/^empty$",
	} {
		t.Run(bug, func(t *testing.T) {
			exe, err := os.Executable()
			must(t, err)
			cmd := exec.Command(exe, "-test.run", test, "-test.count=1", "-test.v")
			cmd.Env = append(os.Environ(), "TASKLOCK_FAULT_BUG="+bug, "TASKLOCK_TORTURE=1")
			out, err := cmd.CombinedOutput()
			if strings.Contains(string(out), "NOT TESTED") {
				t.Skipf("%s", out)
			}
			if err == nil {
				t.Errorf("%s passes with the bug in place:\n%s", test, out)
			}
			t.Logf("%s", out)
		})
	}
}
