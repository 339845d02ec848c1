package cli

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tasklock/tasklock/internal/repo"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestConfigCommands(t *testing.T) {
	d := newDesk(t)
	project, user := d.path(".tasklock/config.yaml"), d.path("home/.config/tasklock/config.yaml")
	d.want(0, "1h\n", "config", "get", "locking.taskTimeout")
	d.want(0, "Would set", "config", "set", "locking.taskTimeout", "45m", "--dry-run")
	if repo.Exists(d.path(".tasklock")) {
		t.Error("--dry-run made the folder")
	}
	d.want(0, "Set locking.taskTimeout to 45m", "config", "set", "locking.taskTimeout", "2700s")
	d.want(0, "already", "config", "set", "locking.taskTimeout", "45m")
	d.want(0, "Would set", "config", "set", "--dry-run", "locking.taskTimeout", "46m")
	d.want(0, "", "config", "set", "--user", "locking.jobTimeout", "1m")
	d.want(0, "", "config", "set", "--user", "locking.taskTimeout", "9m")
	d.want(0, "locking.taskTimeout\t45m\t"+project+":2\n", "config", "show")
	d.want(0, "locking.jobTimeout\t1m\t"+user+":2\n", "config", "show")
	d.want(0, `{"key":"owner","value":"me","origin":"TASKLOCK_OWNER"}`, "config", "show", "--json")
	d.want(0, `"value":"you","origin":"--owner"`, "config", "get", "owner", "--json", "--owner", "you")
	d.want(0, project+"\texists", "config", "path")
	if got := read(t, d.path(".tasklock/.gitignore")); got != "*\n" {
		t.Errorf(".gitignore: %q", got)
	}
	for path, want := range map[string]os.FileMode{d.path(".tasklock"): 0o700, project: 0o600, user: 0o600} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
	d.want(0, "postgres://u:xxxxx@h/db\t--store", "config", "show", "--store", "postgres://u:secret@h/db")
	d.want(0, "git:https://xxxxx@h/x.git#b\t--store", "config", "show", "--store", "git:https://u:secret@h/x.git#b")
	d.want(0, "git:https://xxxxx@h/x.git\t--store", "config", "show", "--store", "git:https://secret@h/x.git")
	d.want(0, "git:ssh://git@h/x.git\t--store", "config", "show", "--store", "git:ssh://git@h/x.git")
	d.want(0, "git:git@h:x/y.git\t--store", "config", "show", "--store", "git:git@h:x/y.git")
	d.want(0, "git:https://…\t--store", "config", "show", "--store", "git:https://u:100%@h/x.git")

	d.want(2, "did you mean locking.taskTimeout", "config", "get", "taskTimeout")
	d.want(2, "takes 2 arguments", "config", "set", "owner")
	d.want(2, "unit", "config", "set", "locking.taskTimeout", "45")
	d.want(2, "between", "config", "set", "locking.taskTimeout", "45d")
	d.want(2, "must be true or false", "config", "set", "allowUnsafeFs", "maybe")

	d.put(project, "locking:\n  taskTimeout: 1m\n  tsk: 2\n")
	d.want(3, project+`:3: unknown key "locking.tsk"`, "config", "show")
	d.want(3, "unknown key", "config", "set", "owner", "x")
	d.want(3, `"code":"INVALID_CONFIG"`, "list", "--json")
	d.want(0, "exists", "config", "path")
	if got := read(t, project); got != "locking:\n  taskTimeout: 1m\n  tsk: 2\n" {
		t.Errorf("the broken file was changed: %s", got)
	}
}

func TestConfigSetThroughLinks(t *testing.T) {
	d := newDesk(t)
	user := d.path("home/.config/tasklock/config.yaml")
	d.put(d.path("dotfiles/tasklock.yaml"), "# kept\n")
	d.put(user, "")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Remove(user))
	must(os.Symlink(d.path("dotfiles/tasklock.yaml"), user))
	d.want(0, "", "config", "set", "--user", "owner", "a")
	if got := read(t, d.path("dotfiles/tasklock.yaml")); got != "# kept\nowner: a\n" {
		t.Errorf("%q", got)
	}
	if fi, err := os.Lstat(user); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Error("the link is gone")
	}
	must(os.Mkdir(d.path("elsewhere"), 0o700))
	must(os.Symlink("elsewhere", d.path(".tasklock")))
	d.want(10, "symbolic link", "config", "set", "owner", "a")
	if e, err := os.ReadDir(d.path("elsewhere")); err != nil || len(e) > 0 {
		t.Errorf("written through the link: %v %v", e, err)
	}
}

// Edits at the same time are all there afterwards.
func TestConfigSetAtOnce(t *testing.T) {
	d := newDesk(t)
	keys := []string{"taskTimeout", "sectionTimeout", "jobTimeout", "waitTimeout"}
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			if code, out := d.run("config", "set", "locking."+key, fmt.Sprintf("%dm", i+2)); code != 0 {
				t.Errorf("exit %d: %s", code, out)
			}
		})
	}
	all.Wait()
	for i, key := range keys {
		d.want(0, fmt.Sprintf("%dm\n", i+2), "config", "get", "locking."+key)
	}
	entries, err := os.ReadDir(d.path(".tasklock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".config-") {
			t.Errorf("left behind: %s", e.Name())
		}
	}
}
