package store_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/filestore"
	"github.com/tasklock/tasklock/store/gitstore"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

// places make an empty store of each kind.
var places = map[string]func(t *testing.T) driver.Store{
	"mem": func(*testing.T) driver.Store { return memstore.New() },
	"sqlite": func(t *testing.T) driver.Store {
		s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "s", "t.db"), &sqlitestore.Options{Create: true})
		return opened(t, s, err)
	},
	"file": func(t *testing.T) driver.Store {
		s, err := filestore.Open(t.Context(), filepath.Join(t.TempDir(), "f"), &filestore.Options{Create: true})
		return opened(t, s, err)
	},
	"git": func(t *testing.T) driver.Store {
		remote := filepath.Join(t.TempDir(), "r.git")
		if out, err := exec.Command("git", "init", "--quiet", "--bare", remote).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s, err := gitstore.Open(t.Context(), remote, &gitstore.Options{Create: true, Cache: filepath.Join(t.TempDir(), "c")})
		return opened(t, s, err)
	},
}

func opened(t *testing.T, s driver.Store, err error) driver.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// odd are values that a store, or a file, could change on the way.
var odd = map[string]string{
	"test/a":        `{"n":1}`,
	"test/b/c":      `{"text":"<&>   \"\\ \u0000 ü"}`,
	"test/spaces":   `{ "n" : 1 }`,
	"test/big":      `{"s":"` + strings.Repeat("x", 60<<10) + `"}`,
	"other/é%2f+^A": `{}`,
	"other/a":       `{"n":1e400}`,
	"event/1":       `{"void":true}`,
}

// furnish puts records into a store and takes some away, so that its revision is
// above those of all its records.
func furnish(t *testing.T, d driver.Store, n int) int64 {
	t.Helper()
	b := driver.Batch{}
	for k, v := range odd {
		b.Writes = append(b.Writes, driver.Write{Key: k, Value: []byte(v)})
	}
	for i := range n {
		b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("many/%05d", i), Value: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	commit(t, d, b)
	put(t, store.New(d), "test/gone", 1)
	return commit(t, d, driver.Batch{Writes: []driver.Write{{Key: "test/gone"}}})
}

func commit(t *testing.T, d driver.Store, b driver.Batch) int64 {
	t.Helper()
	rev, err := d.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// contents are the values of a store without its description, and the least
// and the newest revision.
func contents(t *testing.T, d driver.Store) (values map[string]string, least, newest int64) {
	t.Helper()
	snap, err := d.Read(t.Context(), driver.Query{Ranges: []driver.Range{{}}})
	if err != nil {
		t.Fatal(err)
	}
	values, least = map[string]string{}, snap.Rev
	for _, r := range snap.Records {
		if r.Key != "meta/store" {
			values[r.Key], least = string(r.Value), min(least, r.Rev)
		}
	}
	return values, least, snap.Rev
}

func move(from, to driver.Store) (store.MoveResult, error) {
	return store.Move(context.Background(), store.MoveRequest{From: store.New(from), To: store.New(to), FromName: "A", ToName: "B"})
}

func TestMoveBetweenAnyTwo(t *testing.T) {
	records := 2500
	if testing.Short() {
		records = 600
	}
	for from, makeFrom := range places {
		for to, makeTo := range places {
			if from == "mem" && to == "mem" || testing.Short() && (from == "git" || to == "git") {
				continue
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				a, b := makeFrom(t), makeTo(t)
				last := furnish(t, a, records)
				want, _, _ := contents(t, a)
				out, err := move(a, b)
				if err != nil || out.Records != len(want) || out.Already {
					t.Fatalf("%+v, %v", out, err)
				}
				got, least, newest := contents(t, b)
				if diff := differ(want, got); diff != "" {
					t.Error(diff)
				}
				if least <= last+1 || newest != out.Revision {
					t.Errorf("records from revision %d to %d, result %d; the source was at %d", least, newest, out.Revision, last)
				}
				closed(t, a, "B")
				put(t, store.New(b), "test/new", 1)
				if out, err := move(a, b); err != nil || !out.Already {
					t.Errorf("again: %+v, %v", out, err)
				}
				get(t, store.New(b), "test/new")
			})
		}
	}
}

func differ(want, got map[string]string) string {
	for k, v := range want {
		if got[k] != v {
			return fmt.Sprintf("%s is %.60q, want %.60q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d records, want %d", len(got), len(want))
	}
	return ""
}

// closed checks that nothing can be written or read in a store that has moved.
func closed(t *testing.T, d driver.Store, to string) {
	t.Helper()
	st := store.New(d)
	var moved *store.MovedError
	_, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error { return tx.Put("test/late", number{1}) })
	if !errors.As(err, &moved) || moved.To != to {
		t.Errorf("a write in the old store: %v", err)
	}
	if err := st.View(t.Context(), driver.Query{}, func(*store.Tx) error { return nil }); !errors.Is(err, store.ErrMoved) {
		t.Errorf("a read in the old store: %v", err)
	}
}

// mortal is a store of a process that dies at its n-th commit: before it was
// applied, or before its reply came.
type mortal struct {
	driver.Store
	life *life
}

type life struct {
	left  int
	after bool
}

var errDied = errors.New("the process died")

func (m mortal) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	if m.life.left < 0 {
		return driver.Snapshot{}, fmt.Errorf("%w: %w", driver.ErrDenied, errDied) // a refusal: nobody tries again
	}
	return m.Store.Read(ctx, q)
}

func (m mortal) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	m.life.left--
	switch {
	case m.life.left == -1 && m.life.after:
		_, _ = m.Store.Commit(ctx, b)
		fallthrough
	case m.life.left < 0:
		return 0, fmt.Errorf("%w: %w", driver.ErrDenied, errDied)
	}
	return m.Store.Commit(ctx, b)
}

// TestMoveDiesAnywhere ends a move at each of its commits, on either side of
// it. Whatever is left, no two stores are open, nobody can write where it would
// be lost, and the same again completes it.
func TestMoveDiesAnywhere(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			a, b := memstore.New(), memstore.New()
			last := furnish(t, a, 2500)
			want, _, _ := contents(t, a)
			l := &life{left: n, after: after}
			_, err := move(mortal{a, l}, mortal{b, l})
			if err == nil {
				if n < 6 {
					t.Fatalf("a move has %d commits only", n)
				}
				break
			}
			if !errors.Is(err, errDied) {
				t.Fatalf("dies at commit %d: %v", n, err)
			}
			openA, openB := isOpen(a), isOpen(b)
			if openA && openB && n > 1 {
				t.Errorf("commit %d, after %v: both stores are open", n, after)
			}
			if openB && !openA {
				if got, _, _ := contents(t, b); differ(want, got) != "" {
					t.Errorf("commit %d, after %v: open too early", n, after)
				}
			}
			if _, err := move(a, b); err != nil {
				t.Fatalf("commit %d, after %v: again: %v", n, after, err)
			}
			got, least, _ := contents(t, b)
			if diff := differ(want, got); diff != "" || least <= last {
				t.Errorf("commit %d, after %v: %s, least %d", n, after, diff, least)
			}
			closed(t, a, "B")
			put(t, store.New(b), "test/new", 1)
		}
	}
}

func isOpen(d driver.Store) bool {
	return store.New(d).View(context.Background(), driver.Query{}, func(*store.Tx) error { return nil }) == nil
}

// TestMoveWhileOthersWrite lets writers go on during the move. What was
// acknowledged is in the target; what came later was refused.
func TestMoveWhileOthersWrite(t *testing.T) {
	for _, kind := range []string{"mem", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			a, b := places[kind](t), places["mem"](t)
			furnish(t, a, 100)
			var acknowledged sync.Map
			var writers sync.WaitGroup
			enough := make(chan struct{}, 8)
			for w := range 8 {
				writers.Go(func() {
					st := store.New(a)
					for i := 0; ; i++ {
						key := fmt.Sprintf("writer/%d-%d", w, i)
						_, err := st.Update(context.Background(), driver.Query{}, func(tx *store.Tx) error { return tx.Put(key, number{i}) })
						if err != nil {
							if !errors.Is(err, store.ErrMoved) {
								t.Error(err)
							}
							return
						}
						acknowledged.Store(key, true)
						if i == 5 {
							enough <- struct{}{}
						}
						if i == 5000 {
							t.Error("nobody stops the writers")
							return
						}
					}
				})
			}
			for range 8 {
				<-enough
			}
			if _, err := move(a, b); err != nil {
				t.Fatal(err)
			}
			writers.Wait()
			got, _, _ := contents(t, b)
			n := 0
			acknowledged.Range(func(key, _ any) bool {
				if n++; got[key.(string)] == "" {
					t.Errorf("%s was acknowledged and is lost", key)
				}
				return true
			})
			t.Logf("%d acknowledged writes", n)
		})
	}
}

func TestTwoMovesAtOnce(t *testing.T) {
	for round := range 30 {
		a, b, c := memstore.New(), memstore.New(), memstore.New()
		furnish(t, a, 1200)
		want, _, _ := contents(t, a)
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i, to := range []driver.Store{b, b, b, c} {
			wg.Go(func() {
				_, errs[i] = store.Move(context.Background(), store.MoveRequest{
					From: store.New(a), To: store.New(to), FromName: "A", ToName: []string{"B", "B", "B", "C"}[i],
					Leave: func(*store.Tx) error { return nil },
				})
			})
		}
		wg.Wait()
		target, other := b, c
		if errs[3] == nil {
			target, other = c, b
		}
		got, _, _ := contents(t, target)
		if diff := differ(want, got); diff != "" {
			t.Fatalf("round %d: %s; %v", round, diff, errs)
		}
		for i, err := range errs {
			if won := (i == 3) == (errs[3] == nil); won != (err == nil) || !won && !errors.Is(err, store.ErrMoved) {
				t.Errorf("round %d, move %d: %v", round, i, err)
			}
		}
		if got, _, _ := contents(t, other); len(got) != 0 || !isOpen(other) {
			t.Errorf("round %d: the loser's target has %d records, open %v", round, len(got), isOpen(other))
		}
	}
}

func TestCarryLeavesOut(t *testing.T) {
	a, b := memstore.New(), memstore.New()
	furnish(t, a, 0)
	r := store.MoveRequest{From: store.New(a), To: store.New(b), FromName: "A", ToName: "B", Carry: func(store.Copy) func(driver.Record) (driver.Write, bool) {
		return func(rec driver.Record) (driver.Write, bool) {
			return store.Unchanged(rec), driver.Kind(rec.Key) != "test/"
		}
	}}
	out, err := store.Move(t.Context(), r)
	got, _, _ := contents(t, b)
	if err != nil || out.LeftOut != 4 || len(got) != len(odd)-4 {
		t.Errorf("%+v, %v, %d records", out, err, len(got))
	}
}

func TestRaise(t *testing.T) {
	for kind, place := range places {
		d := place(t)
		last := furnish(t, d, 0)
		rev, err := store.New(d).Raise(t.Context())
		if err != nil || rev < last+1<<32 {
			t.Errorf("%s: %d, %v", kind, rev, err)
		}
		if next := put(t, store.New(d), "test/next", 1); next <= rev {
			t.Errorf("%s: %d after %d", kind, next, rev)
		}
	}
}
