package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store/driver"
)

// lodging is a project with a home, both empty.
type lodging struct {
	project, user string // the files
	in            Input
	env           map[string]string
}

func newPlace(t *testing.T) *lodging {
	t.Helper()
	root := t.TempDir()
	p := &lodging{env: map[string]string{"XDG_CONFIG_HOME": filepath.Join(root, "xdg"), "HOME": root}}
	p.in = Input{
		Place: place.Place{Kind: place.Project, Folder: filepath.Join(root, "work", repo.StoreDir)},
		Env:   func(k string) string { return p.env[k] },
		Flags: map[string]string{},
	}
	p.project = filepath.Join(p.in.Place.Folder, "config.yaml")
	p.user = filepath.Join(root, "xdg", "tasklock", "config.yaml")
	return p
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConfigDefaults(t *testing.T) {
	p := newPlace(t)
	c, err := Load(p.in)
	if err != nil {
		t.Fatal(err)
	}
	url, named := c.Store()
	if want := "sqlite:" + filepath.Join(p.in.Place.Folder, "tasklock.db"); url != want || named {
		t.Errorf("store %q, named %v, want %q", url, named, want)
	}
	got := fmt.Sprint(c.Times().Task, c.Times().Path, c.Times().Section, c.Times().Job, c.WaitTimeout(), c.PollInterval(), c.AllowUnsafeFS(), c.Text("owner") == "")
	if want := "1h0m0s 1h0m0s 2h0m0s 5m0s 30m0s 5s false true"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := os.Stat(filepath.Dir(p.project)); !errors.Is(err, os.ErrNotExist) {
		t.Error("loading made the folder")
	}
	for _, s := range Settings {
		if s.def == "" {
			continue
		}
		if text, err := s.Norm(s.def); err != nil || text != s.def {
			t.Errorf("default of %s: %q, %v", s.Key, text, err)
		}
	}
}

// Each place beats those after it, and every value says where it comes from.
func TestConfigPrecedence(t *testing.T) {
	p := newPlace(t)
	step := func(want, origin string) {
		t.Helper()
		c, err := Load(p.in)
		if err != nil {
			t.Fatal(err)
		}
		if v := c.values["owner"]; v.text != want || v.origin != origin {
			t.Errorf("owner %q from %q, want %q from %q", v.text, v.origin, want, origin)
		}
	}
	step("", "default")
	put(t, p.user, "# mine\nowner: u\n")
	step("u", p.user+":2")
	put(t, p.project, "locking:\n  taskTimeout: 1h\nowner:\n  _description: who\n  value: p\n")
	step("p", p.project+":5")
	p.env["TASKLOCK_OWNER"] = "e"
	step("e", "TASKLOCK_OWNER")
	p.in.Flags["owner"] = "f"
	step("f", "--owner")
}

func TestConfigValues(t *testing.T) {
	p := newPlace(t)
	put(t, p.user, `
_description: "all of it"
locking:
  _description: "Task locking settings"
  taskTimeout:
    _description: "Default task lock expiry"
    _default: "60m"
    value: "45m"
  sectionTimeout: 90m
  waitTimeout: {value: 2d}
allowUnsafeFs: true
`)
	put(t, p.project, "locking:\nstore: sqlite:other.db\n")
	p.env["TASKLOCK_POLL_INTERVAL"] = "250ms"
	p.env["TASKLOCK_ALLOW_UNSAFE_FS"] = "0"
	c, err := Load(p.in)
	if err != nil {
		t.Fatal(err)
	}
	if c.Times().Task != 45*time.Minute || c.Times().Section != 90*time.Minute || c.WaitTimeout() != 48*time.Hour ||
		c.PollInterval() != 250*time.Millisecond || c.AllowUnsafeFS() {
		t.Errorf("%+v", c.values)
	}
	if url, named := c.Store(); url != "sqlite:"+filepath.Join(p.in.Place.Folder, "other.db") || !named {
		t.Errorf("store %q, %v", url, named)
	}
}

func TestAnchor(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:x.db": "sqlite:/p/x.db", "sqlite:../x.db": "sqlite:/x.db", "sqlite:/a/x.db": "sqlite:/a/x.db", "sqlite:///a/x.db": "sqlite:///a/x.db",
		"x.db": "/p/x.db", "/a/x.db": "/a/x.db", "postgres://h/db": "postgres://h/db", "etcd:h": "etcd:h", "sqlite:": "sqlite:",
	} {
		if got := Anchor(url, "/p"); got != want {
			t.Errorf("anchor(%q) = %q, want %q", url, got, want)
		}
	}
	for _, c := range [][4]string{ // typed, where, in a file whose paths start there, written
		{"sqlite:.tasklock/tasklock.db", "/p", "/p/.tasklock", "sqlite:tasklock.db"},
		{"sqlite:own.db", "/p/sub", "/p/.tasklock", "sqlite:../sub/own.db"},
		{"own.db", "/p", "/p", "own.db"},
		{"git:./locks.git", "/p/sub", "/p", "git:./sub/locks.git"},
		{"file:locks", "/p", "", "file:/p/locks"},
		{"git:origin", "/p/sub", "/p", "git:origin"},
		{"sqlite:/a/x.db", "/p", "/p", "sqlite:/a/x.db"},
		{"postgres://h/db", "/p/sub", "/p", "postgres://h/db"},
	} {
		got := Reanchor(c[0], c[1], c[2])
		if got != c[3] {
			t.Errorf("reanchor(%q, %q, %q) = %q, want %q", c[0], c[1], c[2], got, c[3])
		}
		if c[2] != "" && Anchor(got, c[2]) != Anchor(c[0], c[1]) {
			t.Errorf("%q in %s means another store than %q in %s", got, c[2], c[0], c[1])
		}
	}
}

// Every mistake is an error with file and line.
func TestConfigMistakes(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "owner: a\nstor: b\n", `:2: unknown key "stor", did you mean store?`},
		{"unknown nested key", "locking:\n  taskTimeot: 1m\n", `:2: unknown key "locking.taskTimeot", did you mean locking.taskTimeout?`},
		{"wrong level", "taskTimeout: 1m\n", `:1: unknown key "taskTimeout", did you mean locking.taskTimeout?`},
		{"wrong case", "locking:\n  tasktimeout: 1m\n", `did you mean locking.taskTimeout?`},
		{"nothing like it", "quux: 1\n", `:1: unknown key "quux"`},
		{"dotted key", "locking.taskTimeout: 1m\n", ":1: \"locking.taskTimeout\" must be written on two levels"},
		{"key that is not text", "[1, 2]: 3\n", `:1: unknown key ""`},
		{"merge key", "<<: {owner: a}\n", `:1: unknown key "<<"`},
		{"unknown in described form", "owner:\n  value: a\n  _defualt: b\n", `:3: unknown key "owner._defualt"`},
		{"described form without value", "owner:\n  _default: b\n", `:2: owner has a description but no value`},
		{"value twice", "owner: {value: a, value: b}\n", `"owner.value" is here twice`},
		{"description that is not text", "_description: [1]\n", `:1: "_description" must be text`},
		{"duplicate", "owner: a\nowner: b\n", `:2: "owner" is here twice, first on line 1`},
		{"duplicate group", "locking:\n  jobTimeout: 1m\nlocking:\n  taskTimeout: 1m\n", `:3: "locking" is here twice`},
		{"no value", "owner:\n", `:1: owner has no value`},
		{"list", "owner: [a]\n", `:1: owner must have one value`},
		{"list for the file", "- a\n", `:1: the file must hold keys`},
		{"text for a group", "locking: 60m\n", `:1: locking must hold keys`},
		{"number for text", "owner: 7\n", `:1: owner must be text`},
		{"text for a bool", "allowUnsafeFs: \"true\"\n", `:1: allowUnsafeFs must be true or false`},
		{"old bool", "allowUnsafeFs: yes\n", `:1: allowUnsafeFs must be true or false`},
		{"empty owner", "owner: ''\n", `:1: owner: owner ""`},
		{"empty store", "store: ''\n", `:1: store: must name a store`},
		{"escape in store", "store: \"sqlite:\\e[2J\"\n", `:1: store: must name a store`},
		{"no unit", "locking:\n  taskTimeout: 60\n", `:2: locking.taskTimeout: "60" has no unit`},
		{"no unit in quotes", "locking:\n  taskTimeout: '60'\n", `:2: locking.taskTimeout: duration "60"`},
		{"zero", "locking: {waitTimeout: 0}\n", `"0" has no unit`},
		{"zero seconds", "locking: {taskTimeout: 0s}\n", `must be between 100ms and 30d`},
		{"negative", "locking: {taskTimeout: -5s}\n", `must be between 100ms and 30d`},
		{"too long", "locking: {taskTimeout: 31d}\n", `must be between 100ms and 30d`},
		{"poll too long", "locking: {pollInterval: 2h}\n", `must be between 100ms and 1h`},
		{"float", "locking: {taskTimeout: 1e99}\n", `"1e99" has no unit`},
		{"NaN", "locking: {taskTimeout: .nan}\n", `".nan" has no unit`},
		{"overflow", "locking: {taskTimeout: 99999999999999h}\n", `locking.taskTimeout: duration`},
		{"tab", "locking:\n\ttaskTimeout: 60m\n", `:2: found character that cannot start any token`},
		{"not UTF-8", "owner: a\n# \xff\n", `:2: is not UTF-8`},
		{"two documents", "owner: a\n---\nowner: b\n", `a second document`},
		{"second document is broken", "owner: a\n---\n[\n", `did not find`},
		{"alias", "owner: &x a\nstore: *x\n", `:1: anchors and aliases`},
		{"alias bomb", bomb(), `anchors and aliases`},
		{"deep", "a: " + strings.Repeat("[", 100_000) + "\n", `exceeded`},
		{"deep and closed", strings.Repeat("{a: ", 20_000) + strings.Repeat("}", 20_000), `exceeded`},
		{"large", "# " + strings.Repeat("x", maxSize) + "\n", fmt.Sprintf("at most %d", maxSize)},
		{"control character", "owner: a\x01b\n", `control characters are not allowed`},
		{"binary tag", "owner: !!binary aGk=\n", `:1: owner must be text`},
		{"own tag", "owner: !x y\n", `:1: owner must be text`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			put(t, p.project, c.text)
			begin := time.Now()
			_, err := Load(p.in)
			var bad *Error
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), p.project+":") {
				t.Fatalf("error %v\nwant %s", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
				t.Errorf("not a short line: %q", err)
			}
			if d := time.Since(begin); d > 20*time.Second {
				t.Errorf("took %v", d)
			}
			if now, _ := os.ReadFile(p.project); string(now) != c.text {
				t.Error("the file was changed")
			}
		})
	}
}

// bomb grows to 10^9 values when its aliases are followed.
func bomb() string {
	b := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		b += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return b
}

func TestConfigEnvAndFlagMistakes(t *testing.T) {
	p := newPlace(t)
	p.env["TASKLOCK_TASK_TIMEOUT"] = "60"
	_, err := Load(p.in)
	var bad *Error
	if !errors.As(err, &bad) || bad.File != "TASKLOCK_TASK_TIMEOUT" {
		t.Errorf("environment: %v", err)
	}
	p = newPlace(t)
	p.in.Flags["owner"] = "a//b"
	var invalid *lease.InvalidError
	if _, err := Load(p.in); !errors.As(err, &invalid) {
		t.Errorf("flag: %v", err)
	}
}

func TestConfigFilesThatAreNone(t *testing.T) {
	p := newPlace(t)
	for _, text := range []string{"", "\n", "# only a comment\n", "---\n", "null\n", "{}\n", "locking:\n"} {
		put(t, p.project, text)
		if _, err := Load(p.in); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := os.Remove(p.project); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(p.project, 0o700); err != nil {
		t.Fatal(err)
	}
	var bad *Error
	if _, err := Load(p.in); !errors.As(err, &bad) {
		t.Errorf("a folder in place of the file: %v", err)
	}
}

func TestConfigOfStrangersIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of others")
	}
	p := newPlace(t)
	put(t, p.project, "owner: a\n")
	unsafe := func(name string) {
		t.Helper()
		if _, err := Load(p.in); !errors.Is(err, driver.ErrUnsafe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Chmod(p.project, 0o666))
	unsafe("writable by everybody")
	must(os.Chmod(p.project, 0o600))
	must(os.Chown(p.project, 12345, -1))
	unsafe("file of another")
	must(os.Chown(p.project, 0, -1))
	must(os.Chown(p.in.Place.Folder, 12345, -1))
	unsafe("folder of another")
}

func TestUserConfigFile(t *testing.T) {
	for _, c := range []struct{ xdg, home, want string }{
		{"/x", "/h", "/x/tasklock/config.yaml"},
		{"", "/h", "/h/.config/tasklock/config.yaml"},
		{"relative", "/h", "/h/.config/tasklock/config.yaml"},
		{"", "relative", ""},
	} {
		env := map[string]string{"XDG_CONFIG_HOME": c.xdg, "HOME": c.home}
		if got := UserFile(func(k string) string { return env[k] }); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("locking:\n  taskTimeout: 60m\n")
	f.Add("owner: {_description: d, _default: x, value: y}\n")
	f.Add("a: &a [*a]\n")
	f.Add("\t- ? !!x\n...\n")
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := parseYAML("f", []byte(text))
		var entries []entry
		if err == nil {
			entries, err = entriesOf("f", doc)
		}
		var bad *Error
		if err != nil && !errors.As(err, &bad) {
			t.Fatalf("%T: %v", err, err)
		}
		seen := map[string]bool{}
		for _, e := range entries {
			s, ok := Find(e.key)
			again, err := s.Norm(e.text)
			if !ok || seen[e.key] || err != nil || again != e.text {
				t.Fatalf("%+v: %q %v", e, again, err)
			}
			seen[e.key] = true
		}
	})
}
