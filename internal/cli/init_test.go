package cli

import (
	"os"
	"testing"

	"github.com/tasklock/tasklock/internal/repo"
)

func TestInit(t *testing.T) {
	d := newDesk(t)
	d.want(0, "Would make the store sqlite:"+d.path(".tasklock/tasklock.db"), "init", "--dry-run")
	if repo.Exists(d.path(".tasklock")) {
		t.Fatal("--dry-run made it")
	}
	d.want(0, "Made the store sqlite:"+d.path(".tasklock/tasklock.db"), "init")
	d.want(0, "already exists", "init")
	d.want(0, `"created":false`, "init", "--json")
	if fi, err := os.Stat(d.path(".tasklock")); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", fi, err)
	}
	if got := read(t, d.path(".tasklock/.gitignore")); got != "*\n" {
		t.Errorf(".gitignore %q", got)
	}
	d.want(2, "takes no arguments", "init", "x")
}

// A folder that somebody made by hand is ignored by git too; what somebody
// wrote there stays.
func TestInitInFolderMadeByHand(t *testing.T) {
	d := newDesk(t)
	if err := os.Mkdir(d.path(".tasklock"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.want(0, "Made the store", "init")
	if got := read(t, d.path(".tasklock/.gitignore")); got != "*\n" {
		t.Errorf(".gitignore %q", got)
	}
	d.put(d.path(".tasklock/.gitignore"), "*\n!config.yaml\n")
	d.want(0, "already exists", "init")
	if got := read(t, d.path(".tasklock/.gitignore")); got != "*\n!config.yaml\n" {
		t.Errorf(".gitignore %q", got)
	}
}

func TestInitRefuses(t *testing.T) {
	d := newDesk(t)
	d.put(d.path(".tasklock/tasklock.db"), "not a database, certainly not one of ours")
	d.want(9, "Next: tasklock doctor", "init")
	if got := read(t, d.path(".tasklock/tasklock.db")); got != "not a database, certainly not one of ours" {
		t.Errorf("overwritten: %q", got)
	}
	d = newDesk(t)
	if err := os.Symlink(t.TempDir(), d.path(".tasklock")); err != nil {
		t.Fatal(err)
	}
	d.want(10, "symbolic link", "init")
	d.want(10, "symbolic link", "init", "--dry-run")
}
