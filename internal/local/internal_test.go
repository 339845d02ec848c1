package local

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// Where the kernel gives no watcher, the times of the files tell.
func TestWakeBlind(t *testing.T) {
	w := NewWake(filepath.Join(t.TempDir(), "wake"), time.Hour)
	defer w.Close()
	sub := w.Subscribe([]string{"lock/a"})
	defer sub.Close()
	hub.unsubscribe(sub)
	sub.blind = true
	sub.seen = sub.times()
	w.Touch([]string{"lock/a"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := sub.Wait(ctx); err != nil {
		t.Error(err)
	}
}

// The refusal says where the trouble is, and both ways out of it.
func TestUnsafeFileSystemIsNamed(t *testing.T) {
	err := judge("/mnt/share/store", "nfs", false)
	for _, word := range []string{"/mnt/share/store", "nfs", "local disk", "--allow-unsafe-fs"} {
		if !errors.Is(err, driver.ErrUnsafe) || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
}
