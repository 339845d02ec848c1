package access

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A Book is what a server remembers of the keys. It answers from memory: a wrong key
// costs the store nothing.
type Book struct {
	st *store.Store

	mu     sync.RWMutex
	passes map[string]*Pass
	looked time.Time // start of the last look that succeeded
	extra  int       // looks left in this second for keys that nobody knows

	one sync.Mutex // one look at a time
}

// Pass is a valid key in a server.
type Pass struct {
	Key
	rec   record
	until time.Time // zero: for ever

	ctx context.Context
	end context.CancelCauseFunc
}

// Context ends when the key does, with [ErrRevoked] as its cause.
func (p *Pass) Context() context.Context { return p.ctx }

const (
	lookEvery  = time.Second
	extraLooks = 10 // a second, for keys that were made since the last look
)

// NewBook has no keys until its first look.
func NewBook(st *store.Store) *Book { return &Book{st: st, passes: map[string]*Pass{}} }

// Follow looks once a second until ctx ends.
func (b *Book) Follow(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := b.Look(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		b.mu.Lock()
		b.extra = extraLooks
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look reads the keys. Those that are not valid any more end, and with them the
// requests that they opened.
func (b *Book) Look(ctx context.Context) error {
	b.one.Lock()
	defer b.one.Unlock()
	began := time.Now()
	var known records
	var now time.Time
	err := b.st.View(ctx, driver.Query{Ranges: []driver.Range{all}}, func(tx *store.Tx) (err error) {
		known, _, err = read(tx)
		now = tx.Now()
		return err
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, p := range b.passes {
		if r, ok := known[id]; !ok || r.SHA256 != p.rec.SHA256 {
			p.end(ErrRevoked)
			delete(b.passes, id)
		}
	}
	for id, r := range known {
		state, until := known.state(id, now)
		p := b.passes[id]
		switch {
		case state != Valid && p != nil:
			p.end(ErrRevoked)
			delete(b.passes, id)
		case state == Valid && p == nil:
			p = &Pass{Key: r.key(id, Valid), rec: r, until: until}
			p.ctx, p.end = context.WithCancelCause(context.Background())
			b.passes[id] = p
		}
	}
	b.looked = began
	return nil
}

// Seen is when the keys were last read.
func (b *Book) Seen() time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.looked
}

// Len is how many keys are valid.
func (b *Book) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.passes)
}

// Find returns the pass of a key, or nil. A key that nobody knows may have been made
// since the last look: some of them, each second, cause another one.
func (b *Book) Find(ctx context.Context, text string) *Pass {
	id, ok := idOf(text)
	p, again := b.find(id)
	if p == nil && ok && again && b.Look(ctx) == nil {
		p, _ = b.find(id)
	}
	if p == nil {
		unknown.matches(text) // takes as long
		return nil
	}
	if !p.rec.matches(text) || !p.until.IsZero() && !time.Now().Before(p.until) {
		return nil
	}
	return p
}

// unknown is the record of no key.
var unknown = record{SHA256: strings.Repeat("00", 32)}

// find reports whether another look may find more.
func (b *Book) find(id string) (p *Pass, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p = b.passes[id]
	if again = p == nil && b.extra > 0; again {
		b.extra--
	}
	return p, again
}

// idOf is the id in a key, if the text has the form of one.
func idOf(text string) (string, bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	id, secret, two := strings.Cut(rest, "_")
	return id, ok && two && len(id) == idLen && len(secret) == secretLen
}
