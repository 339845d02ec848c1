//go:build linux

package filestore_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

// What was acknowledged survives loss of power: a file system of its own stops
// in the middle of the work, without writing anything more, and comes back.
func TestPowerLoss(t *testing.T) {
	long.NotShort(t) // mounts a file system
	cuts := 4
	if torture {
		cuts = 50
	}
	d := newDisk(t)
	lost := 0
	for cut := range cuts {
		dir := filepath.Join(d.mount, fmt.Sprintf("store%d", cut))
		acked := d.workAndCut(t, dir)
		if bad := afterCrash(t, dir, acked); bad != "" {
			t.Fatalf("cut %d: %s", cut, bad)
		}
		lost += acked
		must(t, os.RemoveAll(dir))
	}
	if lost == 0 {
		t.Error("nothing was acknowledged: the case has shown nothing")
	}
	t.Logf("%d commits, %d cuts", lost, cuts)
}

// A disk is a file system in a file.
type disk struct{ image, mount string }

func newDisk(t *testing.T) *disk {
	t.Helper()
	needTool(t, "xfs_io", "xfsprogs")
	needTool(t, "mkfs.ext4", "e2fsprogs")
	needTool(t, "mount", "mount")
	dir := t.TempDir()
	d := &disk{image: filepath.Join(dir, "image"), mount: filepath.Join(dir, "mount")}
	must(t, os.WriteFile(d.image, nil, 0o600))
	must(t, os.Truncate(d.image, 64<<20))
	must(t, os.Mkdir(d.mount, 0o700))
	d.run(t, "mkfs.ext4", "-q", "-F", d.image)
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.mount).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: loss of power. This environment does not allow loop devices (root and /dev/loop* are needed): %v %s", err, out)
	}
	t.Cleanup(func() { d.run(t, "umount", d.mount) })
	return d
}

func (d *disk) run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v %s", name, args, err, out)
	}
}

// workAndCut has a process commit until the power goes, and returns how many
// of its commits were acknowledged.
func (d *disk) workAndCut(t *testing.T, dir string) (acked int) {
	t.Helper()
	cmd := command(t, "stream", dir, envLimit+"=1500")
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	lines := bufio.NewReader(out)
	count := func(stop func() bool) {
		for !stop() {
			line, err := lines.ReadString('\n')
			if err == io.EOF {
				return
			}
			must(t, err)
			if line == "ok\n" {
				acked++
			}
		}
	}
	first := rand.IntN(120)
	count(func() bool { return acked > first })
	cutDone := make(chan error, 1)
	go func() {
		time.Sleep(rand.N(3 * time.Millisecond))
		cutDone <- exec.Command("xfs_io", "-x", "-c", "shutdown", d.mount).Run()
	}()
	count(func() bool { return false })
	must(t, <-cutDone)
	_ = cmd.Wait()
	d.run(t, "umount", d.mount)
	d.run(t, "mount", "-o", "loop", d.image, d.mount)
	return acked
}
