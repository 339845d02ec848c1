//go:build linux

package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tasklock/tasklock/internal/torture/long"
)

// TestPowerLoss cuts the power of a disk in the middle of the work, again and
// again: what was acknowledged is there afterwards, and no token comes twice.
func TestPowerLoss(t *testing.T) {
	eachFolder(t, func(t *testing.T, b backend) {
		d := newDisk(t, b)
		kept, cuts := 0, 0
		for range long.Loop(t, 2, 45*time.Second) {
			n, err := d.cut(nil)
			if err != nil {
				t.Fatal(err)
			}
			kept, cuts = kept+n, cuts+1
		}
		if kept == 0 {
			t.Fatal("nothing was acknowledged before any cut: that shows nothing")
		}
		t.Logf("%d cuts, %d acknowledged locks, all of them survived", cuts, kept)
	})
}

// TestPowerLossNeedsSync turns fsync into a lie: now locks must get lost, or
// the test above could not see it.
func TestPowerLossNeedsSync(t *testing.T) {
	needStrace(t)
	lie := []string{"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:retval=0", "--"}
	eachFolder(t, func(t *testing.T, b backend) {
		d := newDisk(t, b)
		for range 5 {
			if _, err := d.cut(lie); err != nil {
				t.Logf("caught: %v", err)
				return
			}
		}
		t.Fatal("without fsync nothing was lost in five cuts: the test cannot fail")
	})
}

// A disk is a file system on a loop device whose power can be cut.
type disk struct {
	backend
	binary, worker string
	image, mount   string
	generation     int
	tokens         int64 // the highest that was ever acknowledged
}

func newDisk(t *testing.T, b backend) *disk {
	t.Helper()
	for tool, pkg := range map[string]string{"mkfs.ext4": "e2fsprogs", "mount": "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is missing; run: apt-get install %s", tool, pkg)
		}
	}
	d := &disk{backend: b, binary: command(t), worker: workerProgram(t), image: filepath.Join(tempDir(t), "image"), mount: tempDir(t)}
	must(t, os.WriteFile(d.image, nil, 0o600))
	must(t, os.Truncate(d.image, 64<<20))
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.mount).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: loss of power. This environment does not allow loop devices (root and /dev/loop* are needed): %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", d.mount).Run() })
	return d
}

func (d *disk) command(before []string, args ...string) *exec.Cmd {
	line := append(append([]string{}, before...), d.binary, "--store", d.at(d.mount), "--json")
	line = append(line, args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = cleanEnv()
	return cmd
}

// acquire takes a key and returns its token, or 0 if that was not told.
func (d *disk) acquire(before []string, args ...string) int64 {
	out, err := d.command(before, append([]string{"acquire"}, args...)...).Output()
	var r struct{ Data struct{ Token int64 } }
	if err != nil || json.Unmarshal(out, &r) != nil {
		return 0
	}
	return r.Data.Token
}

// cut works, cuts the power at a random moment, and looks at what is left. It
// returns how many locks had been acknowledged. before stands in front of
// every command.
func (d *disk) cut(before []string) (int, error) {
	d.generation++
	var mu sync.Mutex
	held := map[string]int64{}
	var workers sync.WaitGroup
	off := make(chan struct{})
	for w := range 3 {
		workers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-off:
					return
				default:
				}
				key := fmt.Sprintf("g%d-w%d-%d", d.generation, w, i)
				mine := d.acquire(before, key, "--owner", "o", "--no-wait")
				shared := d.acquire(before, "shared", "--owner", fmt.Sprint("w", w), "--wait", "1s", "--ttl", "500ms")
				mu.Lock()
				if mine > 0 {
					held[key] = mine
				}
				d.tokens = max(d.tokens, mine, shared)
				mu.Unlock()
				if shared > 0 {
					_ = d.command(before, "release", "shared", "--owner", fmt.Sprint("w", w)).Run()
				}
			}
		})
	}
	time.Sleep(300*time.Millisecond + rand.N(time.Second))
	for slow := time.Now().Add(30 * time.Second); time.Now().Before(slow); time.Sleep(10 * time.Millisecond) { // until there is something to lose
		mu.Lock()
		n := len(held)
		mu.Unlock()
		if n > 1 {
			break
		}
	}
	// Reports from here on do not count: an fsync that is under way when
	// the power goes may say that it succeeded. So it does without any database:
	// 22 times in 300 cuts, and never before the cut began.
	mu.Lock()
	cut, told := maps.Clone(held), d.tokens
	mu.Unlock()
	err := d.powerOff()
	close(off)
	workers.Wait()
	d.tokens = told
	return len(cut), errors.Join(err, d.remount(), d.whole(cut))
}

// powerOff makes the file system forget, this instant, all that it has not
// written: "xfs_io -x -c shutdown" without starting a process.
func (d *disk) powerOff() error {
	const goingDown, noLogFlush = 0x8004587d, 2 // XFS_IOC_GOINGDOWN, which ext4 knows too
	dir, err := os.Open(d.mount)
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.IoctlSetPointerInt(int(dir.Fd()), goingDown, noLogFlush)
}

// remount is the next start of the machine.
func (d *disk) remount() error {
	if out, err := exec.Command("umount", d.mount).CombinedOutput(); err != nil {
		return fmt.Errorf("umount: %w: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.mount).CombinedOutput(); err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	return nil
}

// whole requires that all these locks are there, and that tokens go on above
// every one that was ever told.
func (d *disk) whole(held map[string]int64) error {
	if wrong := d.damage(d.at(d.mount), d.mount); len(wrong) > 0 {
		return fmt.Errorf("the store is not whole: %q", wrong)
	}
	all, err := ReadFresh(d.worker, d.at(d.mount))
	if err != nil {
		return err
	}
	var lost []string
	for key, token := range held {
		if rec, ok := all["lock/"+key]; !ok || rec.Rev != token {
			lost = append(lost, fmt.Sprintf("%s with token %d is %v", key, token, rec))
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("%d of %d acknowledged locks are lost, the store is at revision %d, %d was reported: %q",
			len(lost), len(held), all.MaxRev(), d.tokens, lost)
	}
	if next := d.acquire(nil, "shared", "--owner", "next", "--wait", "30s", "--ttl", "100ms"); next <= d.tokens {
		return fmt.Errorf("token %d after %d was reported", next, d.tokens)
	}
	return nil
}
