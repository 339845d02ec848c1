package store

import (
	"context"
	"sync"
	"time"
)

// maxTurn is how long an attempt waits for its turn while no other attempt succeeds
// in its own: turns save work, they do not make anything safe, and a store that does
// not answer must not be asked by one caller at a time.
const maxTurn = 10 * time.Second

// turns let the transactions of one process that rewrite the same record go one
// after another once they have met there: of those that go at once, one commit
// would succeed and all others read again, a thousand of them a million times.
type turns struct {
	mu     sync.Mutex
	taking map[string]*turn
}

// A turn is of those who wait for one record.
type turn struct {
	free chan struct{} // has an element unless somebody has the turn; its waiters are first come first served
	in   int           // who has it, and who wait
	good int           // those who had it and succeeded
}

// busy reports whether somebody has the turn for that record.
func (t *turns) busy(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taking[key] != nil
}

// take waits for the turn, as long as the others go on. The caller ends it with done,
// and says whether it succeeded.
func (t *turns) take(ctx context.Context, key string) (done func(good bool)) {
	at, good := t.join(key)
	mine := at.wait(ctx, func() bool { // one of the others succeeded meanwhile
		t.mu.Lock()
		defer t.mu.Unlock()
		before := good
		good = at.good
		return good > before
	})
	return func(good bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine {
			at.free <- struct{}{}
		}
		if good {
			at.good++
		}
		if at.in--; at.in == 0 {
			delete(t.taking, key)
		}
	}
}

// join adds a waiter for the turn of a record.
func (t *turns) join(key string) (at *turn, good int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taking == nil {
		t.taking = map[string]*turn{}
	}
	if at = t.taking[key]; at == nil {
		at = &turn{free: make(chan struct{}, 1)}
		at.free <- struct{}{}
		t.taking[key] = at
	}
	at.in++
	return at, at.good
}

// wait reports whether the caller has the turn now.
func (at *turn) wait(ctx context.Context, moves func() bool) bool {
	limit := time.NewTimer(maxTurn)
	defer limit.Stop()
	for {
		select {
		case <-at.free:
			return true
		case <-ctx.Done():
			return false
		case <-limit.C:
			if !moves() {
				return false
			}
			limit.Reset(maxTurn)
		}
	}
}

// awaitTurn waits for the turn of a record that the transaction rewrites, if it
// has met others there again and again, or others of this process take turns
// already. What the transaction has read is old then.
func (a *attempt) awaitTurn(ctx context.Context, tx *Tx, met bool) bool {
	key := tx.rewrites()
	if key == "" || a.done != nil || !met && !a.s.turns.busy(key) {
		return false
	}
	a.done = a.s.turns.take(ctx, key)
	a.answered = time.Now() // the wait was not for the store
	return true
}

// rewrites returns the first record that the transaction read and changes.
func (tx *Tx) rewrites() string {
	for _, key := range tx.order {
		if tx.guards[key] > 0 && tx.writes[key].Value != nil {
			return key
		}
	}
	return ""
}
