package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// count adds one to a counter and leaves a receipt, as an event does.
func count(ctx context.Context, st *store.Store, runs *int) (n int, rev int64, err error) {
	rev, err = st.Update(ctx, driver.Query{Keys: []string{"test/n"}}, func(tx *store.Tx) error {
		*runs++
		e, err := store.Get[number](tx, "test/n")
		if err != nil {
			return err
		}
		n = e.Value.N + 1
		receipt := fmt.Sprintf("receipt/%d", *runs)
		tx.Receipt(receipt)
		return errors.Join(tx.Put("test/n", number{n}), tx.Put(receipt, number{n}))
	})
	return n, rev, err
}

func TestOneEffectWhateverTheReply(t *testing.T) {
	for _, fates := range [][]fate{
		{fine},
		{before},
		{after},
		{twice},
		{before, before, before},
		{before, after},
		{before, twice},
		{after, after},
		{before, before, after},
	} {
		t.Run(fmt.Sprint(fates), func(t *testing.T) {
			scripted(t, func(t *testing.T, s *script, st *store.Store) {
				s.fates = fates
				var runs int
				n, rev, err := count(t.Context(), st, &runs)
				if err != nil || n != 1 {
					t.Fatalf("got %d, %v", n, err)
				}
				if e := get(t, st, "test/n"); e.Value.N != 1 || e.Rev != rev {
					t.Errorf("counter is %d at %d, want 1 at %d", e.Value.N, e.Rev, rev)
				}
			})
		})
	}
}

// A commit that is still on its way when Update has answered must not arrive
// afterwards: the caller acts on the answer.
func TestNothingArrivesAfterTheAnswer(t *testing.T) {
	t.Run("after a repetition that was applied", func(t *testing.T) {
		scripted(t, func(t *testing.T, s *script, st *store.Store) {
			s.fates = []fate{late}
			var runs int
			if n, _, err := count(t.Context(), st, &runs); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			if s.arrive() != 0 || get(t, st, "test/n").Value.N != 1 {
				t.Error("the late commit was applied too")
			}
		})
	})
	for _, answer := range []error{nil, errors.New("not now")} {
		t.Run(fmt.Sprintf("after a repetition that decided against writing: %v", answer), func(t *testing.T) {
			scripted(t, func(t *testing.T, s *script, st *store.Store) {
				// The lock is free, then someone else's, then free again.
				s.fates = []fate{late}
				run := 0
				_, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
					run++
					e, err := store.Get[number](tx, "test/lock")
					if err != nil {
						return err
					}
					if e.Exists() {
						return answer
					}
					if run > 1 { // seen free once: the rival comes before the repetition
						_, _ = s.Store.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "test/lock", Value: []byte(`{"n":7}`)}}})
					}
					tx.Receipt("receipt/mine")
					return errors.Join(tx.Put("test/lock", number{1}), tx.Put("receipt/mine", number{1}))
				})
				if !errors.Is(err, answer) {
					t.Fatal(err)
				}
				_, _ = s.Store.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "test/lock"}}})
				if s.arrive() != 0 || get(t, st, "test/lock").Exists() {
					t.Error("Update said that it wrote nothing, and then it did")
				}
			})
		})
	}
	t.Run("it arrives between two repetitions", func(t *testing.T) {
		scripted(t, func(t *testing.T, s *script, st *store.Store) {
			s.fates = []fate{late, rival}
			s.rival = func() { s.arrive() }
			var runs int
			n, rev, err := count(t.Context(), st, &runs)
			if e := get(t, st, "test/n"); err != nil || n != 1 || e.Value.N != 1 || e.Rev != rev {
				t.Errorf("got %d at %d, %v; counter is %d at %d", n, rev, err, e.Value.N, e.Rev)
			}
		})
	})
	t.Run("the reply to the refusal is lost as well", func(t *testing.T) {
		scripted(t, func(t *testing.T, s *script, st *store.Store) {
			s.fates = []fate{late, after, after, before}
			var runs int
			n, _, err := count(t.Context(), st, &runs)
			if s.arrive() != 0 || err != nil || n != 1 || get(t, st, "test/n").Value.N != 1 {
				t.Errorf("got %d, %v; counter is %d", n, err, get(t, st, "test/n").Value.N)
			}
		})
	})
}

// When several runs were on their way, what the caller sees is the result of
// the one that was applied.
func TestTheResultIsThatOfTheCommit(t *testing.T) {
	scripted(t, func(t *testing.T, s *script, st *store.Store) {
		set := func(value string) {
			w := driver.Write{Key: "test/lock"}
			if value != "" {
				w.Value = []byte(value)
			}
			_, _ = s.Store.Commit(t.Context(), driver.Batch{Writes: []driver.Write{w}})
		}
		s.fates = []fate{late, rival}
		s.rival = func() { // before the second commit, whatever it is
			set("")
			s.arrive()
		}
		granted := false
		run := 0
		rev, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
			if run++; run == 2 {
				set(`{"n":7}`) // someone else was faster, it seems
			}
			e, err := store.Get[number](tx, "test/lock")
			if err != nil {
				return err
			}
			if granted = !e.Exists(); !granted {
				return nil
			}
			receipt := fmt.Sprintf("receipt/%d", run)
			tx.Receipt(receipt)
			return errors.Join(tx.Put("test/lock", number{run}), tx.Put(receipt, number{run}))
		})
		if err != nil {
			t.Fatal(err)
		}
		e := get(t, st, "test/lock")
		if granted != (e.Rev == rev && e.Exists()) {
			t.Errorf("granted %v at %d, lock is %+v", granted, rev, e)
		}
	})
}

func TestUnknownAndUnreachable(t *testing.T) {
	all := func(f fate) []fate { return []fate{f, f, f, f, f, f, f, f} }
	gone := []error{errCut, errCut, errCut, errCut, errCut, errCut, errCut, errCut, errCut, errCut}
	for _, c := range []struct {
		name     string
		fates    []fate
		reads    []error
		want     error
		not      error
		effect   int
		answered bool
	}{
		{name: "never readable", reads: gone, want: store.ErrUnreachable, not: store.ErrUnknown},
		{name: "readable again in time", reads: gone[:3], effect: 1, answered: true},
		{name: "no commit gets through", fates: all(before), want: store.ErrUnknown, not: store.ErrUnreachable},
		{name: "one reply is lost, and the receipt is found", fates: []fate{after}, effect: 1, answered: true},
		{name: "no reply gets through: what can be seen may be lost again", fates: all(after), want: store.ErrUnknown, not: store.ErrUnreachable, effect: 1},
		{name: "damage is not repeated", reads: []error{driver.ErrDamaged}, want: driver.ErrDamaged, not: store.ErrUnreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			scripted(t, func(t *testing.T, s *script, st *store.Store) {
				s.fates, s.reads = c.fates, c.reads
				var runs int
				n, _, err := count(t.Context(), st, &runs)
				s.reads = nil
				if c.answered != (err == nil) || !errors.Is(err, c.want) || c.not != nil && errors.Is(err, c.not) {
					t.Errorf("error is %v", err)
				}
				if c.answered && n != 1 || get(t, st, "test/n").Value.N != c.effect {
					t.Errorf("got %d, counter is %d", n, get(t, st, "test/n").Value.N)
				}
			})
		})
	}
	t.Run("reply lost, then never readable", func(t *testing.T) {
		scripted(t, func(t *testing.T, s *script, st *store.Store) {
			s.fates, s.reads = []fate{after}, append([]error{nil}, gone...)
			var runs int
			if _, _, err := count(t.Context(), st, &runs); !errors.Is(err, store.ErrUnknown) {
				t.Error(err)
			}
		})
	})
	t.Run("reply lost and the caller gone", func(t *testing.T) {
		scripted(t, func(t *testing.T, s *script, st *store.Store) {
			ctx, cancel := context.WithCancel(t.Context())
			s.fates, s.rival = []fate{rival, fine}, cancel
			var runs int
			_, _, err := count(ctx, st, &runs)
			if errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) || get(t, st, "test/n").Exists() {
				t.Error(err) // it was not applied, and that is known
			}
		})
	})
	t.Run("the caller leaves while the receipt is looked for", func(t *testing.T) {
		scripted(t, func(t *testing.T, s *script, st *store.Store) {
			ctx, cancel := context.WithCancel(t.Context())
			s.fates, s.reads, s.rival = []fate{after}, []error{nil, errLeave}, cancel
			var runs int
			n, rev, err := count(ctx, st, &runs)
			if err != nil || n != 1 || rev != get(t, st, "test/n").Rev {
				t.Error(n, rev, err)
			}
		})
	})
}

// A server shows a commit that it did not acknowledge, and then loses it: a
// standby takes over that never got it. Nobody hears of it before.
func TestSeenIsNotKept(t *testing.T) {
	scripted(t, func(t *testing.T, s *script, st *store.Store) {
		lose := func() {
			_, _ = s.Store.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "test/n"}, {Key: "receipt/1"}}})
		}
		s.fates, s.rival = []fate{after, rival}, lose
		var runs int
		n, rev, err := count(t.Context(), st, &runs)
		if e := get(t, st, "test/n"); err != nil || n != 1 || runs != 2 || e.Rev != rev {
			t.Errorf("got %d at %d after %d runs, %v; the counter is at %d", n, rev, runs, err, e.Rev)
		}
	})
}

// What shows that a commit will never be applied may be lost too, and then the
// commit may arrive. So such a verdict counts when it lasts.
func TestVerdictsLast(t *testing.T) {
	t.Run("the reply to the refusal is lost", func(t *testing.T) {
		scripted(t, func(t *testing.T, s *script, st *store.Store) {
			s.unsure, s.batches = true, nil
			s.fates = []fate{late, after}
			var runs int
			if n, _, err := count(t.Context(), st, &runs); err != nil || n != 1 {
				t.Error(n, err)
			}
			confirmed(t, s.batches, 2, "receipt/1")
		})
	})
	t.Run("the store was closed and opened", func(t *testing.T) {
		scripted(t, func(t *testing.T, s *script, st *store.Store) {
			s.unsure, s.batches = true, nil
			s.fates = []fate{late}
			run := 0
			_, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
				if run++; run == 1 {
					snap, _ := s.Store.Read(t.Context(), driver.Query{Keys: []string{"meta/store"}})
					_, _ = s.Store.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "meta/store", Value: snap.Records[0].Value}}})
				}
				receipt := fmt.Sprintf("receipt/%d", run)
				tx.Receipt(receipt)
				return tx.Put(receipt, number{run})
			})
			if err != nil || run != 2 {
				t.Error(run, err)
			}
			confirmed(t, s.batches, 1, "meta/store")
		})
	})
}

// confirmed requires that the n-th commit confirmed the state of a record.
func confirmed(t *testing.T, batches []driver.Batch, n int, key string) {
	t.Helper()
	if len(batches) <= n || batches[n].Writes[0].Key != "meta/confirm" || !slices.ContainsFunc(batches[n].Guards, func(g driver.Guard) bool { return g.Key == key && g.Rev > 0 }) {
		t.Errorf("nothing confirms %s: %v", key, batches)
	}
}

// What somebody relies on is confirmed by a commit, where the store may lose what
// it shows.
func TestAffirm(t *testing.T) {
	look := func(t *testing.T, s *script, st *store.Store) (n int, err error) {
		s.batches = nil
		err = st.View(t.Context(), driver.Query{}, func(tx *store.Tx) error {
			tx.Affirm()
			e, err := store.Get[number](tx, "test/first")
			n = e.Value.N
			return err
		})
		return n, err
	}
	scripted(t, func(t *testing.T, s *script, st *store.Store) {
		if n, err := look(t, s, st); n != 1 || err != nil || len(s.batches) != 0 {
			t.Errorf("a store that is sure: %d, %v, %d commits", n, err, len(s.batches))
		}
		s.unsure = true
		if n, err := look(t, s, st); n != 1 || err != nil || len(s.batches) != 1 || len(s.batches[0].Guards) != 2 {
			t.Errorf("%d, %v, commits %v", n, err, s.batches)
		}
		s.fates, s.rival = []fate{rival}, func() { // it is lost
			_, _ = s.Store.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "test/first"}}})
		}
		if n, err := look(t, s, st); n != 0 || err != nil {
			t.Errorf("after a loss: %d, %v", n, err)
		}
		s.fates = []fate{before, before, before, before, before, before}
		if _, err := look(t, s, st); !errors.Is(err, store.ErrUnreachable) {
			t.Errorf("no commit gets through: %v", err)
		}
		s.fates, s.batches = nil, nil
		if _, err := st.Update(t.Context(), driver.Query{}, func(*store.Tx) error { return nil }); err != nil || len(s.batches) != 1 {
			t.Errorf("%v, %d commits", err, len(s.batches))
		}
		s.fates, s.batches = []fate{after}, nil
		_, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error { // it leaves no receipt, and finds its own work
			e, err := store.Get[number](tx, "test/second")
			if err != nil || e.Exists() {
				return err
			}
			return tx.Put("test/second", number{2})
		})
		if err != nil || len(s.batches) != 2 {
			t.Errorf("%v, %d commits", err, len(s.batches))
		}
	})
}

func TestConflictRunsAgainOnFreshData(t *testing.T) {
	scripted(t, func(t *testing.T, s *script, st *store.Store) {
		s.fates = []fate{rival, rival}
		s.rival = func() {
			snap, _ := s.Store.Read(t.Context(), driver.Query{Keys: []string{"test/n"}})
			v := fmt.Sprintf(`{"n":%d}`, 10+len(snap.Records))
			_, _ = s.Store.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "test/n", Value: []byte(v)}}})
		}
		var runs int
		n, _, err := count(t.Context(), st, &runs)
		if err != nil || n != 12 || runs != 3 {
			t.Errorf("got %d after %d runs, %v", n, runs, err)
		}
	})
}
