package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

// The format of a store is the version of its records' meaning. A record that an
// older tasklock would misread raises it, see [Need].
const (
	Format      = 2 // of a new store; older records are converted to it
	FormatPools = 3 // of a store that has had a pool; there is nothing to convert
	newest      = FormatPools
)

const metaKey = "meta/store"

// Meta describes the store. Every transaction reads it and every commit guards
// it, so moving a store away stops all writers at once.
type Meta struct {
	Format int    `json:"format"`
	ID     string `json:"id"`

	// Set once the records are in another store: this one is closed for good.
	MovedTo   string `json:"movedTo,omitempty"`
	MovedToID string `json:"movedToId,omitempty"` // the id of that store

	// Set while records of another store arrive: closed until all have.
	From     string `json:"from,omitempty"`     // for people
	FromID   string `json:"fromId,omitempty"`   // what they are a copy of
	FromStep string `json:"fromStep,omitempty"` // how far it has come

	CopyOf string `json:"copyOf,omitempty"` // the FromID of the copy that was completed here

	// Set while records of this older format are converted: closed until all are.
	Converting int `json:"converting,omitempty"`
}

// Steps of a copy. A store that was not checked may hold the records of others,
// which must stay.
const (
	stepLook = "look" // closed; is it empty?
	stepCopy = "copy" // it was: the copy brought every record here
)

// MovedError: the records are in another store. It is an [ErrMoved].
type MovedError struct{ To string }

func (e *MovedError) Error() string        { return ErrMoved.Error() + " to " + e.To }
func (e *MovedError) Is(target error) bool { return target == ErrMoved }

// FillingError: a copy into this store is not complete. It is an [ErrFilling].
type FillingError struct {
	From   string
	Backup bool // From is a file
}

func (e *FillingError) Error() string {
	return fmt.Sprintf("%s: the records of %s are not all here yet; repeat the command that copies them", ErrFilling, e.From)
}
func (e *FillingError) Is(target error) bool { return target == ErrFilling }

// ReadMeta returns the store's description; zero if nothing was written yet.
func ReadMeta(tx *Tx) (Meta, error) {
	e, err := Get[Meta](tx, metaKey)
	return e.Value, err
}

func (m Meta) filling() error {
	return &FillingError{From: m.From, Backup: strings.HasPrefix(m.FromID, backupID)}
}

// PutMeta changes the store's description.
func PutMeta(tx *Tx, m Meta) error { return tx.Put(metaKey, m) }

// checkMeta refuses a store that this code must not touch.
func (s *Store) checkMeta(tx *Tx) error {
	value := tx.known[metaKey].Value
	if fine, _ := s.fine.Load().([]byte); fine != nil && bytes.Equal(fine, value) {
		return nil
	}
	m, err := tx.meta()
	if err != nil {
		return err
	}
	if err := cmp.Or(m.unusable(), m.older()); err != nil {
		return err
	}
	if value != nil {
		s.fine.Store(bytes.Clone(value))
	}
	return nil
}

// unusable is why the records cannot be used here, or nil: they have moved
// away, or have not all arrived.
func (m Meta) unusable() error {
	switch {
	case m.MovedTo != "":
		return &MovedError{To: m.MovedTo}
	case m.FromID != "":
		return m.filling()
	}
	return nil
}

// meta is the store's description, if this code understands it.
func (tx *Tx) meta() (m Meta, err error) {
	rec := tx.known[metaKey]
	if rec.Rev == 0 {
		return m, nil
	}
	if err := decode(metaKey, rec.Value, &m); err != nil {
		return m, err
	}
	switch {
	case m.Format > newest:
		return m, driver.Newer("record \""+metaKey+"\"", m.Format, newest)
	case m.Format < 1 || m.Converting < 0 || m.Converting >= m.Format:
		return m, fmt.Errorf("%w: record %q has no format", driver.ErrDamaged, metaKey)
	}
	return m, nil
}

// described is the description, or that of a new store if there is none.
func (m Meta) described() Meta {
	if m.ID == "" {
		m = Meta{Format: Format, ID: newID()}
	}
	return m
}

// Need raises the store's format to this one in the commit of the transaction, if it
// is lower. Every commit guards the description: from then on the store refuses
// versions of tasklock that do not know the format, running ones too.
func Need(tx *Tx, format int) error {
	m, err := ReadMeta(tx)
	if err != nil || m.Format >= format {
		return err
	}
	m = m.described()
	m.Format, tx.raised = format, format
	return PutMeta(tx, m)
}

func (tx *Tx) initMeta() error {
	if _, ok := tx.writes[metaKey]; ok {
		return nil
	}
	return PutMeta(tx, Meta{}.described())
}

// examine is View for a function that works on the store's description, also
// if the store is closed to everyone else.
func (s *Store) examine(ctx context.Context, need driver.Query, fn func(*Tx, Meta) error) error {
	a := attempt{s: s, need: need, closed: true}
	return a.view(ctx, withMeta(fn))
}

// amend is Update for such a function.
func (s *Store) amend(ctx context.Context, need driver.Query, fn func(*Tx, Meta) error) (int64, error) {
	a := attempt{s: s, need: need, closed: true}
	return a.update(ctx, withMeta(fn))
}

func withMeta(fn func(*Tx, Meta) error) func(*Tx) error {
	return func(tx *Tx) error {
		m, err := tx.meta()
		if err != nil {
			return err
		}
		return fn(tx, m)
	}
}
