package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/store/driver"
)

// A Copy is everything that a store held at one revision, without its own
// description.
type Copy struct {
	Format  int    // of the records; 0: [Format]
	From    string // where it comes from, for people
	ID      string // of the source: the same id is the same copy
	Rev     int64
	Now     time.Time // by the clock of the store
	Records []driver.Record
	MovedTo string // set if the store had moved by then
}

// ReadAll returns a copy of the store, even of one that has moved: its records
// stay readable.
func (s *Store) ReadAll(ctx context.Context, name string) (Copy, error) {
	c := Copy{From: name}
	err := s.examine(ctx, everything, func(tx *Tx, m Meta) error {
		if m.FromID != "" {
			return m.filling()
		}
		if err := m.older(); err != nil && m.MovedTo == "" && !s.converts() {
			return err
		}
		c.ID, c.Rev, c.Now, c.Records, c.MovedTo, c.Format = m.ID, tx.Rev(), tx.Now(), nil, m.MovedTo, max(m.Format, Format)
		recs, err := tx.Scan("", 0)
		if err == nil && m.older() != nil {
			recs, err = s.convert(recs, tx.Rev(), tx.Now())
		}
		for _, r := range recs {
			if r.Key != metaKey {
				c.Records = append(c.Records, r)
			}
		}
		return err
	})
	return c, err
}

var everything = driver.Query{Ranges: []driver.Range{{}}}

// A Carry says how the records of a snapshot travel: what is written for each,
// or that it has expired and stays behind. A record that arrives gets a new
// revision and begins to age again.
type Carry func(c Copy) func(driver.Record) (w driver.Write, keep bool)

// Unchanged carries a record that means the same everywhere.
func Unchanged(r driver.Record) driver.Write { return driver.Write{Key: r.Key, Value: r.Value} }

// MoveRequest moves all records of one store to another.
type MoveRequest struct {
	From, To         *Store
	FromName, ToName string // for people; they are written into both stores

	// Leave, if set, may refuse in the transaction that closes the source. It
	// must guard what it relies on.
	Leave func(*Tx) error

	Carry    Carry                 // nil: everything, without bounds
	Progress func(done, total int) // if set: called as records arrive
	DryRun   bool
}

// MoveResult says what was moved.
type MoveResult struct {
	Records  int   `json:"records"`  // that are in the target now, or would be
	LeftOut  int   `json:"leftOut"`  // that were over
	Revision int64 `json:"revision"` // every revision of the target is above those before this one
	Already  bool  `json:"already"`  // an earlier move had been completed
}

// Move copies every record to an empty store and closes the one they were in.
//
// It closes the target first, then the source: from then on every transaction
// there fails with a [*MovedError], so nothing can be written that would be left
// behind. Then it copies the records, with revisions above all that either store
// ever had, compares them, and opens the target. If a move is interrupted, the
// same move again continues; until then neither store can be used. Two that run
// at once do the same.
func Move(ctx context.Context, r MoveRequest) (out MoveResult, err error) {
	for range maxFailures { // again where another process that wants the same was faster, or has given up
		if out, err = r.move(ctx); !errors.Is(err, errElsewhere) {
			break
		}
	}
	return out, err
}

func (r *MoveRequest) move(ctx context.Context) (MoveResult, error) {
	f := filling{to: r.To, move: true, carry: r.Carry, progress: r.Progress}
	src, err := r.From.describe(ctx, !r.DryRun)
	if err != nil {
		return MoveResult{}, err
	}
	f.copy.From, f.copy.ID = r.FromName, src.ID
	dst, err := r.To.describe(ctx, false)
	switch {
	case err != nil:
		return MoveResult{}, err
	case src.ID != "" && src.ID == dst.ID:
		return MoveResult{}, fmt.Errorf("%w: %s and %s", ErrSame, r.FromName, r.ToName)
	case src.MovedTo != "" && (src.MovedToID != dst.ID || dst.ID == ""):
		return MoveResult{}, &MovedError{To: src.MovedTo}
	case src.FromID != "":
		return MoveResult{}, src.filling()
	case src.MovedTo != "" && dst.CopyOf == src.ID && dst.FromID == "":
		return MoveResult{Already: true}, nil
	}
	if src.MovedTo == "" || r.DryRun { // ask first: a refusal leaves no trace
		out, err := r.rehearse(ctx, &f, src.MovedTo == "")
		if err != nil || r.DryRun {
			return out, err
		}
	}
	made, err := f.reserve(ctx)
	if err != nil {
		return MoveResult{}, err
	}
	fault.Point("move.reserved")
	if err := r.seal(ctx, f.id); err != nil {
		if made {
			err = f.giveUp(ctx, err, false)
		}
		return MoveResult{}, err
	}
	fault.Point("move.sealed")
	return f.run(ctx, r.From)
}

// rehearse finds out what a move would do. It reads everything: somebody must
// repair an unreadable record while the store is still in use.
func (r *MoveRequest) rehearse(ctx context.Context, f *filling, leaving bool) (MoveResult, error) {
	if leaving && r.Leave != nil {
		err := r.From.View(ctx, driver.Query{}, r.Leave)
		if errors.Is(err, ErrMoved) { // just now
			err = errElsewhere
		}
		if err != nil {
			return MoveResult{}, err
		}
	}
	if err := f.look(ctx); err != nil {
		return MoveResult{}, err
	}
	c, err := r.From.ReadAll(ctx, r.FromName)
	if err != nil {
		return MoveResult{}, err
	}
	f.take(c)
	return f.result(f.floor()), nil
}

// seal closes the source and says where its records go.
func (r *MoveRequest) seal(ctx context.Context, to string) error {
	_, err := r.From.amend(ctx, driver.Query{}, func(tx *Tx, m Meta) error {
		switch {
		case m.MovedTo != "" && m.MovedToID == to:
			return nil
		case m.MovedTo != "":
			return &MovedError{To: m.MovedTo}
		case m.FromID != "":
			return m.filling()
		}
		if r.Leave != nil {
			if err := r.Leave(tx); err != nil {
				return err
			}
		}
		m.MovedTo, m.MovedToID = r.ToName, to
		tx.Note("moved to " + r.ToName)
		return PutMeta(tx, m)
	})
	return err
}

// describe returns the store's description. With ensure it writes one if there
// is none: a store needs an id of its own.
func (s *Store) describe(ctx context.Context, ensure bool) (m Meta, err error) {
	_, err = s.amend(ctx, driver.Query{}, func(tx *Tx, found Meta) error {
		if m = found; m.ID != "" || !ensure {
			return nil
		}
		m = m.described()
		return PutMeta(tx, m)
	})
	return m, err
}

// Raise lifts the revision, and with it every later fencing token, above
// everything that was given out before another tool put the records back to an
// older state.
func (s *Store) Raise(ctx context.Context) (int64, error) {
	return s.Update(ctx, driver.Query{}, func(tx *Tx) error {
		m, err := ReadMeta(tx)
		if err != nil {
			return err
		}
		tx.Floor(driver.Lift(tx.Rev()))
		tx.Note(fmt.Sprintf("raise the revision from %d", tx.Rev()))
		return PutMeta(tx, m.described())
	})
}
