package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/store/driver"
)

// FillRequest brings a copy into a store.
type FillRequest struct {
	To       *Store
	Copy     Copy
	Replace  bool // drop the present records
	Carry    Carry
	Progress func(done, total int)
	DryRun   bool
}

// Fill makes a store hold exactly what the copy holds. It raises the revision
// far above every commit since the copy was made, so that no fencing token is
// given out twice. The store's clock decides the age of the records. If Fill is
// interrupted the store stays closed, and the same call again continues.
func Fill(ctx context.Context, r FillRequest) (MoveResult, error) {
	c, err := r.To.current(r.Copy)
	if err != nil {
		return MoveResult{}, err
	}
	f := filling{to: r.To, copy: c, replace: r.Replace, carry: r.Carry, progress: r.Progress}
	if err := f.look(ctx); err != nil {
		return MoveResult{}, err
	}
	if c.Now.Before(f.now) {
		c.Now = f.now
	}
	f.take(c)
	if r.DryRun {
		return f.result(f.floor()), nil
	}
	if _, err := f.reserve(ctx); err != nil {
		return MoveResult{}, err
	}
	return f.run(ctx, nil)
}

// filling is the state of one copy on its way into a store.
type filling struct {
	to       *Store
	copy     Copy
	move     bool
	replace  bool
	carry    Carry
	progress func(done, total int)

	want    map[string]driver.Write // the records at the end
	order   []string
	leftOut int

	id    string    // of the target
	rev   int64     // its newest revision
	now   time.Time // by its clock, when it was first looked at
	least int64     // every revision that this copy makes is above
}

const (
	fillWrites = 1000        // records in one commit
	fillBytes  = 512 << 10   // and bytes, half of what a driver takes
	fillPasses = 5           // comparisons until it must be the same
	patience   = time.Minute // for a target that does not answer
)

// take decides which records of the copy travel.
func (f *filling) take(c Copy) {
	f.copy, f.want, f.order, f.leftOut = c, make(map[string]driver.Write, len(c.Records)), nil, 0
	carry := func(r driver.Record) (driver.Write, bool) { return Unchanged(r), true }
	if f.carry != nil {
		carry = f.carry(c)
	}
	for _, r := range c.Records {
		w, keep := carry(r)
		if !keep {
			f.leftOut++
			continue
		}
		f.want[r.Key] = w
		f.order = append(f.order, r.Key)
	}
}

func (f *filling) result(rev int64) MoveResult {
	return MoveResult{Records: len(f.order), LeftOut: f.leftOut, Revision: rev}
}

// floor is above every revision of both stores, and differs from one life of a
// copy to another.
func (f *filling) floor() int64 {
	return driver.Lift(max(f.copy.Rev, f.rev))
}

// look refuses what reserve would refuse.
func (f *filling) look(ctx context.Context) error {
	return f.to.examine(ctx, some, func(tx *Tx, m Meta) error {
		f.rev, f.now = tx.Rev(), tx.Now()
		if m.FromID == f.copy.ID && m.FromStep == stepCopy {
			return nil
		}
		if err := f.mayUse(m); err != nil {
			return err
		}
		return f.empty(tx)
	})
}

// some is enough to see whether there are records besides the description.
var some = driver.Query{Ranges: []driver.Range{{Limit: 2}}}

func (f *filling) empty(tx *Tx) error {
	recs, err := tx.Scan("", 2)
	if err != nil || f.replace {
		return err
	}
	for _, r := range recs {
		if r.Key != metaKey {
			return fmt.Errorf("%w: it holds %s", ErrNotEmpty, r.Key)
		}
	}
	return nil
}

func (f *filling) mayUse(m Meta) error {
	switch {
	case m.MovedTo != "":
		return &MovedError{To: m.MovedTo}
	case m.FromID != "" && m.FromID != f.copy.ID && !f.replace:
		return m.filling()
	case m.older() != nil && !f.to.converts():
		return m.older()
	case f.move && m.FromID == "" && m.CopyOf == f.copy.ID && m.CopyOf != "":
		return errElsewhere
	}
	return nil
}

// reserve closes the target for everybody but this copy, and makes sure that
// it is empty. made reports whether it was open before.
func (f *filling) reserve(ctx context.Context) (made bool, err error) {
	if err := f.look(ctx); err != nil { // without a trace
		return false, err
	}
	made, err = f.close(ctx)
	if err != nil {
		return false, err
	}
	fault.Point("move.closed")
	_, err = f.amend(ctx, some, func(tx *Tx, m Meta) error {
		if m.FromStep == stepCopy {
			return nil
		}
		if err := f.empty(tx); err != nil {
			return err
		}
		m.FromStep = stepCopy
		return PutMeta(tx, m)
	})
	if errors.Is(err, ErrNotEmpty) { // another process was faster: the store is theirs
		return false, f.giveUp(ctx, err, true)
	}
	return made, err
}

func (f *filling) close(ctx context.Context) (made bool, err error) {
	_, err = f.to.amend(ctx, driver.Query{}, func(tx *Tx, m Meta) error {
		if err := f.mayUse(m); err != nil {
			return err
		}
		if made = m.FromID != f.copy.ID; !made {
			if f.id = m.ID; m.Format < Format {
				return PutMeta(tx, m.raised())
			}
			return nil
		}
		m = m.described().raised()
		f.id = m.ID
		m.From, m.FromID, m.FromStep, m.CopyOf = f.copy.From, f.copy.ID, stepLook, ""
		tx.Note("records arrive from " + f.copy.From)
		return PutMeta(tx, m)
	})
	return made, err
}

// errElsewhere: the target is no longer reserved for this copy. Another process
// has completed the copy or given it up.
var errElsewhere = errors.New("the target was opened by somebody else meanwhile; repeat the command")

// amend changes the target while it is reserved for this copy.
func (f *filling) amend(ctx context.Context, need driver.Query, fn func(*Tx, Meta) error) (int64, error) {
	return f.to.amend(ctx, need, f.reserved(fn))
}

func (f *filling) reserved(fn func(*Tx, Meta) error) func(*Tx, Meta) error {
	return func(tx *Tx, m Meta) error {
		if f.rev = tx.Rev(); m.ID != f.id || m.FromID != f.copy.ID {
			return errElsewhere
		}
		return fn(tx, m)
	}
}

// giveUp opens the target again. It must be empty, unless theirs says that the
// records are those of others: another process may have begun the same copy.
func (f *filling) giveUp(ctx context.Context, cause error, theirs bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, err := f.amend(ctx, some, func(tx *Tx, m Meta) error {
		if err := f.empty(tx); err != nil && !theirs {
			return err
		}
		m.From, m.FromID, m.FromStep = "", "", ""
		return PutMeta(tx, m)
	})
	if err != nil && !errors.Is(err, errElsewhere) && !errors.Is(err, ErrNotEmpty) {
		return fmt.Errorf("%w (and the target stays closed: %w)", cause, err)
	}
	return cause
}

// run copies until both hold the same, and opens the target. from is the
// closed source, nil for a backup.
func (f *filling) run(ctx context.Context, from *Store) (MoveResult, error) {
	rev, err := f.complete(ctx, from)
	if errors.Is(err, errElsewhere) {
		m, again := f.to.describe(ctx, false)
		if again == nil && m.ID == f.id && m.CopyOf == f.copy.ID { // the same copy, made by another process
			return f.result(f.rev), nil
		}
	}
	if err != nil {
		return MoveResult{}, err
	}
	return f.result(rev), nil
}

func (f *filling) complete(ctx context.Context, from *Store) (int64, error) {
	for range fillPasses {
		if from != nil {
			c, err := from.ReadAll(ctx, f.copy.From)
			if err != nil {
				return 0, err
			}
			f.take(c)
		}
		if f.least <= f.copy.Rev {
			f.least = f.floor()
		}
		same, err := f.pass(ctx)
		if err != nil {
			return 0, err
		}
		fault.Point("move.compared")
		if same && (from == nil || f.unchanged(ctx, from)) {
			return f.open(ctx)
		}
	}
	return 0, fmt.Errorf("%w: what was copied does not stay as it was written", driver.ErrDamaged)
}

// unchanged reports whether the source is as it was read.
func (f *filling) unchanged(ctx context.Context, from *Store) bool {
	rev := int64(-1)
	a := attempt{s: from, closed: true}
	err := a.view(ctx, func(tx *Tx) error { rev = tx.Rev(); return nil })
	return err == nil && rev == f.copy.Rev
}

// pass compares the target with what is wanted, and writes the difference.
// same reports that there was none.
func (f *filling) pass(ctx context.Context) (same bool, err error) {
	todo, err := f.difference(ctx)
	if err != nil {
		return false, err
	}
	f.tell(len(f.order) - len(todo))
	if len(todo) == 0 {
		return true, nil
	}
	left := len(todo)
	for len(todo) > 0 {
		n := room(todo)
		if err := f.commit(ctx, todo[:n]); err != nil {
			return false, err
		}
		fault.Point("move.copied")
		todo, left = todo[n:], left-n
		f.tell(len(f.order) - left)
	}
	return false, nil
}

func (f *filling) tell(done int) {
	if f.progress != nil {
		f.progress(max(0, done), len(f.order))
	}
}

// difference is what has to be written in the target. Records from before the
// copy are written even if they are the same: a lock that kept its revision
// would keep its token.
func (f *filling) difference(ctx context.Context) (todo []driver.Write, err error) {
	err = f.to.examine(ctx, everything, f.reserved(func(tx *Tx, _ Meta) error {
		todo = nil
		recs, err := tx.Scan("", 0)
		if err != nil {
			return err
		}
		began, err := tx.RevOf(metaKey)
		if err != nil {
			return err
		}
		have := make(map[string]driver.Record, len(recs))
		for _, r := range recs {
			have[r.Key] = r
			if _, wanted := f.want[r.Key]; !wanted && r.Key != metaKey {
				todo = append(todo, driver.Write{Key: r.Key})
			}
		}
		for _, key := range f.order {
			if w, r := f.want[key], have[key]; r.Rev <= began || !bytes.Equal(r.Value, w.Value) {
				todo = append(todo, w)
			}
		}
		return nil
	}))
	return todo, err
}

// room is how many of the writes fit into one commit.
func room(todo []driver.Write) int {
	size := 0
	for i, w := range todo {
		if size += len(w.Key) + len(w.Value); i == fillWrites || i > 0 && size > fillBytes {
			return i
		}
	}
	return len(todo)
}

// commit writes some records while the target is reserved for this copy.
// Writing them twice changes nothing, so it repeats an unknown outcome.
func (f *filling) commit(ctx context.Context, writes []driver.Write) error {
	_, err := f.amend(ctx, driver.Query{}, func(tx *Tx, m Meta) error {
		if m.FromStep != stepCopy {
			return errElsewhere
		}
		for _, w := range writes {
			tx.write(w)
		}
		tx.Floor(f.least)
		tx.Note(fmt.Sprintf("%d records of %s", len(writes), f.copy.From))
		return nil
	})
	return err
}

// open ends the copy: from now on the target can be used.
func (f *filling) open(ctx context.Context) (int64, error) {
	return f.amend(ctx, driver.Query{}, func(tx *Tx, m Meta) error {
		m.From, m.FromID, m.FromStep, m.CopyOf, m.Converting = "", "", "", f.copy.ID, 0
		m.Format = max(m.Format, f.copy.Format)
		tx.Floor(f.least)
		tx.Note("complete: " + f.copy.From)
		return PutMeta(tx, m)
	})
}
