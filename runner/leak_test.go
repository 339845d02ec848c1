//go:build linux || darwin

package runner_test

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/tasklock/tasklock/runner"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// Not parallel: it counts what the whole process has.
func TestNothingIsLeft(t *testing.T) {
	keepers(t, func(t *testing.T, guardian []string) {
		round := func() {
			var out bytes.Buffer
			for _, command := range [][]string{{"true"}, {"sh", "-c", "exit 3"}, {"sh", "-c", "sleep 600 & exit 0"}, {"/dev/null/no"}, {"/dev/null"}} {
				o := options(guardian, command)
				o.Stdin, o.Stdout, o.Forward = bytes.NewReader([]byte("x")), &out, true
				_, _ = runner.Run(context.Background(), memory(), o)
			}
			o := options(guardian, []string{"sleep", "600"})
			o.Grace = 50 * time.Millisecond
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, _ = runner.Run(ctx, memory(), o)
		}
		round()
		before := descriptors(t)
		for range 5 {
			round()
		}
		if after := descriptors(t); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
		goleak.VerifyNone(t)
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
			t.Errorf("a child is left: %d, %v", pid, err)
		}
	})
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
