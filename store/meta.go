package store

import (
	"fmt"

	"github.com/tasklock/tasklock/store/driver"
)

// Format is the version of the records' meaning that this code writes and
// the newest that it reads.
const Format = 1

const metaKey = "meta/store"

// Meta describes the store. Every transaction reads it and every commit is
// guarded by it, so that moving a store away stops all writers at once.
type Meta struct {
	Format  int    `json:"format"`
	ID      string `json:"id"`
	MovedTo string `json:"movedTo,omitempty"`
}

// ReadMeta returns the store's description; zero if nothing was written yet.
func ReadMeta(tx *Tx) (Meta, error) {
	e, err := Get[Meta](tx, metaKey)
	return e.Value, err
}

// PutMeta changes the store's description.
func PutMeta(tx *Tx, m Meta) error { return tx.Put(metaKey, m) }

// checkMeta refuses a store that this code must not touch.
func (tx *Tx) checkMeta() error {
	rec := tx.known[metaKey]
	if rec.Rev == 0 {
		return nil
	}
	var m Meta
	if err := decode(metaKey, rec.Value, &m); err != nil {
		return err
	}
	switch {
	case m.Format > Format:
		return fmt.Errorf("%w %d, this tasklock reads up to %d: upgrade it", driver.ErrNewer, m.Format, Format)
	case m.Format < 1:
		return fmt.Errorf("%w: record %q has no format", driver.ErrDamaged, metaKey)
	case m.MovedTo != "":
		return fmt.Errorf("%w to %s", ErrMoved, m.MovedTo)
	}
	return nil
}

func (tx *Tx) initMeta() error {
	if _, ok := tx.writes[metaKey]; ok {
		return nil
	}
	return PutMeta(tx, Meta{Format: Format, ID: newID()})
}
