package lease

import (
	"maps"
	"slices"

	"github.com/tasklock/tasklock/store"
)

// A package above may list what a lock keeps from others apart from what is free.
// Locks end in many ways (release, break, cleanup, the end of a session) that such
// a package takes no part in. So a lease can name, for a key, the entry of an index
// that the end of this key puts back. Expiry writes nothing: nobody commits it.

// entryRecord is such an entry.
type entryRecord struct {
	ID string `json:"id"`
}

// PutBack makes the end of the lock on key write the record entry, which names the
// key. The lock must be granted or renewed by this transaction; else nothing
// changes. An entry is a hint for its readers: an older tasklock does not write it.
func PutBack(tx *store.Tx, key, entry string) error {
	lk, err := getLock(tx, key)
	if err != nil || !lk.Exists() {
		return err
	}
	ls, err := store.Get[leaseRecord](tx, leaseKind+lk.Value.Lease)
	if err != nil || ls.Rev != store.Pending {
		return err
	}
	l := ls.Value
	if l.PutsBack = maps.Clone(l.PutsBack); l.PutsBack == nil {
		l.PutsBack = map[string]string{}
	}
	l.PutsBack[key] = entry
	return tx.PutTTL(ls.Key, l, l.stays())
}

// putAllBack puts the entries back before the end of the keys, which may expire sooner
// than the index says.
func (l *leaseRecord) putAllBack(tx *store.Tx) error {
	for _, key := range slices.Sorted(maps.Keys(l.PutsBack)) {
		if err := l.putBack(tx, key); err != nil {
			return err
		}
	}
	l.PutsBack = nil
	return nil
}

// putBack writes what the end of a key puts back.
func (l leaseRecord) putBack(tx *store.Tx, key string) error {
	entry := l.PutsBack[key]
	if entry == "" {
		return nil
	}
	return tx.Put(entry, entryRecord{ID: key})
}
