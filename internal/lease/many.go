package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A commit guards each record that it was decided on, and the number of guards is
// limited ([store.Tx.Room]). So a lease has few keys. Records that may be many are
// read at once ([store.Tx.Want]), read without a guard if no rule depends on them
// ([store.Peek]), and ended in several commits if they are over anyway.

// Update commits what fn writes, as [store.Store.Update] does. If fn ends more
// leases than one commit can guard, Update first ends some that can end first, and
// runs fn again.
func Update(ctx context.Context, st *store.Store, need driver.Query, fn func(*store.Tx) error) (int64, error) {
	for {
		rev, err := st.Update(ctx, need, fn)
		c, ok := errors.AsType[*crowded](err)
		if !ok {
			return rev, err
		}
		if err := c.clear(ctx, st); err != nil {
			return 0, err
		}
	}
}

// UpdateOrLook is Update, or with dry a look at what it would do.
func UpdateOrLook(ctx context.Context, st *store.Store, dry bool, need driver.Query, fn func(*store.Tx) error) (int64, error) {
	if dry {
		return 0, st.View(ctx, need, fn)
	}
	return Update(ctx, st, need, fn)
}

// crowded stops a transaction that would end more leases than it can guard: these
// may end before it, each alone.
type crowded struct {
	victims []victim
	how     ending
	still   func(tx *store.Tx, v victim) (bool, error) // with a guard: it may still be ended
}

func (c *crowded) Error() string { return "more leases end at once than one commit can hold" }

// clear ends the leases, some in each commit.
func (c *crowded) clear(ctx context.Context, st *store.Store) error {
	const atOnce = 40
	for rest := c.victims; len(rest) > 0; {
		done := 0
		_, err := Update(ctx, st, driver.Query{}, func(tx *store.Tx) (err error) {
			done, err = c.some(tx, rest[:min(len(rest), atOnce)])
			return err
		})
		if err != nil {
			return err
		}
		rest = rest[done:]
	}
	return nil
}

// some ends the first victims, as many as there is room for.
func (c *crowded) some(tx *store.Tx, victims []victim) (done int, err error) {
	if err := wantLeases(tx, victimLeases(victims)); err != nil {
		return 0, err
	}
	for _, v := range victims {
		ls, err := peekLease(tx, v.lease)
		if err != nil {
			return 0, err
		}
		if done > 0 && tx.Room() < cost(ls.Value) {
			break
		}
		may, err := c.still(tx, v)
		if err != nil {
			return 0, err
		}
		if may {
			err = endVictim(tx, v, c.how)
		}
		if err != nil {
			return 0, err
		}
		done++
	}
	return done, nil
}

// endVictim ends the whole lease, or the one lock that remains of it.
func endVictim(tx *store.Tx, v victim, how ending) error {
	ls, err := getLease(tx, v.lease)
	if err != nil {
		return err
	}
	keys := ls.Value.all()
	if !ls.Exists() { // left behind in a move, or ended before
		keys = []string{v.key}
	}
	return endKeys(tx, ls, keys, how)
}

func victimLeases(victims []victim) (names []string) {
	for _, v := range victims {
		names = append(names, v.lease)
	}
	return names
}

// cost is the most guards that the end of a lease takes, without its users.
func cost(l leaseRecord) int {
	locks := max(len(l.Keys), 1)
	if locks > MaxKeys {
		locks = 0 // see lockOf
	}
	return 2 + locks + len(l.Using) + len(l.OuterKeys) + 3*len(l.Uses) + len(l.WaitsFor)
}

// wantLeases reads at once what the end of leases needs: their locks, the leases
// around and within them, and the others within those around.
func wantLeases(tx *store.Tx, names []string) error {
	around, err := wantLinks(tx, names)
	if err != nil {
		return err
	}
	_, err = wantLinks(tx, around)
	return err
}

// wantLinks reads leases, their locks and users, and returns those around them.
func wantLinks(tx *store.Tx, names []string) (around []string, err error) {
	leases, err := readLeases(tx, names, peekRecord)
	if err != nil {
		return nil, err
	}
	var more []string
	var missing error
	for i, ls := range leases {
		if !ls.Exists() { // see users
			_, err := tx.Scan(leaseKind+leaseOwner(names[i])+"/", 0)
			missing = cmp.Or(missing, err)
		}
		more = append(more, lockKeys(slices.Concat(ls.Value.all(), ls.Value.needs()))...)
		more = append(more, leaseKeys(slices.Concat(ls.Value.Uses, ls.Value.UsedBy))...)
		around = append(around, ls.Value.Uses...)
	}
	return around, cmp.Or(tx.Want(more...), missing)
}

// wantHolders reads at once the leases that hold these locks.
func wantHolders(tx *store.Tx, locks []store.Entry[lockRecord]) error {
	var names []string
	for _, lk := range locks {
		if lk.Exists() {
			names = append(names, lk.Value.Lease)
		}
	}
	leases, err := readLeases(tx, names, peekRecord)
	if err != nil {
		return err
	}
	var users []string
	for _, ls := range leases {
		users = append(users, leaseKeys(ls.Value.UsedBy)...)
	}
	return tx.Want(users...)
}

// readLeases reads several leases in one round trip.
func readLeases(tx *store.Tx, names []string, one reading[leaseRecord]) (all []store.Entry[leaseRecord], err error) {
	if err := tx.Want(leaseKeys(names)...); err != nil {
		return nil, err
	}
	for _, name := range names {
		ls, err := one(tx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, ls)
	}
	return all, nil
}

// peekLease is getLease without a guard.
func peekLease(tx *store.Tx, name string) (store.Entry[leaseRecord], error) {
	ls, err := peekRecord(tx, name)
	if err != nil {
		return ls, err
	}
	return peekUsers(tx, ls)
}

// peekRecord is peekLease without a look at its users.
func peekRecord(tx *store.Tx, name string) (store.Entry[leaseRecord], error) {
	return store.Peek[leaseRecord](tx, leaseKind+name)
}

// peekUsers is [keptBy]. It does not guard the users: a user that comes back
// writes the lease that it uses.
func peekUsers(tx *store.Tx, ls store.Entry[leaseRecord]) (store.Entry[leaseRecord], error) {
	if len(ls.Value.UsedBy) == 0 || stateOf(ls) != Dead {
		return ls, nil
	}
	if err := tx.Want(leaseKeys(ls.Value.UsedBy)...); err != nil {
		return ls, err
	}
	return keptBy(ls, func(user string) (store.Entry[leaseRecord], error) { return peekRecord(tx, user) })
}

// lockOf is getLock for a lock of a guarded lease. If the lease is older than
// [MaxKeys] and has more keys, its guard covers all of its locks: none of them
// comes or goes without a change of the lease.
func lockOf(tx *store.Tx, ls store.Entry[leaseRecord], key string) (store.Entry[lockRecord], error) {
	if ls.Exists() && len(ls.Value.Keys) > MaxKeys {
		return peekLock(tx, key)
	}
	return getLock(tx, key)
}

func peekLock(tx *store.Tx, key string) (store.Entry[lockRecord], error) {
	return store.Peek[lockRecord](tx, recordOf(key))
}

// Prefixed puts the same beginning before all names.
func Prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// someKeys calls fn with as many keys as one commit can guard, sections last
// because others may lie within them; once if there are none. A pool may mean many
// slots.
func someKeys(keys []string, fn func(keys []string) error) error {
	weight := func(key string) int {
		if isPool(key) {
			return MaxKeys / 2
		}
		return 1
	}
	isSection := func(key string) int {
		if kind, _ := KindOf(key); kind == Section {
			return 1
		}
		return 0
	}
	all := 0
	for _, key := range keys {
		all += weight(key)
	}
	if all > MaxKeys {
		keys = slices.SortedStableFunc(slices.Values(keys), func(a, b string) int { return isSection(a) - isSection(b) })
	}
	for first, sum := 0, 0; ; {
		next := first
		for sum = 0; next < len(keys) && sum+weight(keys[next]) <= MaxKeys; next++ {
			sum += weight(keys[next])
		}
		if err := fn(keys[first:next]); err != nil || next == len(keys) {
			return err
		}
		first = next
	}
}

// anyway is for leases that end whether they are over or not.
func anyway(*store.Tx, victim) (bool, error) { return true, nil }
