package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/store/driver"
)

// A store of an older format is converted in one closed step. First its
// description gets the new format and the mark Converting: every commit guards
// it, so from then on the store refuses older versions of tasklock, and newer
// ones too. Then the records are converted, in as many commits as it takes. Then
// the mark is removed. The next process continues an interrupted conversion; two
// that convert at once write the same.

// A Conversion returns the writes that give the records of the previous format
// the same meaning in this one. It gets all records, sorted by key, including
// those that an interrupted conversion wrote. The same records must give the
// same answer. A damaged record must not stop it. It leaves locks and leases
// alone: a token is a revision, and a write starts a new ttl.
type Conversion func(records []driver.Record) ([]driver.Write, error)

// Options change what a Store does. The first three are about records of an
// older format.
type Options struct {
	// Conversions turn the records of format 1 into those of format 2, in this
	// order. If nil, a store of an older format is refused with an [*OlderError].
	Conversions []Conversion

	// Local: the store belongs to this machine. The first transaction that
	// writes converts it; until then transactions that read see it as converted.
	// Only [Store.Upgrade] converts any other store, because that stops older
	// versions of tasklock on machines that somebody may have forgotten.
	Local bool

	// Raised, if set, is called after a transaction raised the store's format: it
	// converted the records, or had a [Need].
	Raised func(format int)

	// Patience is how long a transaction goes on trying while the store does not
	// answer. 0 means 30 seconds. The driver ends what it began by then.
	Patience time.Duration
}

// NewWith is [New] for a store that may have an older format.
func NewWith(d driver.Store, o Options) *Store {
	var seed [32]byte
	rand.Read(seed[:])
	return &Store{d: d, o: o, jitter: mrand.New(mrand.NewChaCha8(seed))}
}

// OlderError: the store must be upgraded first. It is a [driver.ErrOlder].
type OlderError struct {
	Format     int
	Converting bool // an upgrade was begun
}

func (e *OlderError) Error() string {
	if e.Converting {
		return fmt.Sprintf("%s: its upgrade to format %d is not complete; the same command completes it: tasklock init --upgrade", driver.ErrOlder, Format)
	}
	return fmt.Sprintf("%s: it has format %d, this tasklock works with format %d; upgrade it once: tasklock init --upgrade (older versions of tasklock cannot use it afterwards)",
		driver.ErrOlder, e.Format, Format)
}
func (e *OlderError) Is(target error) bool { return target == driver.ErrOlder }

// older is why the records need to be converted, or nil.
func (m Meta) older() error {
	switch {
	case m.Converting > 0:
		return &OlderError{Format: m.Converting, Converting: true}
	case m.Format > 0 && m.Format < Format:
		return &OlderError{Format: m.Format}
	}
	return nil
}

// raised is the description during a conversion.
func (m Meta) raised() Meta {
	if m.Format < Format {
		m.Format, m.Converting = Format, m.Format
	}
	return m
}

// converts reports whether this Store converts an older store on its own.
func (s *Store) converts() bool { return s.o.Local && s.o.Conversions != nil }

// convert returns the records of an older format in this one.
func (s *Store) convert(records []driver.Record, rev int64, now time.Time) ([]driver.Record, error) {
	writes, err := s.conversion(records)
	if err != nil {
		return nil, err
	}
	return applied(records, writes, rev, now), nil
}

// current is a copy with the records of this format.
func (s *Store) current(c Copy) (Copy, error) {
	if c.Format == 0 || c.Format >= Format {
		return c, nil
	}
	recs, err := s.convert(c.Records, c.Rev, c.Now)
	c.Records, c.Format = recs, Format
	return c, err
}

// conversion is what must be written to convert the records.
func (s *Store) conversion(records []driver.Record) ([]driver.Write, error) {
	if s.o.Conversions == nil {
		return nil, &OlderError{Format: Format - 1}
	}
	have := make(map[string][]byte, len(records))
	for _, r := range records {
		have[r.Key] = r.Value
	}
	want := map[string]driver.Write{}
	for _, step := range s.o.Conversions {
		writes, err := step(records)
		if err != nil {
			return nil, fmt.Errorf("convert the records to format %d: %w", Format, err)
		}
		for _, w := range writes {
			want[w.Key] = w
		}
		records = applied(records, writes, 0, time.Time{})
	}
	var todo []driver.Write
	for key, w := range want {
		old, there := have[key]
		if (w.Value == nil) == there || w.Value != nil && !bytes.Equal(old, w.Value) {
			todo = append(todo, w)
		}
	}
	slices.SortFunc(todo, func(a, b driver.Write) int { return strings.Compare(a.Key, b.Key) })
	return todo, nil
}

// applied returns the records after the writes.
func applied(records []driver.Record, writes []driver.Write, rev int64, now time.Time) []driver.Record {
	all := make(map[string]driver.Record, len(records)+len(writes))
	for _, r := range records {
		all[r.Key] = r
	}
	for _, w := range writes {
		if w.Value == nil {
			delete(all, w.Key)
			continue
		}
		all[w.Key] = driver.Record{Key: w.Key, Rev: rev, Time: now, Value: w.Value}
	}
	return slices.SortedFunc(maps.Values(all), byKey)
}

// readOlder reads a store of an older format as if it were converted. A decision
// on these records is never committed: see [attempt.update].
func (a *attempt) readOlder(ctx context.Context, q driver.Query) (*Tx, error) {
	snap, err := a.s.d.Read(ctx, everything)
	if err != nil {
		return nil, &readError{err}
	}
	a.guessed = false
	tx := newTx(snap, q)
	if m, err := tx.meta(); err != nil || m.older() == nil { // converted meanwhile
		return nil, err
	}
	if snap.Records, err = a.s.convert(snap.Records, snap.Rev, snap.Now); err != nil {
		return nil, err
	}
	a.older = true
	return newTx(snap, q), nil
}

// UpgradeRequest converts a store to the format of this tasklock.
type UpgradeRequest struct {
	// Leave, if set, may refuse in the transaction that closes the store. It must
	// guard what it relies on.
	Leave  func(*Tx) error
	DryRun bool
}

// UpgradeResult says what an upgrade did.
type UpgradeResult struct {
	From    int  `json:"from"`    // the format before
	To      int  `json:"to"`      // and now
	Records int  `json:"records"` // that were written, or would be
	Tables  bool `json:"tables"`  // what the driver keeps the records in was of an older version
	Already bool `json:"already"` // there was nothing to do
}

// An upgrader is a driver that must change its own tables too. It does so while
// the store is closed, so that nobody works on half of it.
type upgrader interface {
	Outdated() bool // as it was when the store was opened
	Upgrade(ctx context.Context) error
}

// outdated reports whether the driver must change its tables.
func (s *Store) outdated() bool {
	d, ok := s.d.(upgrader)
	return ok && d.Outdated()
}

// Upgrade converts the store. From then on it refuses older versions of
// tasklock, running ones too. If it was interrupted, repeat it.
func (s *Store) Upgrade(ctx context.Context, r UpgradeRequest) (UpgradeResult, error) {
	out := UpgradeResult{From: Format, To: Format, Tables: s.outdated()}
	if r.DryRun {
		todo, m, err := s.unconverted(ctx, r.Leave)
		out.Records, out.From, out.To, out.Already = len(todo), m.was(), max(m.was(), Format), m.older() == nil && !out.Tables
		return out, err
	}
	m, err := s.beginUpgrade(ctx, r.Leave)
	if err != nil {
		return out, err
	}
	fault.Point("upgrade.closed")
	if d, ok := s.d.(upgrader); ok {
		if err := d.Upgrade(ctx); err != nil {
			return out, err
		}
	}
	if m.older() == nil {
		out.From, out.To, out.Already = m.was(), m.was(), !out.Tables
		return out, nil
	}
	out.From = m.was()
	out.Records, err = s.finishUpgrade(ctx)
	return out, err
}

// was is the format of the records.
func (m Meta) was() int { return cmp.Or(m.Converting, m.Format, Format) }

// beginUpgrade closes the store, and returns its description.
func (s *Store) beginUpgrade(ctx context.Context, leave func(*Tx) error) (m Meta, err error) {
	_, err = s.amend(ctx, driver.Query{}, func(tx *Tx, found Meta) error {
		m = found
		if err := m.unusable(); err != nil || m.older() == nil && !s.outdated() || m.Converting > 0 {
			return err
		}
		if m.older() != nil && s.o.Conversions == nil {
			return m.older()
		}
		if leave != nil {
			if err := leave(tx); err != nil {
				return err
			}
		}
		if m.older() == nil {
			return nil
		}
		tx.Note(fmt.Sprintf("upgrade from format %d to %d", m.Format, Format))
		return PutMeta(tx, m.raised())
	})
	return m, err
}

// upgradeHere converts a store of this machine, for the first who writes.
func (s *Store) upgradeHere(ctx context.Context) error {
	out, err := s.Upgrade(ctx, UpgradeRequest{})
	if err == nil && !out.Already && s.o.Raised != nil {
		s.o.Raised(Format)
	}
	return err
}

// errUpgraded: another process has completed the upgrade.
var errUpgraded = errors.New("the upgrade is complete")

// finishUpgrade converts the records of a closed store, and opens it. It
// returns how many it wrote.
func (s *Store) finishUpgrade(ctx context.Context) (records int, err error) {
	for range fillPasses {
		todo, _, err := s.unconverted(ctx, nil)
		if err != nil {
			return records, err
		}
		if len(todo) == 0 {
			return records, ignore(s.endUpgrade(ctx), errUpgraded)
		}
		for len(todo) > 0 {
			n := room(todo)
			if err := s.commitConverted(ctx, todo[:n]); err != nil {
				return records, ignore(err, errUpgraded)
			}
			fault.Point("upgrade.converted")
			todo, records = todo[n:], records+n
		}
	}
	return records, fmt.Errorf("%w: what was converted does not stay as it was written", driver.ErrDamaged)
}

func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

// unconverted is what still has to be written, nothing in a converted store.
func (s *Store) unconverted(ctx context.Context, leave func(*Tx) error) (todo []driver.Write, m Meta, err error) {
	err = s.examine(ctx, everything, func(tx *Tx, found Meta) error {
		todo, m = nil, found
		if err := m.unusable(); err != nil || m.older() == nil && !s.outdated() {
			return err
		}
		if leave != nil && m.Converting == 0 {
			if err := leave(tx); err != nil {
				return err
			}
		}
		if m.older() == nil {
			return nil
		}
		recs, err := tx.Scan("", 0)
		if err == nil {
			todo, err = s.conversion(recs)
		}
		return err
	})
	return todo, m, err
}

// commitConverted writes some records while the store is closed for it.
// Writing them twice changes nothing, so it repeats an unknown outcome.
func (s *Store) commitConverted(ctx context.Context, writes []driver.Write) error {
	return s.whileConverting(ctx, func(tx *Tx, m Meta) error {
		for _, w := range writes {
			tx.write(w)
		}
		tx.Note(fmt.Sprintf("%d records converted to format %d", len(writes), Format))
		return nil
	})
}

// endUpgrade opens the store.
func (s *Store) endUpgrade(ctx context.Context) error {
	return s.whileConverting(ctx, func(tx *Tx, m Meta) error {
		m.Format, m.Converting = Format, 0
		tx.Note(fmt.Sprintf("upgraded to format %d", Format))
		return PutMeta(tx, m)
	})
}

func (s *Store) whileConverting(ctx context.Context, fn func(*Tx, Meta) error) error {
	_, err := s.amend(ctx, driver.Query{}, func(tx *Tx, m Meta) error {
		if err := m.unusable(); err != nil {
			return err
		}
		if m.Converting == 0 {
			return errUpgraded
		}
		return fn(tx, m)
	})
	return err
}
