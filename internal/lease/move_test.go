package lease_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
)

// moved is two stores, and a move from one to the other.
type moved struct {
	t        *testing.T
	from, to *store.Store
}

func (m moved) acquire(st *store.Store, owner string, ttl time.Duration, keys ...string) (lease.Grant, error) {
	m.t.Helper()
	return lease.Acquire(m.t.Context(), st, lease.AcquireRequest{Keys: keys, Owner: owner, TTL: ttl})
}

func (m moved) move(force bool) (store.MoveResult, error) {
	r := store.MoveRequest{From: m.from, To: m.to, FromName: "A", ToName: "B", Carry: lease.Carry}
	if !force {
		r.Leave = lease.Leave
	}
	return store.Move(m.t.Context(), r)
}

func moving(t *testing.T, f func(m moved)) {
	synctest.Test(t, func(t *testing.T) { f(moved{t, store.New(memstore.New()), store.New(memstore.New())}) })
}

func TestMoveRefusesWhileHeld(t *testing.T) {
	moving(t, func(m moved) {
		must(t, second(m.acquire(m.from, "a", time.Minute, "x", "y")))
		must(t, second(m.acquire(m.from, "b", time.Hour, "z")))
		_, err := m.move(false)
		var busy *lease.BusyError
		if !errors.As(err, &busy) || len(busy.Holders) != 3 {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := m.move(false); !errors.As(err, &busy) || len(busy.Holders) != 1 {
			t.Fatal(err)
		}
		must(t, second(lease.Release(m.t.Context(), m.from, lease.ReleaseRequest{Keys: []string{"z"}, Owner: "b"})))
		must(t, second(m.move(false)))
		if got, err := lease.Check(m.t.Context(), m.to, lease.CheckRequest{Key: "x"}); err != nil || got.Locked {
			t.Errorf("what had expired is held again: %+v, %v", got.Lock, err)
		}
	})
}

// What is held moves with a new token and a whole ttl: its holder, who cannot
// renew any more, has stopped when others may have it.
func TestHeldLocksMoveWithNewTokens(t *testing.T) {
	moving(t, func(m moved) {
		g, err := m.acquire(m.from, "a", 10*time.Minute, "x")
		must(t, err)
		time.Sleep(9 * time.Minute)
		must(t, second(m.move(true)))

		var lost *lease.LostError
		if _, err := lease.Check(m.t.Context(), m.to, lease.CheckRequest{Key: "x", Token: g.Token}); !errors.As(err, &lost) || lost.Now <= g.Token {
			t.Errorf("the old token: %v", err)
		}
		if _, err := lease.Renew(m.t.Context(), m.from, lease.RenewRequest{Owner: "a", Keys: []string{"x"}}); !errors.Is(err, store.ErrMoved) {
			t.Errorf("renew in the old store: %v", err)
		}
		time.Sleep(9 * time.Minute)
		var held *lease.HeldError
		if _, err := m.acquire(m.to, "b", 0, "x"); !errors.As(err, &held) {
			t.Errorf("another takes it too early: %v", err)
		}
		again, err := m.acquire(m.to, "a", 0, "x")
		if err != nil || !again.Keys[0].Reentrant || again.Token <= g.Token {
			t.Errorf("its owner takes it again: %+v, %v", again, err)
		}
		must(t, second(lease.Release(m.t.Context(), m.to, lease.ReleaseRequest{Keys: []string{"x"}, Owner: "a"})))
		if next, err := m.acquire(m.to, "b", 0, "x"); err != nil || next.Token <= again.Token {
			t.Errorf("%+v, %v", next, err)
		}
	})
}

// A line of history keeps the token of its grant, although its record gets
// another revision where it arrives.
func TestHistoryKeepsItsTokensInAMove(t *testing.T) {
	moving(t, func(m moved) {
		var want []int64
		for _, key := range []string{"x", "y", "x"} {
			g, err := m.acquire(m.from, "a", time.Minute, key)
			must(t, err)
			must(t, second(lease.Release(m.t.Context(), m.from, lease.ReleaseRequest{Keys: []string{key}, Owner: "a"})))
			want = append(want, g.Token)
			time.Sleep(time.Second)
		}
		must(t, second(m.move(false)))
		later, err := m.acquire(m.to, "a", time.Minute, "x")
		must(t, err)
		out, err := lease.History(m.t.Context(), m.to, lease.HistoryRequest{})
		must(t, err)
		var got []int64
		for _, e := range out.Events {
			if e.Event == "acquired" {
				got = append(got, e.Token)
			}
		}
		if want = append(want, later.Token); !slices.Equal(got, want) {
			t.Errorf("tokens %v, granted were %v", got, want)
		}
	})
}

// How old a lease of a backup is by now says the clock of the store that it is
// restored to.
func TestRestoreGoesByTheStoresClock(t *testing.T) {
	for ahead, held := range map[time.Duration]bool{-time.Hour: true, 0: true, 5 * time.Minute: true, 11 * time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			m := moved{t, store.New(memstore.New()), store.New(memstore.NewWithClock(func() time.Time { return time.Now().Add(ahead) }))}
			must(t, second(m.acquire(m.from, "a", 10*time.Minute, "x")))
			m.restore(m.to)
			if got, err := lease.Check(t.Context(), m.to, lease.CheckRequest{Key: "x"}); err != nil || got.Locked != held {
				t.Errorf("store's clock ahead by %v: held %v, %v", ahead, got.Locked, err)
			}
		})
	}
}

// restore puts a backup of the first store into another.
func (m moved) restore(to *store.Store) {
	m.t.Helper()
	c, err := m.from.ReadAll(m.t.Context(), "A")
	must(m.t, err)
	must(m.t, second(store.Fill(m.t.Context(), store.FillRequest{To: to, Copy: c, Replace: true, Carry: lease.Carry})))
}

// Whatever begins another life of a store, its locks have other tokens in it,
// and keep others out as before.
func TestNewTokensInAnotherLife(t *testing.T) {
	lives := map[string]func(m moved) *store.Store{
		"restored elsewhere": func(m moved) *store.Store { m.restore(m.to); return m.to },
		"restored in place":  func(m moved) *store.Store { m.restore(m.from); return m.from },
		"raised": func(m moved) *store.Store {
			rev, err := m.from.Raise(m.t.Context())
			must(m.t, err)
			must(m.t, lease.Retoken(m.t.Context(), m.from, rev))
			return m.from
		},
	}
	for name, begin := range lives {
		t.Run(name, func(t *testing.T) {
			moving(t, func(m moved) {
				keys := []string{"path:src/**"}
				for i := range 250 { // more than one commit guards
					keys = append(keys, fmt.Sprintf("k%d", i))
				}
				tokens := map[string]int64{}
				for _, key := range keys {
					g, err := m.acquire(m.from, "a", 10*time.Minute, key)
					must(t, err)
					tokens[key] = g.Token
				}
				time.Sleep(time.Minute)
				st := begin(m)
				for _, key := range keys {
					var held *lease.HeldError
					if _, err := m.acquire(st, "b", 0, key); !errors.As(err, &held) {
						t.Errorf("%s is not kept for its holder: %v", key, err)
					}
					if _, err := lease.Check(m.t.Context(), st, lease.CheckRequest{Key: key, Token: tokens[key]}); !errors.Is(err, lease.ErrLost) {
						t.Errorf("%s passes with its old token: %v", key, err)
					}
					if g, err := m.acquire(st, "a", 0, key); err != nil || g.Token <= tokens[key] {
						t.Errorf("its owner takes %s again: %+v, %v", key, g, err)
					}
				}
			})
		})
	}
}

func TestRequestsStayKnownAfterAMove(t *testing.T) {
	moving(t, func(m moved) {
		req := lease.AcquireRequest{Keys: []string{"x"}, Owner: "a", ID: "r1"}
		must(t, second(lease.Acquire(m.t.Context(), m.from, req)))
		must(t, second(lease.Release(m.t.Context(), m.from, lease.ReleaseRequest{Keys: []string{"x"}, Owner: "a"})))
		must(t, second(m.move(false)))
		if _, err := lease.Acquire(m.t.Context(), m.to, req); !errors.Is(err, lease.ErrLost) {
			t.Errorf("a request was granted twice: %v", err)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }
