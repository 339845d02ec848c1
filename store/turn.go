package store

import (
	"context"
	"sync"
	"time"
)

// maxTurn bounds how long an attempt waits for its turn: turns save work, they do
// not make anything safe.
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
}

// busy reports whether somebody has the turn for that record.
func (t *turns) busy(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taking[key] != nil
}

// take waits for the turn, for some time. The caller ends it with done.
func (t *turns) take(ctx context.Context, key string) (done func()) {
	t.mu.Lock()
	if t.taking == nil {
		t.taking = map[string]*turn{}
	}
	at := t.taking[key]
	if at == nil {
		at = &turn{free: make(chan struct{}, 1)}
		at.free <- struct{}{}
		t.taking[key] = at
	}
	at.in++
	t.mu.Unlock()

	limit := time.NewTimer(maxTurn)
	defer limit.Stop()
	mine := false
	select {
	case <-at.free:
		mine = true
	case <-ctx.Done():
	case <-limit.C:
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine {
			at.free <- struct{}{}
		}
		if at.in--; at.in == 0 {
			delete(t.taking, key)
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
