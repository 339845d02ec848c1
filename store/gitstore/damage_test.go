package gitstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// edit changes the branch's last commit as a bot might: other files, the same
// message. It returns what the branch was.
func edit(t testing.TB, remote string, change func(dir string)) (before string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	git(t, "", "clone", "--quiet", "--branch", "tasklock", remote, dir)
	before = git(t, dir, "rev-parse", "HEAD")
	change(dir)
	git(t, dir, "add", "--all", "--force")
	git(t, dir, "commit", "--quiet", "--amend", "--allow-empty", "--no-verify", "-C", "HEAD")
	git(t, dir, "push", "--quiet", "--force", "origin", "HEAD:tasklock")
	return before
}

func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o777))
	must(t, os.WriteFile(path, []byte(text), 0o666))
}

// Whatever somebody did to the branch: it is damage, the file is named,
// nothing is free and nothing overwritten.
func TestDamage(t *testing.T) {
	replace := func(name, old, now string) func(t testing.TB, dir string) {
		return func(t testing.TB, dir string) {
			path := filepath.Join(dir, name)
			text, err := os.ReadFile(path)
			must(t, err)
			if !strings.Contains(string(text), old) {
				t.Fatalf("%s has no %q:\n%s", name, old, text)
			}
			write(t, path, strings.Replace(string(text), old, now, 1))
		}
	}
	move := func(from, to string) func(t testing.TB, dir string) {
		return func(t testing.TB, dir string) { must(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to))) }
	}
	template := newRemote(t)
	overwrite, s := put, open(t, template)
	commit(t, s, put("lock/a", `{"n":1}`))
	rev := commit(t, s, put("task/b", `{"n":2}`))
	put := func(name, text string) func(t testing.TB, dir string) {
		return func(t testing.TB, dir string) { write(t, filepath.Join(dir, name), text) }
	}
	huge := 50 << 20
	if testing.Short() {
		huge = 10 << 20
	}
	for _, c := range []struct {
		name, file string
		change     func(t testing.TB, dir string)
		want       error
	}{
		{"no state", "tasklock.yaml", func(t testing.TB, dir string) { must(t, os.Remove(filepath.Join(dir, "tasklock.yaml"))) }, driver.ErrDamaged},
		{"empty state", "tasklock.yaml", put("tasklock.yaml", ""), driver.ErrDamaged},
		{"garbage state", "tasklock.yaml", put("tasklock.yaml", "a: [1, 2"), driver.ErrDamaged},
		{"other revision in the state", "tasklock.yaml", replace("tasklock.yaml", "revision: 3", "revision: 2"), driver.ErrDamaged},
		{"newer format", "format 2", replace("tasklock.yaml", "format: 1", "format: 2"), driver.ErrNewer},
		{"empty record", "lock/a.yaml", put("lock/a.yaml", ""), driver.ErrDamaged},
		{"garbage record", "lock/a.yaml", put("lock/a.yaml", "\x00\x01\x02"), driver.ErrDamaged},
		{"JSON record", "lock/a.yaml", put("lock/a.yaml", `{"owner":"me"}`), driver.ErrDamaged},
		{"alias bomb", "lock/a.yaml", put("lock/a.yaml", "a: &a [x,x]\nb: &b [*a,*a]\nkey: *b\n"), driver.ErrDamaged},
		{"other end of line", "lock/a.yaml", replace("lock/a.yaml", "\n", "\r\n"), driver.ErrDamaged},
		{"value that is not JSON", "lock/a.yaml", replace("lock/a.yaml", `"n": 1`, `"n": 1,`), driver.ErrDamaged},
		{"revision of the future", "lock/a.yaml", replace("lock/a.yaml", "rev: 2", "rev: 9"), driver.ErrDamaged},
		{"record under another name", "lock/c.yaml", move("lock/a.yaml", "lock/c.yaml"), driver.ErrDamaged},
		{"huge record", "lock/a.yaml", put("lock/a.yaml", strings.Repeat("x", huge)), driver.ErrDamaged},
		{"foreign file", "notes.txt", put("notes.txt", "hello"), driver.ErrDamaged},
		{"foreign file among records", "lock/notes.txt", put("lock/notes.txt", "hello"), driver.ErrDamaged},
		{"foreign name among records", "lock/a b.yaml", put("lock/a b.yaml", "hello"), driver.ErrDamaged},
		{"folder among records", "lock/sub", put("lock/sub/a.yaml", "hello"), driver.ErrDamaged},
		{"foreign folder", ".github", put(".github/workflows/x.yml", "on: push"), driver.ErrDamaged},
		{"record replaced by a link", "a.yaml", func(t testing.TB, dir string) {
			must(t, os.Remove(filepath.Join(dir, "lock/a.yaml")))
			must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "lock/a.yaml")))
		}, driver.ErrDamaged},
		{"record made a program", "a.yaml", func(t testing.TB, dir string) {
			must(t, os.Chmod(filepath.Join(dir, "lock/a.yaml"), 0o755))
		}, driver.ErrDamaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			remote, cache := filepath.Join(t.TempDir(), "remote.git"), t.TempDir()
			must(t, os.CopyFS(remote, os.DirFS(template)))
			s := open(t, remote, func(o *gitstore.Options) { o.Cache = cache })
			get(t, s, "lock/a")
			edit(t, remote, func(dir string) { c.change(t, dir) })
			tip := git(t, remote, "rev-parse", "tasklock")

			check := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.file) {
					t.Errorf("%s: %v; want %v naming %s", what, err, c.want, c.file)
				}
			}
			// To whom the branch is new.
			other, err := tryOpen(t, remote)
			if err != nil {
				check("Open", err)
			} else {
				_, err = other.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "lock/"}}})
				check("Read", err)
				if c.name == "record under another name" {
					return // its own name is free now: nobody can know
				}
				b := overwrite("lock/a", `{}`)
				_, err = other.Commit(t.Context(), b)
				if err == nil && strings.Contains(c.name, "among records") {
					err = nil
				} else if !errors.Is(err, c.want) && !strings.Contains(c.name, "foreign name") {
					t.Errorf("Commit: %v", err)
				}
			}
			// To whom knows what it was.
			_, err = s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: "task/b", Rev: rev}}, Writes: overwrite("task/b", `{}`).Writes})
			if !errors.Is(err, c.want) && !errors.Is(err, driver.ErrDamaged) {
				t.Errorf("Commit by one who knew: %v", err)
			}
			if now := git(t, remote, "rev-parse", "tasklock"); now != tip && !strings.Contains(c.name, "foreign name") {
				t.Errorf("the branch went from %s to %s", tip, now)
			}
		})
	}
}

// A commit that a person made in the forge's editor.
func TestForeignCommit(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	s := open(t, remote)
	commit(t, s, put("lock/a", `{"n":1}`))
	tip := git(t, remote, "rev-parse", "tasklock")
	dir := filepath.Join(t.TempDir(), "clone")
	git(t, "", "clone", "--quiet", "--branch", "tasklock", remote, dir)
	must(t, os.Remove(filepath.Join(dir, "lock/a.yaml")))
	git(t, dir, "commit", "--quiet", "--all", "-m", "Delete a.yaml")
	git(t, dir, "push", "--quiet", "origin", "HEAD:tasklock")
	_, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
	if !errors.Is(err, driver.ErrDamaged) || !strings.Contains(err.Error(), git(t, dir, "rev-parse", "HEAD")[:12]) {
		t.Errorf("got %v", err)
	}
	report, err := gitstore.Inspect(t.Context(), remote, &gitstore.Options{Cache: t.TempDir()})
	if err != nil || len(report.Problems) == 0 {
		t.Errorf("Inspect: %+v %v", report, err)
	}
	git(t, remote, "update-ref", "refs/heads/tasklock", tip)
	if r := get(t, s, "lock/a"); string(r.Value) != `{"n":1}` {
		t.Errorf("after it was taken back: %v", r)
	}
}

// A branch that was moved back would give out tokens twice. To where it has been
// before is what a mirror that lags would show as well; anywhere else is damage.
func TestRewound(t *testing.T) {
	long.NotShort(t)
	for _, c := range []struct {
		name   string
		happen func(t testing.TB, remote, old string)
		words  string
	}{
		{"moved back", func(t testing.TB, remote, old string) { git(t, remote, "update-ref", "refs/heads/tasklock", old) }, "lags behind"},
		{"moved back and committed to", func(t testing.TB, remote, old string) {
			git(t, remote, "update-ref", "refs/heads/tasklock", old)
			commit(t, open(t, remote), put("lock/other", `{}`))
		}, "rewritten"},
		{"moved back and overtaken", func(t testing.TB, remote, old string) {
			git(t, remote, "update-ref", "refs/heads/tasklock", old)
			for range 3 {
				commit(t, open(t, remote), put("lock/other", `{}`))
			}
		}, "rewritten"},
		{"deleted", func(t testing.TB, remote, _ string) { git(t, remote, "update-ref", "-d", "refs/heads/tasklock") }, "deleted"},
		{"made anew", func(t testing.TB, remote, _ string) {
			git(t, remote, "update-ref", "-d", "refs/heads/tasklock")
			open(t, remote)
		}, "moved back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			remote, cache := newRemote(t), t.TempDir()
			with := func(o *gitstore.Options) { o.Cache = cache }
			s := open(t, remote, with)
			commit(t, s, put("lock/a", `{"n":1}`))
			old := git(t, remote, "rev-parse", "tasklock")
			last := commit(t, s, put("lock/a", `{"n":2}`))
			c.happen(t, remote, old)
			want := driver.ErrDamaged
			if c.name == "moved back" {
				want = nil
			}
			for range 2 { // it stays so
				for _, h := range []*gitstore.Store{s, open(t, remote, with)} { // Create does not hide it
					_, err := h.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
					if !sameClass(err, want) || !strings.Contains(err.Error(), c.words) {
						t.Fatalf("Read: %v", err)
					}
					_, err = h.Commit(t.Context(), put("lock/a", `{"n":3}`))
					if !sameClass(err, want) {
						t.Fatalf("Commit: %v", err)
					}
				}
			}
			raised, err := s.Raise(t.Context())
			must(t, err)
			next := commit(t, s, put("lock/a", `{"n":4}`))
			if raised <= last || next <= raised {
				t.Errorf("at %d, raised to %d, then %d", last, raised, next)
			}
			commit(t, open(t, remote, with), put("lock/a", `{"n":5}`))
			if r := get(t, open(t, remote), "lock/a"); string(r.Value) != `{"n":5}` {
				t.Errorf("another machine: %v", r)
			}
		})
	}
}

// The cache is only a cache.
func TestBrokenCache(t *testing.T) {
	for name, hurt := range map[string]func(t testing.TB, cache string){
		"gone":         func(t testing.TB, cache string) { must(t, os.RemoveAll(cache)) },
		"repo gone":    func(t testing.TB, cache string) { must(t, os.RemoveAll(filepath.Join(cache, "repo"))) },
		"objects gone": func(t testing.TB, cache string) { must(t, os.RemoveAll(filepath.Join(cache, "repo/objects"))) },
		"objects emptied": func(t testing.TB, cache string) { // what a loss of power leaves
			files, _ := filepath.Glob(filepath.Join(cache, "repo/objects/??/*"))
			for _, f := range files {
				must(t, os.Truncate(f, 0))
			}
		},
		"known emptied":  func(t testing.TB, cache string) { must(t, os.Truncate(filepath.Join(cache, "known.json"), 0)) },
		"known garbage":  func(t testing.TB, cache string) { write(t, filepath.Join(cache, "known.json"), "{") },
		"config garbage": func(t testing.TB, cache string) { write(t, filepath.Join(cache, "repo/config"), "[") },
		"tip garbage":    func(t testing.TB, cache string) { write(t, filepath.Join(cache, "repo/refs/tasklock/tip"), "x") },
		"locks left": func(t testing.TB, cache string) {
			write(t, filepath.Join(cache, "repo/shallow.lock"), "")
			write(t, filepath.Join(cache, "repo/refs/tasklock/tip.lock"), "")
			write(t, filepath.Join(cache, "repo/config.lock"), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			remote, base := newRemote(t), t.TempDir()
			with := func(o *gitstore.Options) { o.Cache = base }
			long := open(t, remote, with)
			commit(t, long, put("lock/a", `{"n":1}`))
			dirs, _ := filepath.Glob(filepath.Join(base, "*"))
			if len(dirs) != 1 {
				t.Fatalf("caches: %v", dirs)
			}
			commit(t, open(t, remote), put("lock/b", `{"n":2}`))
			hurt(t, dirs[0])
			if name != "gone" { // whoever has the folder open cannot go on without it
				commit(t, long, put("lock/c", `{"n":3}`))
			}
			s := open(t, remote, with)
			if r := get(t, s, "lock/a"); string(r.Value) != `{"n":1}` {
				t.Errorf("read %v", r)
			}
			hurt(t, dirs[0])
			s = open(t, remote, with)
			commit(t, s, put("lock/d", `{"n":4}`))
			if r := get(t, s, "lock/b"); string(r.Value) != `{"n":2}` {
				t.Errorf("read %v", r)
			}
		})
	}
}
