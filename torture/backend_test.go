//go:build linux

package torture

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

// A backend is a place for records, as far as the tests have to know it: a new
// one is a new value of this type and a case in openURL.
type backend struct {
	name   string
	url    func(dir string) string   // of a store below that folder
	damage func(dir string) []string // what is wrong with it
	files  []string                  // that may stay in the store's folder
}

var sqlite = backend{
	name: "sqlite",
	url:  func(dir string) string { return "sqlite:" + filepath.Join(dir, "store", "tasklock.db") },
	damage: func(dir string) []string {
		r, err := sqlitestore.Inspect(context.Background(), filepath.Join(dir, "store", "tasklock.db"))
		if err != nil {
			return []string{err.Error()}
		}
		return r.Problems
	},
	files: []string{"tasklock.db", "tasklock.db-wal", "tasklock.db-shm", "gate", "wake", ".gitignore"},
}

// openURL knows every backend that is tortured.
func openURL(ctx context.Context, url string) (driver.Store, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return sqlitestore.Open(ctx, path, &sqlitestore.Options{Create: true})
	}
	return nil, fmt.Errorf("no backend for %s", url)
}

// leftovers lists the files in the store's folder that do not belong there.
func (b backend) leftovers(dir string) (all []string) {
	entries, err := os.ReadDir(filepath.Join(dir, "store"))
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range entries {
		if !slices.Contains(b.files, e.Name()) {
			all = append(all, e.Name()+" was left behind")
		}
	}
	return all
}

// doctor asks the command what it thinks of the store.
func (b backend) doctor(binary, dir string) []string {
	cmd := exec.Command(binary, "--store", b.url(dir), "--owner", "doctor", "doctor")
	cmd.Env = cleanEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		return []string{fmt.Sprintf("doctor: %v: %s", err, out)}
	}
	return nil
}
