// Package access has the access keys of a server: who may ask it for what, and in
// whose name.
//
// A key is text, tl_<id>_<secret>, with 256 random bits. Its record has a hash of
// it, so nobody who reads the store, a backup or a branch can use a key. It is shown
// once, when it is made, and never changes: it is revoked, which deletes the record.
//
//	access/<id>  {"sha256","role","owner","name","expires","parent","since"}
//
// The kind of record is new, and an older tasklock does not read it: it serves
// nobody. Backup, restore and migrate carry it like every other record. So a restored
// backup brings back a key that was revoked later.
//
// # Limit
//
// A server looks at the records once a second ([Book]). A revoked key works until
// then, and no longer, also in requests that have begun.
package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Role is what a key allows. Each allows what those before it do, except Peer.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // looks
	Worker   Role = "worker"   // takes, renews and ends what is below its owner
	Operator Role = "operator" // ends the work of others
	Admin    Role = "admin"    // makes and revokes keys
	Peer     Role = "peer"     // reads and writes every record, as a password of the database does; nothing else
)

// Roles are all of them.
var Roles = []Role{Viewer, Worker, Operator, Admin, Peer}

// Allows reports whether a key of this role may do what needs another one.
func (r Role) Allows(need Role) bool {
	if r == Peer || need == Peer {
		return r == need
	}
	have, want := slices.Index(Roles, r), slices.Index(Roles, need)
	return have >= want && want >= 0
}

// State says whether a key opens anything.
type State string

// The states.
const (
	Valid   State = "valid"
	Expired State = "expired"
	Orphan  State = "orphan"  // the key that made it was revoked or has expired
	Damaged State = "damaged" // its record cannot be read
)

// Key is an access key as others see it.
type Key struct {
	ID      string     `json:"id"`
	Role    Role       `json:"role"`
	Owner   string     `json:"owner,omitempty"` // it acts as this owner and those below
	Name    string     `json:"name,omitempty"`  // for people
	Since   time.Time  `json:"since"`
	Expires *time.Time `json:"expires,omitempty"`
	Parent  string     `json:"parent,omitempty"` // the id of the key that made it
	State   State      `json:"state"`
}

const (
	kind    = "access/"
	prefix  = "tl_"
	MaxKeys = 1000 // a server keeps all of them in memory

	idLen     = 10
	secretLen = 52 // of five bits each

	maxDepth = 8 // of keys that made keys
)

// record is what the store has of a key.
type record struct {
	SHA256  string     `json:"sha256"`
	Role    Role       `json:"role"`
	Owner   string     `json:"owner,omitempty"`
	Name    string     `json:"name,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	Parent  string     `json:"parent,omitempty"`
	Since   time.Time  `json:"since"`
}

// Check recognises a damaged record: it opens nothing.
func (r record) Check(key string) error {
	if sum, err := hex.DecodeString(r.SHA256); err != nil || len(sum) != sha256.Size || !slices.Contains(Roles, r.Role) {
		return errors.New("not an access key")
	}
	return r.check(strings.TrimPrefix(key, kind))
}

// check says which rule a key breaks.
func (r record) check(id string) error {
	switch {
	case !slices.Contains(Roles, r.Role):
		return &lease.InvalidError{What: fmt.Sprintf("role %.40q", r.Role), Rule: "must be viewer, worker, operator, admin or peer"}
	case r.Owner == "" && r.Role != Viewer && r.Role != Peer:
		return &lease.InvalidError{What: "owner", Rule: "a key that changes something needs one"}
	case len(r.Owner) > maxOwner:
		return &lease.InvalidError{What: "owner", Rule: fmt.Sprintf("has %d bytes, at most %d: each request adds its own name", len(r.Owner), maxOwner)}
	case len(r.Name) > maxName:
		return &lease.InvalidError{What: "name", Rule: fmt.Sprintf("has %d bytes, at most %d", len(r.Name), maxName)}
	case r.Owner != "":
		return lease.CheckOwner(r.Owner)
	}
	return nil
}

const (
	maxOwner = 256
	maxName  = 200
)

// AddRequest asks for a new key.
type AddRequest struct {
	Role    Role
	Owner   string
	Name    string
	Expires time.Duration // from now; 0: never
	By      string        // who makes it, for the history
	Parent  string        // the id of the key that makes it: see [AddResult]; empty: the owner of the store does
	DryRun  bool
}

// AddResult has the key itself, which nobody can read again. A key that was made by
// another has an owner below, a role that the other one allows, does not outlast it,
// and is dead with it.
type AddResult struct {
	Key
	Secret string `json:"key,omitempty"` // all of it, to be sent
}

// Add makes a key.
func Add(ctx context.Context, st *store.Store, r AddRequest) (AddResult, error) {
	id, secret := newText(idLen), newText(secretLen)
	text := prefix + id + "_" + secret
	sum := sha256.Sum256([]byte(text))
	rec := record{SHA256: hex.EncodeToString(sum[:]), Role: r.Role, Owner: r.Owner, Name: r.Name, Parent: r.Parent}
	if r.Expires < 0 {
		return AddResult{}, &lease.InvalidError{What: "expires", Rule: "must not be negative"}
	}
	if err := rec.check(id); err != nil {
		return AddResult{}, err
	}
	need := driver.Query{Keys: []string{kind + id}, Ranges: []driver.Range{all}}
	_, err := lease.UpdateOrLook(ctx, st, r.DryRun, need, func(tx *store.Tx) error {
		rec.Since, rec.Expires = tx.Now().UTC(), nil
		if r.Expires > 0 {
			until := rec.Since.Add(r.Expires)
			rec.Expires = &until
		}
		if recs, err := tx.Scan(kind, 0); err != nil || len(recs) >= MaxKeys {
			return cmp.Or(err, error(&lease.InvalidError{What: "key", Rule: fmt.Sprintf("there are %d, at most %d", len(recs), MaxKeys)}))
		}
		if err := rec.within(tx); err != nil {
			return err
		}
		if old, err := store.Get[record](tx, kind+id); err != nil || old.Exists() {
			return cmp.Or(err, errors.New("the key exists"))
		}
		if err := tx.Put(kind+id, rec); err != nil {
			return err
		}
		return lease.Log(tx, lease.Event{Event: "key added", Owner: r.Owner, By: r.By, Why: rec.describe(id)})
	})
	if err != nil {
		return AddResult{}, err
	}
	out := AddResult{Key: rec.key(id, Valid), Secret: text}
	if r.DryRun {
		out.ID, out.Secret = "", "" // they will not exist
	}
	return out, nil
}

// within makes sure that the key which makes this one is valid, and allows no more,
// and guards it and those that made it: a key that is revoked meanwhile makes none.
func (r *record) within(tx *store.Tx) error {
	parent := r.Parent
	for depth := 0; parent != ""; depth++ {
		p, err := store.Get[record](tx, kind+parent)
		switch {
		case err != nil:
			return err
		case !p.Exists() || p.Value.over(tx.Now()):
			return ErrRevoked
		case depth == maxDepth:
			return &DeniedError{"keys have made keys too often"}
		case depth == 0 && (r.Owner == "" || r.Owner == p.Value.Owner || !lease.MayUse(r.Owner, p.Value.Owner)):
			return &DeniedError{fmt.Sprintf("the owner must be below %s", p.Value.Owner)}
		case depth == 0 && !p.Value.Role.Allows(r.Role):
			return &DeniedError{fmt.Sprintf("a key of role %s does not allow %s", p.Value.Role, r.Role)}
		}
		if until := p.Value.Expires; until != nil && (r.Expires == nil || r.Expires.After(*until)) {
			r.Expires = until
		}
		parent = p.Value.Parent
	}
	return nil
}

func (r record) over(now time.Time) bool { return r.Expires != nil && !now.Before(*r.Expires) }

func (r record) describe(id string) string {
	return strings.TrimSpace(fmt.Sprintf("%s key %s %s", r.Role, id, r.Name))
}

func (r record) key(id string, s State) Key {
	return Key{ID: id, Role: r.Role, Owner: r.Owner, Name: r.Name, Since: r.Since, Expires: r.Expires, Parent: r.Parent, State: s}
}

// matches compares hashes, so that the time it takes says nothing about the key.
func (r record) matches(text string) bool {
	got := sha256.Sum256([]byte(text))
	want, _ := hex.DecodeString(r.SHA256)
	return subtle.ConstantTimeCompare(got[:], want) == 1
}

var all = driver.Range{Prefix: kind}

// ListResult holds keys, oldest first.
type ListResult struct {
	Keys []Key `json:"keys"`
}

// List returns all keys, without their secrets.
func List(ctx context.Context, st *store.Store) (ListResult, error) {
	out := ListResult{}
	err := st.View(ctx, driver.Query{Ranges: []driver.Range{all}}, func(tx *store.Tx) error {
		known, damaged, err := read(tx)
		if err != nil {
			return err
		}
		out.Keys = []Key{}
		for id, r := range known {
			state, _ := known.state(id, tx.Now())
			out.Keys = append(out.Keys, r.key(id, state))
		}
		for _, id := range damaged {
			out.Keys = append(out.Keys, Key{ID: id, State: Damaged})
		}
		return nil
	})
	slices.SortFunc(out.Keys, func(a, b Key) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return out, err
}

// records are those of all keys that can be read.
type records map[string]record

// read returns all keys, and the ids of those that are damaged: they open nothing,
// and do not stand in the way of others.
func read(tx *store.Tx) (known records, damaged []string, err error) {
	recs, err := tx.Scan(kind, 0)
	known = make(records, len(recs))
	for _, rec := range recs {
		id := strings.TrimPrefix(rec.Key, kind)
		e, err := store.Decode[record](tx, rec)
		if err != nil {
			damaged = append(damaged, id)
			continue
		}
		known[id] = e.Value
	}
	return known, damaged, err
}

// state says whether a key opens anything, and until when. A key is dead with those
// that made it.
func (known records) state(id string, now time.Time) (s State, until time.Time) {
	for depth := 0; ; depth++ {
		r, ok := known[id]
		switch {
		case (!ok || r.over(now)) && depth > 0 || depth > maxDepth:
			return Orphan, until
		case r.over(now):
			return Expired, until
		}
		if r.Expires != nil && (until.IsZero() || r.Expires.Before(until)) {
			until = *r.Expires
		}
		if id = r.Parent; id == "" {
			return Valid, until
		}
	}
}

// RevokeRequest ends keys.
type RevokeRequest struct {
	IDs    []string
	By     string // who revokes them, for the history
	Parent string // only keys that this one made, or those made by them; empty: any
	DryRun bool
}

// RevokeResult names the keys that opened something, or could have.
type RevokeResult struct {
	Revoked []Key `json:"revoked"`
}

// Revoke deletes keys, and those that they made: all, or none if one does not exist.
func Revoke(ctx context.Context, st *store.Store, r RevokeRequest) (RevokeResult, error) {
	if len(r.IDs) == 0 || len(r.IDs) > maxRevoked {
		return RevokeResult{}, &lease.InvalidError{What: "id", Rule: fmt.Sprintf("1 to %d are needed", maxRevoked)}
	}
	out := RevokeResult{}
	_, err := lease.UpdateOrLook(ctx, st, r.DryRun, driver.Query{Keys: lease.Prefixed(kind, r.IDs), Ranges: []driver.Range{all}}, func(tx *store.Tx) error {
		out.Revoked = []Key{}
		known, _, err := read(tx)
		if err != nil {
			return err
		}
		for _, id := range r.IDs {
			there, err := store.Get[json.RawMessage](tx, kind+id)
			if damage := (*store.RecordError)(nil); err != nil && !errors.As(err, &damage) {
				return err
			}
			switch {
			case !there.Exists() || r.Parent != "" && !known.made(r.Parent, id):
				return &NotFoundError{ID: id}
			}
			state, _ := known.state(id, tx.Now())
			out.Revoked = append(out.Revoked, known[id].key(id, state))
			for child := range known { // dead already: no guard is needed
				if known.made(id, child) && !slices.Contains(r.IDs, child) {
					tx.Delete(kind + child)
				}
			}
			tx.Delete(kind + id)
			if err := lease.Log(tx, lease.Event{Event: "key revoked", Owner: known[id].Owner, By: r.By, Why: known[id].describe(id)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return RevokeResult{}, err
	}
	return out, nil
}

const maxRevoked = 20

// made reports whether a key, or one that it made, made another.
func (known records) made(parent, id string) bool {
	for depth := 0; depth <= maxDepth; depth++ {
		id = known[id].Parent
		if id == "" || id == parent {
			return id == parent && id != ""
		}
	}
	return false
}

// newText returns random letters and digits, five bits each.
func newText(n int) (text string) {
	for len(text) < n {
		text += strings.ToLower(rand.Text())
	}
	return text[:n]
}
