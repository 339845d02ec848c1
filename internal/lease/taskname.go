package lease

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A task has several names: its id, its number ("1" for t1), its title and its
// aliases. One record for each name lists the tasks that have it, so a grant looks
// a key up with one guarded read and without a scan.
//
// A name may be locked before a task has it. The commit that names the task then
// notes that lock in all records of the task (bearer.Older), and a grant of the
// task looks at those locks too. Nobody can acquire such a lock later: a plain
// grant guards the absence of the name's record, and naming a task guards the lock
// on the name. A commit that names more tasks than it can guard notes that there
// may be a lock, unless it guards all locks: that would fail again and again while
// others work, see [GuardLocks].

const (
	nameKind = "name/"

	maxBearers = 20 // tasks that one record lists
	maxOlder   = 2  // locks on names of a task that are older than the name
)

// nameRecord lists the tasks that have a name.
type nameRecord struct {
	Tasks []bearer `json:"tasks"`
	More  int      `json:"more,omitempty"` // this many others are not listed
}

// bearer is a task that has the name.
type bearer struct {
	ID    string            `json:"id"`
	Key   bool              `json:"key,omitempty"`   // a key with this alias, not a task: see Origin
	Older map[string]string `json:"older,omitempty"` // locks that are older than the name: name → lease, "" for any
}

// Check recognises a damaged record.
func (n nameRecord) Check(string) error {
	if len(n.Tasks) == 0 && n.More <= 0 || n.More < 0 {
		return errors.New("a name of no task")
	}
	for _, b := range n.Tasks {
		if b.ID == "" {
			return errors.New("a name of a task without an id")
		}
	}
	return nil
}

// rank orders the meanings of a name: an id, a number, else a title or an alias.
func rank(name, id string) int {
	switch {
	case name == id:
		return 0
	case name == numberOf(id):
		return 1
	}
	return 2
}

// numberOf is the number of an id like t12 or t12_3, or "".
func numberOf(id string) string {
	num, ok := strings.CutPrefix(id, "t")
	if !ok {
		return ""
	}
	for _, part := range strings.Split(num, "_") {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return ""
		}
	}
	return num
}

// of returns the task that the name means, or an [*AmbiguousError].
func (n nameRecord) of(name string) (bearer, error) {
	for _, best := range []int{0, 1} {
		for _, b := range n.Tasks {
			if rank(name, b.ID) == best {
				return b, nil
			}
		}
	}
	if len(n.Tasks) == 1 && n.More == 0 {
		return n.Tasks[0], nil
	}
	e := &AmbiguousError{Name: name}
	for _, b := range n.Tasks {
		e.IDs = append(e.IDs, b.ID)
	}
	return bearer{}, e
}

// has returns where a task is listed, or -1.
func (n nameRecord) has(id string) int {
	return slices.IndexFunc(n.Tasks, func(b bearer) bool { return b.ID == id })
}

// with returns the record with a task in it. known says that the task has the name
// already, listed or not.
func (n nameRecord) with(name string, b bearer, known bool) nameRecord {
	n.Tasks = slices.Clone(n.Tasks)
	i := n.has(b.ID)
	switch {
	case i >= 0:
		n.Tasks[i] = b
	case rank(name, b.ID) < 2: // an id or a number is always listed
		n.Tasks = append([]bearer{b}, n.Tasks...)
	case known && n.More > 0:
	case len(n.Tasks) < maxBearers:
		n.Tasks = append(n.Tasks, b)
	default:
		n.More++
	}
	return n
}

// without returns the record without a task.
func (n nameRecord) without(id string) nameRecord {
	if i := n.has(id); i >= 0 {
		n.Tasks = slices.Delete(slices.Clone(n.Tasks), i, i+1)
	} else if n.More > 0 {
		n.More--
	}
	return n
}

func getName(tx *store.Tx, name string) (store.Entry[nameRecord], error) {
	return store.Get[nameRecord](tx, nameKind+name)
}

// named returns the names of a task that are kept: those that can be a key, with
// its id and its number.
func named(id string, names []string) []string {
	out := []string{id}
	for _, n := range append([]string{numberOf(id)}, names...) {
		key, err := CheckKey(n)
		if kind, _ := KindOf(key); err == nil && kind == Task && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

// NeedNames names the records that [SetNames] begins with.
func NeedNames(id string, names []string) (keys []string) {
	for _, n := range named(id, names) {
		keys = append(keys, nameKind+n)
		if n != id {
			keys = append(keys, lockKind+n)
		}
	}
	return keys
}

// SetNames writes into the index that a task has other names than before, besides
// its id and its number: for the commit that changes them. No names (nil) before:
// the task is new. None after: it is gone.
func SetNames(tx *store.Tx, id string, before, after []string) error {
	var old, now []string
	if before != nil {
		old = named(id, before)
	}
	if after != nil {
		now = named(id, after)
	}
	if before == nil {
		keys, err := aliased(tx, id)
		if err != nil {
			return err
		}
		now = append(now, Without(keys, now)...)
	}
	all := append(slices.Clip(now), Without(old, now)...)
	if err := tx.Want(NeedNames(id, all)...); err != nil {
		return err
	}
	b := bearer{ID: id}
	if now != nil {
		var err error
		if b.Older, err = olderLocks(tx, id, Without(now, old)); err != nil {
			return err
		}
	}
	for _, name := range all {
		e, err := getName(tx, name)
		if errors.Is(err, driver.ErrDamaged) {
			continue // damage affects only requests for that name
		}
		if err != nil {
			return err
		}
		rec := e.Value.without(id)
		if slices.Contains(now, name) {
			rec = e.Value.with(name, b, slices.Contains(old, name))
		}
		if err := rec.put(tx, name, e.Value); err != nil {
			return err
		}
	}
	return nil
}

// put writes the record if it differs from before.
func (n nameRecord) put(tx *store.Tx, name string, before nameRecord) error {
	switch {
	case len(n.Tasks) == 0 && n.More == 0:
		tx.Delete(nameKind + name)
		return nil
	case n.More == before.More && slices.EqualFunc(n.Tasks, before.Tasks, bearer.equal):
		return nil
	}
	return tx.Put(nameKind+name, n)
}

func (b bearer) equal(c bearer) bool { return b.ID == c.ID && maps.Equal(b.Older, c.Older) }

// olderLocks returns the locks that are older than the task's names: known ones
// that are not over, and those on new names. A name that is another task's id is
// locked for that task alone.
func olderLocks(tx *store.Tx, id string, fresh []string) (map[string]string, error) {
	own, err := getName(tx, id)
	if err != nil && !errors.Is(err, driver.ErrDamaged) {
		return nil, err
	}
	known := map[string]string{}
	if i := own.Value.has(id); i >= 0 {
		known = own.Value.Tasks[i].Older
	}
	if err := tx.Want(lockKeys(slices.Sorted(maps.Keys(known)))...); err != nil {
		return nil, err
	}
	older := map[string]string{}
	for name, lease := range known {
		lk, err := getLock(tx, name)
		if err != nil {
			return nil, err
		}
		if lk.Exists() && (lease == "" || lk.Value.Lease == lease) {
			older[name] = lk.Value.Lease
		}
	}
	for _, name := range fresh {
		there, err := getName(tx, name)
		if err != nil && !errors.Is(err, driver.ErrDamaged) {
			return nil, err
		}
		if name == id || there.Value.has(name) >= 0 {
			continue
		}
		if tx.Room() < roomToName && !tx.GuardsKind(lockKind) {
			older[name] = ""
			continue
		}
		lk, err := getLock(tx, name)
		if err != nil {
			return nil, err
		}
		if lk.Exists() {
			older[name] = lk.Value.Lease
		}
	}
	return older, mayBear(tx, id, older, fresh)
}

// GuardLocks makes a commit that names many tasks depend on all locks, so that it knows
// which of the names are locked: otherwise each claim of these tasks has to look. It is
// for a first attempt, because any grant of others makes it fail.
func GuardLocks(tx *store.Tx) { tx.GuardKind(lockKind) }

// roomToName is how many guards must be left for one more on the lock of a name.
const roomToName = 20

// mayBear refuses names under which a task would have two holders at once, or
// more older locks than a grant can look at.
func mayBear(tx *store.Tx, id string, older map[string]string, fresh []string) error {
	older = maps.Clone(older)
	maps.DeleteFunc(older, func(_, lease string) bool { return lease == "" })
	if len(older) == 0 {
		return nil
	}
	var own *Info
	holders := []Info{}
	for _, name := range append([]string{id}, slices.Sorted(maps.Keys(older))...) {
		lk, err := Look(tx, name)
		switch {
		case err != nil:
			return err
		case !lk.InForce():
		case name == id:
			own = lk
		case len(older) > maxOlder, own != nil && slices.Contains(fresh, name) && !MayUse(lk.Owner, own.Owner) && !MayUse(own.Owner, lk.Owner):
			holders = append(holders, *lk)
		}
	}
	if len(holders) > 0 || len(older) > maxOlder {
		return &BusyError{Holders: holders}
	}
	return nil
}

// Named returns the ids of the tasks that an exact name can mean: one, several
// if it is ambiguous, or none.
func Named(tx *store.Tx, name string) ([]string, error) {
	key, err := CheckKey(name)
	if kind, _ := KindOf(key); err != nil || kind != Task {
		return nil, nil
	}
	e, err := getName(tx, key)
	if err != nil || !e.Exists() {
		return nil, err
	}
	b, err := e.Value.of(key)
	if several, ok := errors.AsType[*AmbiguousError](err); ok {
		return several.IDs, nil
	}
	return []string{b.ID}, err
}

// IndexNames returns the writes that index the names of tasks in a store that
// has no index yet, or half of one. Tasks are in order of their ids; locks are
// the records of locks there are.
func IndexNames(tasks []NamedTask, records []driver.Record) ([]driver.Write, error) {
	ids, locks := map[string]bool{}, map[string]string{}
	for _, t := range tasks {
		ids[t.ID] = true
	}
	for _, rec := range records {
		if name, ok := strings.CutPrefix(rec.Key, lockKind); ok {
			if lk, err := store.DecodeAt[lockRecord](rec.Time, rec); err == nil {
				locks[name] = lk.Value.Lease
			}
		}
	}
	index := map[string]nameRecord{}
	for _, t := range tasks {
		b := bearer{ID: t.ID, Older: map[string]string{}}
		names := named(t.ID, t.Names)
		for _, n := range names {
			if lease, held := locks[n]; held && !ids[n] {
				b.Older[n] = lease
			}
		}
		for _, n := range names {
			index[n] = index[n].with(n, b, false)
		}
	}
	var out []driver.Write
	for _, rec := range records {
		if name, ok := strings.CutPrefix(rec.Key, nameKind); ok && len(index[name].Tasks) == 0 {
			out = append(out, driver.Write{Key: rec.Key})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(index)) {
		value, err := store.Encode(nameKind+name, index[name])
		if err != nil {
			return nil, err
		}
		out = append(out, driver.Write{Key: nameKind + name, Value: value})
	}
	return out, nil
}

// NamedTask is a task with its names besides id and number.
type NamedTask struct {
	ID    string
	Names []string
}
