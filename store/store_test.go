package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestGuardsAreWhatWasRead(t *testing.T) {
	scripted(t, func(t *testing.T, s *script, st *store.Store) {
		a := put(t, st, "test/a", 1)
		s.batches = nil
		_, err := st.Update(t.Context(), driver.Query{Keys: []string{"test/unused"}}, func(tx *store.Tx) error {
			_, err := store.Get[number](tx, "test/a")
			if err != nil {
				return err
			}
			if _, err := store.Get[number](tx, "test/absent"); err != nil {
				return err
			}
			if _, err := tx.Scan("test/", 0); err != nil {
				return err
			}
			tx.GuardKind("path/")
			return tx.Put("test/b", number{2})
		})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{"meta/store": 1, "path/": a, "test/a": a, "test/absent": 0}
		if diff := cmp.Diff(want, guards(s.batches[0])); diff != "" {
			t.Error(diff)
		}
	})
}

func guards(b driver.Batch) map[string]int64 {
	out := map[string]int64{}
	for _, g := range b.Guards {
		out[g.Key] = g.Rev
	}
	return out
}

// Above the limit of a commit the guards of the largest kinds are replaced by
// one guard of the kind: it asks for more, never for less.
func TestManyGuardsFold(t *testing.T) {
	read := func(n, m int) func(tx *store.Tx) error {
		return func(tx *store.Tx) error {
			var keys []string
			for i := range n {
				keys = append(keys, fmt.Sprintf("many/%d", i))
			}
			for i := range m {
				keys = append(keys, fmt.Sprintf("few/%d", i))
			}
			if err := tx.Want(keys...); err != nil {
				return err
			}
			for _, k := range keys {
				if _, err := store.Get[number](tx, k); err != nil {
					return err
				}
			}
			return tx.Put("test/done", number{1})
		}
	}
	for _, c := range []struct {
		many, few int
		want      int
		folded    string
	}{
		{many: 99, want: 100},
		{many: 100, want: 2, folded: "many/"},
		{many: 300, few: 20, want: 22, folded: "many/"},
		{many: 150, few: 120, want: 3, folded: "few/"},
	} {
		t.Run(fmt.Sprint(c.many, c.few), func(t *testing.T) {
			scripted(t, func(t *testing.T, s *script, st *store.Store) {
				s.batches = nil
				if _, err := st.Update(t.Context(), driver.Query{}, read(c.many, c.few)); err != nil {
					t.Fatal(err)
				}
				got := guards(s.batches[0])
				if len(got) != c.want {
					t.Errorf("%d guards, want %d", len(got), c.want)
				}
				if rev, ok := got[c.folded]; c.folded != "" && (!ok || rev != 1) {
					t.Errorf("no guard of %s at the snapshot", c.folded)
				}
			})
		})
	}
	t.Run("it still sees a rival", func(t *testing.T) {
		scripted(t, func(t *testing.T, s *script, st *store.Store) {
			s.batches, s.fates = nil, []fate{rival}
			s.rival = func() {
				_, _ = s.Store.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "many/7", Value: []byte(`{}`)}}})
			}
			if _, err := st.Update(t.Context(), driver.Query{}, read(200, 0)); err != nil || len(s.batches) != 2 {
				t.Errorf("%v after %d commits, want 2", err, len(s.batches))
			}
		})
	})
}

func TestReadsJoin(t *testing.T) {
	scripted(t, func(t *testing.T, s *script, st *store.Store) {
		s.looks = 0
		err := st.View(t.Context(), driver.Query{}, func(tx *store.Tx) error {
			if err := tx.Want("test/a", "test/b", "test/c"); err != nil {
				return err
			}
			_, err := store.Get[number](tx, "test/b")
			return err
		})
		if err != nil || s.looks != 2 {
			t.Errorf("%v after %d reads, want 2", err, s.looks)
		}
	})
}

func TestATransactionSeesItsOwnWrites(t *testing.T) {
	scripted(t, func(t *testing.T, s *script, st *store.Store) {
		put(t, st, "test/a", 1)
		rev, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
			if err := tx.Put("test/b", number{2}); err != nil {
				return err
			}
			b, err := store.Get[number](tx, "test/b")
			if err != nil || b.Rev != store.Pending || b.Value.N != 2 {
				t.Errorf("own write reads as %+v, %v", b, err)
			}
			tx.Delete("test/a")
			if a, err := store.Get[number](tx, "test/a"); err != nil || a.Exists() {
				t.Errorf("own deletion reads as %+v, %v", a, err)
			}
			tx.Floor(500)
			return nil
		})
		if err != nil || rev != 500 || get(t, st, "test/a").Exists() || get(t, st, "test/b").Rev != 500 {
			t.Error(rev, err)
		}
	})
}

func TestNothingWrittenNothingCommitted(t *testing.T) {
	scripted(t, func(t *testing.T, s *script, st *store.Store) {
		s.batches = nil
		rev, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error { return nil })
		if err != nil || rev != 1 || len(s.batches) != 0 {
			t.Error(rev, err, s.batches)
		}
		no := errors.New("no")
		if _, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
			return errors.Join(tx.Put("test/x", number{1}), no)
		}); !errors.Is(err, no) || len(s.batches) != 0 {
			t.Error(err, s.batches)
		}
	})
}

func TestMeta(t *testing.T) {
	for _, c := range []struct {
		meta string
		want error
	}{
		{`{"format":2,"id":"x"}`, nil},
		{`{"format":2,"id":"x","laterField":true}`, nil},
		{`{"format":3,"id":"x"}`, nil},
		{`{"format":4,"id":"x"}`, driver.ErrNewer},
		{`{"format":1,"id":"x"}`, driver.ErrOlder},
		{`{"format":2,"id":"x","converting":1}`, driver.ErrOlder},
		{`{"format":2,"id":"x","converting":2}`, driver.ErrDamaged},
		{`{"format":2,"id":"x","converting":-1}`, driver.ErrDamaged},
		{`{"format":0}`, driver.ErrDamaged},
		{`{}`, driver.ErrDamaged},
		{`null`, driver.ErrDamaged},
		{`[]`, driver.ErrDamaged},
		{`{"format":`, driver.ErrDamaged},
		{`{"format":"1"}`, driver.ErrDamaged},
		{`{"format":1,"movedTo":"postgres://db"}`, store.ErrMoved},
	} {
		t.Run(c.meta, func(t *testing.T) {
			scripted(t, func(t *testing.T, s *script, st *store.Store) {
				overwrite(t, s, "meta/store", c.meta)
				revision := get0(t, s)
				none := func(tx *store.Tx) error { return tx.Put("test/x", number{1}) }
				if err := st.View(t.Context(), driver.Query{}, none); !errors.Is(err, c.want) {
					t.Errorf("View: %v", err)
				}
				_, err := st.Update(t.Context(), driver.Query{}, none)
				if !errors.Is(err, c.want) {
					t.Errorf("Update: %v", err)
				}
				if c.want != nil && get0(t, s) != revision {
					t.Error("something was written")
				}
			})
		})
	}
	t.Run("the first commit writes it", func(t *testing.T) {
		scripted(t, func(t *testing.T, s *script, st *store.Store) {
			err := st.View(t.Context(), driver.Query{Keys: []string{"meta/store"}}, func(tx *store.Tx) error {
				m, err := store.ReadMeta(tx)
				if m.Format != store.Format || m.ID == "" {
					t.Errorf("%+v", m)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("moving it stops a writer under way", func(t *testing.T) {
		scripted(t, func(t *testing.T, s *script, st *store.Store) {
			s.fates = []fate{rival}
			s.rival = func() { overwrite(t, s, "meta/store", `{"format":1,"movedTo":"elsewhere"}`) }
			_, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error { return tx.Put("test/x", number{1}) })
			if !errors.Is(err, store.ErrMoved) || !strings.Contains(err.Error(), "elsewhere") {
				t.Error(err)
			}
		})
	})
}

// What cannot be read is damage, and never absence.
func TestDamage(t *testing.T) {
	for _, value := range []string{``, `null`, `7`, `"x"`, `[]`, `{"n":`, `{"n":"x"}`, `{"n":1}{}`, `{"n":1e400}`, "\x00\x00", "{\"n\":\"\xff"} {
		t.Run(fmt.Sprintf("%q", value), func(t *testing.T) {
			scripted(t, func(t *testing.T, s *script, st *store.Store) {
				overwrite(t, s, "test/x", value)
				read := func(tx *store.Tx) error {
					_, err := store.Get[number](tx, "test/x")
					return err
				}
				err := st.View(t.Context(), driver.Query{}, read)
				if !errors.Is(err, driver.ErrDamaged) || !strings.Contains(err.Error(), "test/x") {
					t.Error(err)
				}
				if _, err := st.Update(t.Context(), driver.Query{}, read); !errors.Is(err, driver.ErrDamaged) {
					t.Error(err)
				}
			})
		})
	}
}

func overwrite(t *testing.T, s *script, key, value string) {
	t.Helper()
	if _, err := s.Store.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: key, Value: []byte(value)}}}); err != nil {
		t.Fatal(err)
	}
}

func get0(t *testing.T, s *script) int64 {
	t.Helper()
	snap, err := s.Store.Read(t.Context(), driver.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return snap.Rev
}

// On old data nothing is decided but a commit, and that one only if they were
// not old after all.
func TestOldDataDecideNothing(t *testing.T) {
	mem := memstore.New()
	st, other := store.New(drivertest.NewFlaky(mem, drivertest.FlakyOptions{Old: 1})), store.New(mem)
	add := func(into *store.Store) (runs int) {
		_, err := into.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
			runs++
			n, err := store.Get[number](tx, "test/a")
			if err != nil {
				return err
			}
			return tx.Put("test/a", number{n.Value.N + 1})
		})
		if err != nil {
			t.Fatal(err)
		}
		return runs
	}
	add(st)
	add(other)
	if runs := add(st); runs < 2 {
		t.Errorf("%d runs: the first saw no old data", runs)
	}
	add(other)
	for _, refuse := range []error{nil, errors.New("no")} {
		var seen int
		_, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
			n, err := store.Get[number](tx, "test/a")
			if seen = n.Value.N; err != nil {
				return err
			}
			return refuse
		})
		if err != refuse || seen != 4 {
			t.Errorf("saw %d of 4, %v", seen, err)
		}
		add(other)
		if err := st.View(t.Context(), driver.Query{}, func(tx *store.Tx) error {
			n, err := store.Get[number](tx, "test/a")
			seen = n.Value.N
			return err
		}); err != nil || seen != 5 {
			t.Errorf("View saw %d of 5, %v", seen, err)
		}
		if _, err := other.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error { return tx.Put("test/a", number{4}) }); err != nil {
			t.Fatal(err)
		}
	}
}

// A record that was read without a guard decides nothing on old data, unless the
// transaction guards it after all.
func TestOldDataWithoutAGuard(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		mem := memstore.New()
		st, other := store.New(drivertest.NewFlaky(mem, drivertest.FlakyOptions{Old: 1})), store.New(mem)
		put := func(into *store.Store, key string, n int) {
			t.Helper()
			if _, err := into.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error { return tx.Put(key, number{n}) }); err != nil {
				t.Fatal(err)
			}
		}
		put(st, "test/a", 1)
		var seen []int
		copied := func(tx *store.Tx) error {
			n, err := store.Peek[number](tx, "test/a")
			if err != nil {
				return err
			}
			if seen = append(seen, n.Value.N); guarded {
				_, err = store.Get[number](tx, "test/a")
			}
			return errors.Join(err, tx.Put("test/b", n.Value))
		}
		update := func() []int {
			t.Helper()
			seen = nil
			if _, err := st.Update(t.Context(), driver.Query{Keys: []string{"test/a"}}, copied); err != nil {
				t.Fatal(err)
			}
			return seen
		}
		update() // it remembers what it read
		if runs := len(update()); guarded != (runs == 1) {
			t.Errorf("guarded %v: %d runs on data that had not changed", guarded, runs)
		}
		put(other, "test/a", 2)
		if seen := update(); !slices.Equal(seen, []int{1, 2}) {
			t.Errorf("guarded %v: saw %v, want the old value and then the new one", guarded, seen)
		}
	}
}

// RevOf guards nothing: on old data its answer decides nothing either.
func TestOldRevisionsDecideNothing(t *testing.T) {
	mem := memstore.New()
	st, other := store.New(drivertest.NewFlaky(mem, drivertest.FlakyOptions{Old: 1})), store.New(mem)
	var seen []bool
	note := func() {
		t.Helper()
		seen = nil
		if _, err := st.Update(t.Context(), driver.Query{Keys: []string{"test/a"}}, func(tx *store.Tx) error {
			rev, err := tx.RevOf("test/a")
			seen = append(seen, rev > 0)
			return errors.Join(err, tx.Put("test/b", number{int(rev)}))
		}); err != nil {
			t.Fatal(err)
		}
	}
	note()
	note() // it remembers what it read
	if _, err := other.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error { return tx.Put("test/a", number{1}) }); err != nil {
		t.Fatal(err)
	}
	if note(); !slices.Equal(seen, []bool{false, true}) {
		t.Errorf("saw %v, want the old data and then that the record is there", seen)
	}
}

// complaints is a test that notes its failures.
type complaints []string

func (c *complaints) Errorf(format string, args ...any) {
	*c = append(*c, fmt.Sprintf(format, args...))
}

// The check on which the rules are run finds functions whose records depend on
// the time or on chance, and no others.
func TestWhatMustNotDifferFromRunToRun(t *testing.T) {
	for name, c := range map[string]struct {
		key  func(tx *store.Tx) string
		want bool
	}{
		"the time":    {func(tx *store.Tx) string { return fmt.Sprint(tx.Now().UnixMilli()) }, true},
		"about":       {func(tx *store.Tx) string { return fmt.Sprint(tx.Now().UnixMilli() / 5) }, true},
		"chance":      {func(*store.Tx) string { return fmt.Sprint(rand.IntN(1000)) }, true},
		"one time":    {func(tx *store.Tx) string { return fmt.Sprint(tx.Began().UnixNano()) }, false},
		"as it reads": {func(*store.Tx) string { return "b" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told complaints
				st := store.New(drivertest.NewRerun(&told, memstore.New(), nil))
				for i := range 5 {
					_, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
						if _, err := store.Get[number](tx, "test/"+c.key(tx)); err != nil {
							return err
						}
						return tx.Put("test/a", number{i})
					})
					if err != nil {
						told.Errorf("%v", err)
					}
				}
				if (len(told) > 0) != c.want {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}
