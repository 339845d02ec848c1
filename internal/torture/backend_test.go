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
	"testing"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// A backend is a place for records, as far as the tests have to know it. A new
// one is a value of this type in a file of its own, named in backends. What it
// leaves out is not asked of it.
type backend struct {
	name   string
	scheme string // of its URLs
	open   Open   // where there is none, makes one

	// create makes an empty store below a folder, and whatever it needs, and
	// returns its URL. Nil: the store is a folder, see at.
	create func(t testing.TB, dir string) string
	// at is the URL of a store that is nothing but a folder: it can be copied,
	// and lie on a disk whose power is cut.
	at    func(dir string) string
	files []string // that may stay in that folder

	// machine puts the n-th worker on a machine of its own, by variables of
	// its environment. Nil: all of them are on one.
	machine func(dir string, n int) []string
	// damage says what is wrong with the store.
	damage func(url, dir string) []string

	// race makes a run as hard as the backend can bear, its length by full.
	race func(c *Config)
	// ttl is the shortest that a holder on a busy machine can keep.
	ttl time.Duration
	// tasks is how many rounds there are of each race of tasks in the short form.
	tasks int
	// stepClock sets the clock by which records are dated forward by an hour.
	stepClock func(url string) func() error
	// bugs can be planted in this backend only.
	bugs []planted

	// brief is what the short form leaves of the above.
	brief brief
}

// brief keeps CI short: what the rules do is the same on every backend, and
// has been seen on SQLite. Zero means everything.
type brief struct {
	modes []Mode   // in which contention is run
	bugs  []string // that are planted, in the first of these modes
}

// modes are those in which a run is made.
func (b backend) modes() []Mode {
	if b.brief.modes == nil || full() {
		return []Mode{Library, Binary}
	}
	return b.brief.modes
}

// backends are all that are tortured.
var backends = []backend{sqlite, files, gitFile, gitHTTP, etcd, postgres, overHTTP}

// eachBackend runs a test on all of them.
func eachBackend(t *testing.T, test func(t *testing.T, b backend)) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) { test(t, b) })
	}
}

// eachFolder runs a test on those that are nothing but a folder.
func eachFolder(t *testing.T, test func(t *testing.T, b backend)) {
	for _, b := range backends {
		if b.at != nil {
			t.Run(b.name, func(t *testing.T) { test(t, b) })
		}
	}
}

// open opens a store, and makes it first where there is none.
func open(ctx context.Context, url string) (driver.Store, error) {
	return driver.Open(ctx, url, &driver.OpenOptions{Create: true})
}

// problems are what a driver finds wrong with its store.
func problems(url, _ string) []string {
	r, err := driver.Inspect(context.Background(), url)
	if err != nil {
		return []string{err.Error()}
	}
	return r.Problems
}

// openURL opens a store of any backend.
func openURL(ctx context.Context, url string) (driver.Store, error) {
	scheme, _, _ := strings.Cut(url, ":")
	for _, b := range backends {
		if b.scheme == scheme {
			return b.open(ctx, url)
		}
	}
	return nil, fmt.Errorf("no backend for %s", url)
}

// A place is a store of a backend.
type place struct {
	backend
	dir, url string
}

// place makes a new store.
func (b backend) place(t testing.TB) place {
	t.Helper()
	dir := tempDir(t)
	if b.create == nil {
		return place{b, dir, b.at(dir)}
	}
	return place{b, dir, b.create(t, dir)}
}

// env is the environment of whatever runs on the n-th machine.
func (p place) env(n int) []string { return append(cleanEnv(), p.only(n)...) }

func (p place) only(n int) []string {
	if p.machine == nil {
		return nil
	}
	return p.machine(p.dir, n)
}

// wrong lists what is not as it should be when all is over.
func (p place) wrong(t testing.TB) []string {
	return append(p.damage(p.url, p.dir), p.doctor(command(t))...)
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
func (p place) doctor(binary string) []string {
	cmd := exec.Command(binary, "--store", p.url, "--owner", "doctor", "doctor", "--timeout", "2m")
	cmd.Env = p.env(0)
	if out, err := cmd.CombinedOutput(); err != nil {
		return []string{fmt.Sprintf("doctor: %v: %s", err, out)}
	}
	return nil
}
