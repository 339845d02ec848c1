package lease

import (
	"context"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// cursorRecord is how far the events of a cursor were handled: record cursor/<name>.
type cursorRecord struct {
	Rev     int64    `json:"rev"`               // up to the commit with this revision
	Holders []string `json:"holders,omitempty"` // who had its key, the present one last
}

const cursorKind = "cursor/"

func (c cursorRecord) holder() string {
	if len(c.Holders) == 0 {
		return ""
	}
	return c.Holders[len(c.Holders)-1]
}

// CursorKey is the key of a cursor. Whoever works through the events of the cursor
// holds it, so that nobody else does at the same time.
func CursorKey(name string) string { return "watch:" + name }

// DeliverRequest names a cursor and the grant of its key.
type DeliverRequest struct {
	Cursor string
	Since  int64  // where a new cursor begins: after this revision, or FromNow
	Owner  string // who holds the key of the cursor
	Lease  string
	Token  int64
}

// Deliver is [Watch] from a cursor that the store keeps. It moves the cursor when fn
// has handled a group: whoever goes on after a crash gets that group again, or the
// next one, and none is lost. The end of ctx ends it between two groups. It leaves out
// what its holder and earlier holders do, and what those do who work under them:
// otherwise a command that uses tasklock would cause its own next event, for ever.
func Deliver(ctx context.Context, st *store.Store, r DeliverRequest, ready func(rev int64), fn func(Group) error) error {
	if _, err := CheckKey(CursorKey(r.Cursor)); err != nil {
		return err
	}
	d := delivery{DeliverRequest: r, st: st}
	if err := d.open(ctx); err != nil {
		return err
	}
	return Watch(ctx, st, WatchRequest{Since: d.at}, ready, func(g Group) error { return d.handle(ctx, g, fn) })
}

// delivery is the run of a [DeliverRequest].
type delivery struct {
	DeliverRequest
	st      *store.Store
	at      int64    // where the cursor is
	holders []string // of the key of the cursor, until now
	skipped int      // groups since then that concern nobody
}

// maxSkipped is how many groups that concern nobody a cursor may lag behind: moving
// it is a commit.
const maxSkipped = 100

// maxHolders is how many holders a cursor remembers: what they did may come after it
// if they crashed.
const maxHolders = 20

func (d *delivery) handle(ctx context.Context, g Group, fn func(Group) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g.Events = slices.DeleteFunc(slices.Clone(g.Events), d.own)
	if len(g.Events) == 0 && !g.Gap {
		if d.skipped++; d.skipped < maxSkipped {
			return nil
		}
		return d.move(ctx, g.Rev)
	}
	if err := fn(g); err != nil {
		return err
	}
	return d.move(ctx, g.Rev)
}

// own reports whether the delivery itself causes an event.
func (d *delivery) own(e Event) bool {
	return e.About(CursorKey(d.Cursor)) || slices.ContainsFunc(d.holders, func(owner string) bool {
		return descends(e.Owner, owner) || e.By != "" && descends(e.By, owner)
	})
}

// open finds the cursor, or makes it, and adds the holder to those of the cursor.
func (d *delivery) open(ctx context.Context) error {
	return d.update(ctx, func(tx *store.Tx, c store.Entry[cursorRecord]) error {
		switch d.at = c.Value.Rev; {
		case c.Exists():
		case d.Since == FromNow:
			d.at = tx.Rev()
		case d.Since > tx.Rev():
			return &AheadError{Since: d.Since, Newest: tx.Rev()}
		default:
			d.at = d.Since
		}
		d.holders = slices.DeleteFunc(c.Value.Holders, func(owner string) bool { return owner == d.Owner })
		d.holders = append(d.holders[max(0, len(d.holders)+1-maxHolders):], d.Owner)
		return tx.Put(c.Key, cursorRecord{Rev: d.at, Holders: d.holders})
	})
}

// moveTime is how long a move may take after the end of the watch.
const moveTime = 10 * time.Second

// move notes that all up to a revision is handled, even if the watch has just ended.
func (d *delivery) move(ctx context.Context, to int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveTime)
	defer cancel()
	err := d.update(ctx, func(tx *store.Tx, c store.Entry[cursorRecord]) error {
		if c.Value.Rev != d.at && c.Value.Rev != to { // to: of this commit, whose reply was lost
			return &LostError{Key: CursorKey(d.Cursor), Token: d.Token, Owner: c.Value.holder(), Why: "somebody else moved the cursor"}
		}
		return tx.Put(c.Key, cursorRecord{Rev: to, Holders: d.holders})
	})
	if err == nil {
		d.at, d.skipped = to, 0
	}
	return err
}

// update changes the cursor while its key is held.
func (d *delivery) update(ctx context.Context, fn func(*store.Tx, store.Entry[cursorRecord]) error) error {
	key := CursorKey(d.Cursor)
	need := driver.Query{Keys: []string{cursorKind + d.Cursor, recordOf(key)}}
	_, err := d.st.Update(ctx, need, func(tx *store.Tx) error {
		if err := FenceLease(tx, key, d.Token, d.Lease); err != nil {
			return err
		}
		c, err := store.Get[cursorRecord](tx, cursorKind+d.Cursor)
		if err != nil {
			return err
		}
		return fn(tx, c)
	})
	return err
}
