// Package plant builds binaries with bugs in them, which show that tests can
// fail.
//
// A bug is a patch against the production source: internal/fault/bugs/NAME.patch.
// It begins with a sentence that says what the bug is and which test catches it.
// Every change in it asks whether the bug of that name is on, so one binary holds
// all bugs and TASKLOCK_FAULT_BUG chooses: a binary for each would take minutes to
// link.
// The patches apply to copies of the sources, which the compiler reads in place
// of the sources (go build -overlay). Nothing in the tree changes. No patch
// imports package fault: that is done here.
package plant

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const folder = "internal/fault/bugs"

// bug is what package fault has besides where bugs are planted. Production code
// cannot ask for a bug: without this file it does not compile.
const bug = `package fault

import (
	"os"
	"slices"
	"strings"
)

var bugs = strings.Split(os.Getenv("TASKLOCK_FAULT_BUG"), ",")

// Bug reports whether TASKLOCK_FAULT_BUG, a comma-separated list, names it.
func Bug(name string) bool { return slices.Contains(bugs, name) }
`

// Build runs go build or go test -c, which args name together with the package,
// with every bug planted, and writes the binary to out.
func Build(out string, args ...string) error {
	scratch, err := os.MkdirTemp("", "tasklock-bugs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	overlay, err := all(scratch)
	if err != nil {
		return err
	}
	last := len(args) - 1
	cmd := exec.Command("go", append(args[:last:last], "-tags=failpoint", "-overlay="+overlay, "-o="+out, args[last])...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, said)
	}
	return nil
}

// all plants every bug and returns the path of the overlay.
func all(scratch string) (string, error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	s := sources{root: root, copies: filepath.Join(scratch, "copies"), replace: map[string]string{}}
	names, err := names(root)
	if err != nil {
		return "", err
	}
	for _, name := range names { // after a change, several may not fit
		err = errors.Join(err, s.plant(name))
	}
	if err != nil {
		return "", err
	}
	return s.overlay(scratch)
}

// names lists the bugs, in the order in which they are planted.
func names(root string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, folder, "*.patch"))
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".patch")
	}
	return files, err
}

// sources are the files of the tree that bugs change, copied.
type sources struct {
	root, copies string
	replace      map[string]string // the path of a source → that of its copy
}

var changed = regexp.MustCompile(`(?m)^\+\+\+ b/(.+)$`)

// plant applies the patch of a bug to the copies.
func (s *sources) plant(name string) error {
	text, err := os.ReadFile(filepath.Join(s.root, file(name)))
	if err != nil {
		return err
	}
	for _, m := range changed.FindAllStringSubmatch(string(text), -1) {
		if err := s.copy(m[1]); err != nil {
			return misfit(name, err)
		}
	}
	// Other bugs may have changed the lines around, except the nearest ones.
	cmd := exec.Command("git", "apply", "-C1", "--whitespace=nowarn", filepath.Join(s.root, file(name)))
	cmd.Dir = s.copies
	cmd.Env = append(os.Environ(), "GIT_DIR="+os.DevNull, "LC_ALL=C")
	if said, err := cmd.CombinedOutput(); err != nil {
		return misfit(name, errors.New(strings.TrimSpace(string(said))))
	}
	return nil
}

// copy makes sure that there is a copy of a source.
func (s *sources) copy(path string) error {
	from, to := filepath.Join(s.root, path), filepath.Join(s.copies, path)
	if s.replace[from] != "" {
		return nil
	}
	text, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no such file", path)
	} else if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	s.replace[from] = to
	return os.WriteFile(to, text, 0o600)
}

const imported = `import "github.com/tasklock/tasklock/internal/fault"`

var clause = regexp.MustCompile(`(?m)^package \w+$`)

// imports makes a copy import package fault, on a line that is there already:
// errors of the compiler then name the lines of the source.
func imports(path string) error {
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), strings.TrimPrefix(imported, "import ")) {
		return err
	}
	return os.WriteFile(path, clause.ReplaceAll(text, []byte("$0; "+imported)), 0o600)
}

// overlay writes the list of copies, and of what is added, as the go command
// reads it.
func (s *sources) overlay(dir string) (string, error) {
	for _, path := range s.replace {
		if err := imports(path); err != nil {
			return "", err
		}
	}
	added := filepath.Join(dir, "bug.go")
	if err := os.WriteFile(added, []byte(bug), 0o600); err != nil {
		return "", err
	}
	s.replace[filepath.Join(s.root, "internal", "fault", "bug.go")] = added
	text, err := json.Marshal(map[string]any{"Replace": s.replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// misfit says how to rebuild a patch that the source has moved away from.
func misfit(name string, why error) error {
	return fmt.Errorf(`the patch of the bug %[1]s does not fit the source: %[2]w
To rebuild it: stage your work (git add -A), plant the bug by hand
(git apply --reject %[3]s plants what still fits), then run
    scripts/bug %[1]s
which writes the patch and takes the bug out of your working tree`, name, why, file(name))
}

func file(name string) string { return folder + "/" + name + ".patch" }

// root is the folder of the module: tests run in that of their package.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("no go.mod in any folder above")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}
