package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A pool lets a limited number of owners work at a time. Each of its slots is a
// key, pool:NAME#1, pool:NAME#2 and so on, so whatever is true of a key is true of
// a slot. No record counts them: the locks that exist are the slots in use.
//
// The size belongs to the store, not to a caller. Every grant guards the record of
// the pool, and so depends on the size.
//
// An owner that takes all slots also holds pool:NAME#all. Every other grant guards
// its absence: if the pool grows meanwhile, nobody gets in.

const (
	poolKind = "pool/"

	// MaxSlots is the largest size of a pool: one lease must be able to hold all of
	// its slots.
	MaxSlots = MaxKeys

	// TakeAll is the [AcquireRequest.Take] of an owner that wants a pool for itself.
	TakeAll = -1
)

// poolRecord is the size of a pool.
type poolRecord struct {
	Size   int       `json:"size"`
	Most   int       `json:"most"` // the largest size it ever had: no slot above that exists
	By     string    `json:"by"`   // who set it
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
}

// Check recognises a damaged record.
func (p poolRecord) Check(string) error {
	if p.Size < 1 || p.Size > MaxSlots || p.Most < p.Size || p.Most > MaxSlots {
		return errors.New("no size of a pool")
	}
	return nil
}

func getPool(tx *store.Tx, key string) (store.Entry[poolRecord], error) {
	return store.Get[poolRecord](tx, poolRecordOf(key))
}

// poolRecordOf is where the size of a pool is kept.
func poolRecordOf(key string) string { return poolKind + strings.TrimPrefix(key, string(Pool)+":") }

// isPool reports whether the key is that of a whole pool.
func isPool(key string) bool {
	return strings.HasPrefix(key, string(Pool)+":") && !strings.Contains(key, "#")
}

// queueOf is the key in whose queue one waits for a key: all slots of a pool have
// one queue.
func queueOf(key string) string {
	if strings.HasPrefix(key, string(Pool)+":") {
		key, _, _ = strings.Cut(key, "#")
	}
	return key
}

// allSlots is the number of the key that an owner of the whole pool has besides
// the slots.
const allSlots = 0

// slotKey is the key of a slot, or with [allSlots] that of all.
func slotKey(pool string, slot int) string {
	return pool + slotMark(slot)
}

// slotMark is what the key of a slot has more than that of its pool.
func slotMark(slot int) string {
	if slot == allSlots {
		return "#all"
	}
	return "#" + strconv.Itoa(slot)
}

// slotOf is the number of a slot's key; -1: it is not one.
func slotOf(key string) int {
	pool, slot, ok := strings.Cut(key, "#")
	if !ok || !isPool(pool) {
		return -1
	}
	if slot == "all" {
		return allSlots
	}
	n, err := strconv.Atoi(slot)
	if err != nil || n < 1 || n > MaxSlots || slotKey(pool, n) != key {
		return -1
	}
	return n
}

// SlotOf returns the pool and the number of a slot's key, 0 for that of all; ok is
// false if the key is not a slot. A lock on a key of the kind [Pool] that is not a
// slot was written by an older tasklock, to which that was a plain key.
func SlotOf(key string) (pool string, slot int, ok bool) {
	if slot = slotOf(key); slot < 0 {
		return "", 0, false
	}
	return queueOf(key), slot, true
}

// slotKeys are the keys that a pool can have, by their numbers: also those above
// its size, which was larger before.
func slotKeys(pool string) []string {
	keys := slotRecords(pool)
	for i, record := range keys {
		keys[i] = record[len(lockKind):]
	}
	return keys
}

// slotRecords is where the locks on slotKeys are kept. All of them are parts of one
// text: every grant needs them.
func slotRecords(pool string) []string {
	var all strings.Builder
	all.Grow((1 + MaxSlots) * (len(lockKind) + len(pool) + len("#all")))
	records := make([]string, 1+MaxSlots)
	for i := range records {
		start := all.Len()
		all.WriteString(lockKind)
		all.WriteString(pool)
		all.WriteString(slotMark(i))
		records[i] = all.String()[start:]
	}
	return records
}

// withSlots returns the keys with those of pools replaced by all of their slots.
func withSlots(keys []string) (out []string) {
	for _, key := range keys {
		if isPool(key) {
			out = append(out, slotKeys(key)...)
		} else {
			out = append(out, key)
		}
	}
	return out
}

// checkSlot says which rule the key of a pool or slot breaks.
func checkSlot(key string) string {
	pool, _, ok := strings.Cut(key, "#")
	switch {
	case strings.HasPrefix(pool, Pool.Key(Pool.Key(""))):
		return "must not begin with pool: twice"
	case len(pool) > MaxKey-len("#all"):
		return fmt.Sprintf("has %d bytes, at most %d for a pool", len(pool), MaxKey-len("#all"))
	case ok && slotOf(key) < 0:
		return fmt.Sprintf("must not hold '#', except before the number of a slot (1 to %d) or \"all\"", MaxSlots)
	}
	return ""
}

// PoolSizeError: the size of the pool does not allow the request.
type PoolSizeError struct {
	Pool  string    // its name
	Size  int       // 0: there is no such pool
	By    string    // who set it
	Since time.Time // when
	Slots int       // the size that the caller named; 0: none
	Take  int       // the slots that the caller wants
}

func (e *PoolSizeError) Error() string {
	switch {
	case e.Size == 0:
		return fmt.Sprintf("pool %s has no size yet: nobody has set one", e.Pool)
	case e.Slots != 0:
		return fmt.Sprintf("pool %s has %s, set by %s; you asked for %d", e.Pool, slots(e.Size), e.By, e.Slots)
	}
	return fmt.Sprintf("pool %s has %s, set by %s; you want to take %d", e.Pool, slots(e.Size), e.By, e.Take)
}

func slots(n int) string {
	if n == 1 {
		return "1 slot"
	}
	return fmt.Sprintf("%d slots", n)
}

// PoolBusyError: the pool cannot be removed while it is in use.
type PoolBusyError struct {
	Pool    string
	Holders []Info
	Waiters int
}

func (e *PoolBusyError) Error() string {
	return fmt.Sprintf("pool %s is in use: %d hold a slot, %d wait", e.Pool, len(e.Holders), e.Waiters)
}

// WhichSlotError: somebody wants to break a whole pool, and must say which slots.
type WhichSlotError struct {
	Pool    string
	Holders []Info // of its slots
}

func (e *WhichSlotError) Error() string {
	const most = 5
	var held []string
	for _, h := range e.Holders[:min(len(e.Holders), most)] {
		held = append(held, h.Key+" ("+h.Owner+")")
	}
	if len(held) == 0 {
		return fmt.Sprintf("pool %s: name a slot, or an owner; nobody holds one", e.Pool)
	}
	return fmt.Sprintf("pool %s: name a slot, or an owner: %s", e.Pool, strings.Join(held, ", "))
}

// PoolInfo is a pool as others see it.
type PoolInfo struct {
	Pool    string    `json:"pool"` // its name
	Key     string    `json:"key"`
	Size    int       `json:"size"` // 0: nobody has set one
	Used    int       `json:"used"` // slots that are held, also above the size
	All     bool      `json:"all"`  // one owner has taken all of it
	Waiters int       `json:"waiters"`
	By      string    `json:"by,omitempty"` // who set the size
	Since   time.Time `json:"since,omitzero"`
	Reason  string    `json:"reason,omitempty"`
	Holders []Info    `json:"holders"` // of the slots, in force

	all *Info // who has taken all of it
}

// AllOf returns who has taken all of the pool, or nil. It may have released slots
// since: then Holders does not name it.
func (p PoolInfo) AllOf() *Info { return p.all }

// Full reports that no slot is free.
func (p PoolInfo) Full() bool { return p.All || p.Size > 0 && p.Used >= p.Size }

// PeekPool reads a pool, and guards nothing.
func PeekPool(tx *store.Tx, key string) (PoolInfo, error) {
	rec, err := store.Peek[poolRecord](tx, poolRecordOf(key))
	if err != nil {
		return PoolInfo{}, err
	}
	p := newPoolInfo(key, rec.Value)
	if err := WantPeek(tx, append(slotKeys(key), key)...); err != nil {
		return p, err
	}
	q, err := store.Peek[queueRecord](tx, queueKind+key)
	if err != nil {
		return p, err
	}
	p.Waiters = q.Value.live()
	for _, slot := range slotKeys(key) {
		i, err := Peek(tx, slot)
		if err != nil {
			return p, err
		}
		if i.InForce() {
			p.add(*i)
		}
	}
	return p, nil
}

func newPoolInfo(key string, rec poolRecord) PoolInfo {
	_, name := KindOf(key)
	return PoolInfo{Pool: name, Key: key, Size: rec.Size, By: rec.By, Since: rec.Since, Reason: rec.Reason, Holders: []Info{}}
}

// add counts a lock in force on one of the pool's keys.
func (p *PoolInfo) add(i Info) {
	if slotOf(i.Key) == allSlots {
		p.All, p.all = true, &i
		return
	}
	p.Used++
	p.Holders = append(p.Holders, i)
}

// needPool names the records that PeekPool and a grant begin with.
func needPool(key string) []string {
	return append(slotRecords(key), poolRecordOf(key), queueKind+key)
}

// SetPoolRequest gives a pool a size, whether it exists or not. Holders of slots
// above the new size keep them, and nobody gets those slots again.
type SetPoolRequest struct {
	Name   string
	Slots  int
	By     string
	Reason string
	DryRun bool
}

// SetPool sets the size of a pool. Setting the size that it has changes nothing,
// except for another reason.
func SetPool(ctx context.Context, st *store.Store, r SetPoolRequest) (out PoolInfo, err error) {
	key, err := checkPool(r.Name, r.By, r.Reason)
	if err != nil {
		return PoolInfo{}, err
	}
	if err := checkSlots(r.Slots); err != nil {
		return PoolInfo{}, err
	}
	_, err = UpdateOrLook(ctx, st, r.DryRun, driver.Query{Keys: needPool(key)}, func(tx *store.Tx) error {
		rec, err := getPool(tx, key)
		if err != nil {
			return err
		}
		if rec.Value.Size != r.Slots || r.Reason != "" && r.Reason != rec.Value.Reason {
			if err := putPool(tx, key, rec.Value, poolRecord{Size: r.Slots, By: r.By, Reason: r.Reason}); err != nil {
				return err
			}
		}
		out, err = PeekPool(tx, key)
		return err
	})
	return out, err
}

// putPool writes the size of a pool that had another one, or none. A tasklock that
// does not know pools takes the name of one, or that of a section, as a plain key
// beside the slots: so the store refuses it from the first pool on.
func putPool(tx *store.Tx, key string, before, rec poolRecord) error {
	if err := store.Need(tx, store.FormatPools); err != nil {
		return err
	}
	if before.Size == 0 {
		if err := endPlain(tx, key, rec.By); err != nil {
			return err
		}
	}
	why := slots(rec.Size)
	if before.Size != 0 && before.Size != rec.Size {
		why += fmt.Sprintf(", before %d", before.Size)
	}
	rec.Since, rec.Most = tx.Now().UTC(), max(rec.Most, rec.Size, before.Most)
	if err := tx.Put(poolRecordOf(key), rec); err != nil {
		return err
	}
	return Log(tx, Event{Event: "pool set", Keys: []string{key}, By: rec.By, Why: why, Reason: rec.Reason})
}

// endPlain makes sure that nobody holds the name of a new pool as a plain key, which
// an older tasklock may have taken: it would not keep anybody out of the pool.
func endPlain(tx *store.Tx, key, by string) error {
	i, err := Look(tx, key)
	if err != nil || i == nil {
		return err
	}
	if i.InForce() {
		return &HeldError{Info: *i, Asked: key}
	}
	return BreakKeys(tx, []string{key}, by, "", false)
}

// RemovePoolRequest removes a pool that nobody uses.
type RemovePoolRequest struct {
	Name   string
	By     string
	Reason string
	DryRun bool
}

// RemovePool removes the size of a pool. While somebody holds a slot or waits for
// one the error is a [*PoolBusyError]; [ErrNotFound] if there is no such pool.
func RemovePool(ctx context.Context, st *store.Store, r RemovePoolRequest) error {
	key, err := checkPool(r.Name, r.By, r.Reason)
	if err != nil {
		return err
	}
	_, err = UpdateOrLook(ctx, st, r.DryRun, driver.Query{Keys: needPool(key)}, func(tx *store.Tx) error {
		rec, err := getPool(tx, key)
		if err != nil {
			return err
		}
		if _, err := getQueue(tx, key); err != nil {
			return err
		}
		p, err := PeekPool(tx, key)
		switch {
		case err != nil:
			return err
		case !rec.Exists():
			return ErrNotFound
		case p.Used > 0 || p.All || p.Waiters > 0:
			return &PoolBusyError{Pool: p.Pool, Holders: p.Holders, Waiters: p.Waiters}
		}
		if err := BreakKeys(tx, slotKeys(key), r.By, r.Reason, false); err != nil { // guards them, and ends those that are over
			return err
		}
		tx.Delete(poolRecordOf(key))
		return Log(tx, Event{Event: "pool removed", Keys: []string{key}, By: r.By, Why: slots(p.Size), Reason: r.Reason})
	})
	return err
}

// PoolResult is everything about a pool.
type PoolResult struct {
	PoolInfo
	Queue []Waiter `json:"queue"` // who waits, in order
}

// ShowPool returns a pool, who holds its slots and who waits for them, or
// [ErrNotFound].
func ShowPool(ctx context.Context, st *store.Store, name string) (out PoolResult, err error) {
	key, err := PoolKey(name)
	if err != nil {
		return PoolResult{}, err
	}
	err = st.View(ctx, driver.Query{Keys: needPool(key)}, func(tx *store.Tx) error {
		if out.PoolInfo, err = PeekPool(tx, key); err != nil {
			return err
		}
		if out.Queue, err = waitersFor(tx, key); err != nil {
			return err
		}
		if out.Size == 0 && len(out.Queue) == 0 && len(out.Holders) == 0 {
			return ErrNotFound
		}
		return nil
	})
	return out, err
}

// PoolsResult holds pools in the order of their names.
type PoolsResult struct {
	Pools []PoolInfo `json:"pools"`
}

// Pools returns all pools, with the holders of their slots.
func Pools(ctx context.Context, st *store.Store) (out PoolsResult, err error) {
	need := driver.Query{Ranges: append(slices.Clone(Everything.Ranges), driver.Range{Prefix: poolKind})}
	err = st.View(ctx, need, func(tx *store.Tx) error {
		out.Pools = []PoolInfo{}
		recs, err := scan[poolRecord](tx, poolKind)
		if err != nil {
			return err
		}
		queues, err := scan[queueRecord](tx, queueKind)
		if err != nil {
			return err
		}
		at := map[string]*PoolInfo{}
		for name, rec := range recs {
			p := newPoolInfo(Pool.Key(name), rec.Value)
			at[p.Key], p.Waiters = &p, queues[p.Key].Value.live()
		}
		err = eachLock(tx, func(lk store.Entry[lockRecord], ls store.Entry[leaseRecord], q queueRecord) error {
			if p := at[queueOf(lk.Value.Key)]; p != nil && stateOf(ls) == Held {
				p.add(newInfo(lk, ls, q))
			}
			return nil
		})
		for _, p := range at {
			out.Pools = append(out.Pools, *p)
		}
		return err
	})
	slices.SortFunc(out.Pools, func(a, b PoolInfo) int { return strings.Compare(a.Pool, b.Pool) })
	return out, err
}

// CheckPool returns the key of a pool, or a [*PoolSizeError] if there is none.
func CheckPool(ctx context.Context, st *store.Store, name string) (key string, err error) {
	if key, err = PoolKey(name); err != nil {
		return "", err
	}
	return key, st.View(ctx, driver.Query{Keys: []string{poolRecordOf(key)}}, func(tx *store.Tx) error { return MustPool(tx, key) })
}

// MustPool guards that there is a pool with that key, or returns a [*PoolSizeError].
func MustPool(tx *store.Tx, key string) error {
	if ofSection(key) {
		return sectionsOwn(key)
	}
	rec, err := getPool(tx, key)
	if err == nil && !rec.Exists() {
		_, name := KindOf(key)
		err = &PoolSizeError{Pool: name}
	}
	return err
}

// NeedPool names the record that MustPool reads.
func NeedPool(key string) string { return poolRecordOf(key) }

// PoolKey is the key of the pool with that name.
func PoolKey(name string) (string, error) {
	key, err := CheckKey(Pool.Key(strings.TrimPrefix(name, string(Pool)+":")))
	if err == nil && !isPool(key) {
		err = &InvalidError{What: "pool " + quote(name), Rule: "must not hold '#'"}
	}
	return key, err
}

func checkPool(name, by, reason string) (string, error) {
	key, err := PoolKey(name)
	if err == nil && ofSection(key) {
		err = sectionsOwn(key)
	}
	return key, errors.Join(err, CheckOwner(by), checkText("reason", reason))
}

func checkSlots(n int) error {
	if n < 1 || n > MaxSlots {
		return &InvalidError{What: slots(n), Rule: fmt.Sprintf("a pool has 1 to %d slots", MaxSlots)}
	}
	return nil
}
