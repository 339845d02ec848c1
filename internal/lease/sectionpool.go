package lease

import (
	"strings"

	"github.com/tasklock/tasklock/store"
)

// A section in which several owners may work has a pool: each of them holds a slot
// around its tasks, as the only owner of another section holds its key. The name of
// such a section means all of the pool, see bearerOf. Package task sets its size,
// together with the record of the section.

// SectionPool is the key of a section's pool.
func SectionPool(section string) string { return Pool.Key(Section.Key(section)) }

// ofSection reports whether a pool belongs to a section.
func ofSection(pool string) bool { return isPool(pool) && strings.HasPrefix(pool, SectionPool("")) }

// sectionsOwn refuses to change a pool that belongs to a section.
func sectionsOwn(pool string) error {
	name := strings.TrimPrefix(pool, SectionPool(""))
	return &InvalidError{What: "pool " + quote(strings.TrimPrefix(pool, string(Pool)+":")), Rule: "belongs to a section: tasklock sections update " + quote(name) + " --workers N"}
}

// SizeSection lets this many owners work in a section.
func SizeSection(tx *store.Tx, section string, size int, by string) error {
	key, err := PoolKey(SectionPool(section))
	if err != nil {
		return err
	}
	if err := checkSlots(size); err != nil {
		return err
	}
	rec, err := getPool(tx, key)
	if err != nil || rec.Value.Size == size {
		return err
	}
	now := poolRecord{Size: size, By: by}
	if !rec.Exists() { // it may have had a pool before, whose slots are still held: see OpenSection
		now.Most = MaxSlots
	}
	return putPool(tx, key, rec.Value, now)
}

// OpenSection removes the pool of a section. It guards that nobody has taken all of
// it, or returns whoever has: a lease on all that is over ends, or its owner could
// renew it. Those who hold a slot keep it until they end.
func OpenSection(tx *store.Tx, section, by string) (all *Info, err error) {
	key := SectionPool(section)
	all, err = Look(tx, slotKey(key, allSlots))
	if err != nil || all.InForce() {
		return all, err
	}
	if err := BreakKeys(tx, []string{slotKey(key, allSlots)}, by, "", false); err != nil {
		return nil, err
	}
	rec, err := getPool(tx, key)
	if err == nil && rec.Exists() {
		tx.Delete(rec.Key)
	}
	return nil, err
}

// PeekSection returns the pool of a section, and guards nothing. Its size is 0 if
// there is none.
func PeekSection(tx *store.Tx, section string) (PoolInfo, error) {
	return PeekPool(tx, SectionPool(section))
}

// NeedSection names the records that PeekSection reads first.
func NeedSection(section string) []string { return needPool(SectionPool(section)) }

// LookSection returns who holds slots of a section, and guards them all.
func LookSection(tx *store.Tx, section string) (held []Info, err error) {
	keys := slotKeys(SectionPool(section))
	if err := WantLook(tx, keys...); err != nil {
		return nil, err
	}
	for _, key := range keys {
		i, err := Look(tx, key)
		if err != nil {
			return nil, err
		}
		if i.InForce() {
			held = append(held, *i)
		}
	}
	return held, nil
}
