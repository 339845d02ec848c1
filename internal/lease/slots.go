package lease

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A grant of slots looks for free ones without guards, from a random one on, and
// then guards those that it takes. So two grants conflict only if they chose the
// same slot, or if somebody waits.
//
// The guards are enough: the record of the pool fixes its size, nobody takes all of
// it without writing the key of all, and slots above the size are guarded too.

// takes are how many slots of a pool a ticket waits for, if not one.
type takes map[string]int

func (t takes) of(key string) int {
	if n, ok := t[key]; ok {
		return n
	}
	return 1
}

func (t takes) with(key string, n int) takes {
	if n == 1 {
		return t
	}
	if t == nil {
		t = takes{}
	}
	t[key] = n
	return t
}

// takes is how many slots of a pool the request must have in the end. Who asks for
// a section asks for all of it.
func (a *acquisition) takes(key string) int {
	if ofSection(key) && a.names[key] != "" {
		return TakeAll
	}
	if !isPool(key) || a.req.Take == 0 || !slices.Contains(a.asked, key) {
		return 1
	}
	return a.req.Take
}

// drawSlot is random. It is drawn once for all runs of a transaction, so that each
// asks for the same records.
func drawSlot() int {
	var b [1]byte
	_, _ = rand.Read(b[:]) // it never fails
	return int(b[0])
}

// checkPools says which rule about pools the request breaks.
func (r AcquireRequest) checkPools() error {
	pools := slices.ContainsFunc(r.Keys, isPool)
	for _, key := range r.Keys {
		if slotOf(key) >= 0 {
			return &InvalidError{What: "key " + quote(key), Rule: "is a slot: acquire " + queueOf(key) + ", which takes a free one"}
		}
	}
	switch {
	case r.Slots != 0 && slices.ContainsFunc(r.Keys, ofSection):
		return sectionsOwn(r.Keys[slices.IndexFunc(r.Keys, ofSection)])
	case !pools && (r.Slots != 0 || r.Take != 0):
		return &InvalidError{What: "slots", Rule: "go with the key of a pool: pool:NAME"}
	case r.Near < 0 || r.Near > MaxSlots:
		return &InvalidError{What: fmt.Sprintf("slot %d", r.Near), Rule: fmt.Sprintf("must be between 1 and %d", MaxSlots)}
	case r.Take < TakeAll || r.Take > MaxSlots:
		return &InvalidError{What: fmt.Sprintf("take %d", r.Take), Rule: fmt.Sprintf("must be between 1 and %d, or all", MaxSlots)}
	case pools && r.Force && r.Take != TakeAll:
		return &InvalidError{What: "a take-over by force", Rule: "does not know which slots: take all of them, or break one"}
	case r.Slots != 0 && r.Take > r.Slots:
		return &InvalidError{What: fmt.Sprintf("take %d", r.Take), Rule: "is more than " + slots(r.Slots)}
	case r.Slots != 0:
		return checkSlots(r.Slots)
	}
	return nil
}

// worker is who asks: the owner, without the name of this holder.
func (a *acquisition) worker() string {
	if a.user {
		return strings.TrimSuffix(a.req.Owner, "/"+a.req.Holder)
	}
	return a.req.Owner
}

// needKey names the records with which a grant of the key begins.
func needKey(key string) []string {
	if isPool(key) {
		return needPool(key)
	}
	return []string{recordOf(key), queueKind + key}
}

// pool is a pool in one run of an acquisition.
type pool struct {
	key  string
	rec  store.Entry[poolRecord]
	take int  // slots that the request must have in the end
	all  bool // nobody else may have one

	locks []store.Entry[lockRecord] // by the numbers of the slots
	state map[int]State             // of those that exist, once they were looked at
	held  []blocker                 // strangers who hold slots
	users []blocker                 // others who use slots that the owner may use
	info  PoolInfo

	mine  []int // slots that the owner may use
	limit int   // slots above this one stay empty
	free  []int // slots that it may take
}

// takeSlots adds slots of a pool to the grant, or notes what blocks them.
func (a *acquisition) takeSlots(tx *store.Tx, g *Grant, key string, repeated bool) error {
	p, err := a.pool(tx, key, repeated)
	if err != nil {
		return err
	}
	if !p.plenty(a) {
		if err := a.judgeSlots(tx, p); err != nil {
			return err
		}
	}
	mine, fresh := p.choose()
	if repeated && p.all && slices.Contains(mine, allSlots) {
		fresh = nil // the pool has grown since
	}
	slices.Sort(mine)
	slices.Sort(fresh)
	switch {
	case len(fresh) == 0 && p.enough():
		return a.useSlots(tx, g, p, mine)
	case repeated:
		return a.over(key, "not held any more")
	}
	a.wanted = append(a.wanted, key)
	b := blocker{held: HeldError{Info: Info{Key: key}, Asked: key}, guards: []driver.Guard{{Key: p.rec.Key, Rev: p.rec.Rev}}, ends: MaxTTL}
	t, err := a.ticketAhead(tx, key, &b.held)
	if err != nil {
		return err
	}
	if !a.req.Force && (t != nil || a.unseen) || !p.enough() {
		return a.blockedByPool(tx, p, b, t)
	}
	before := len(g.Keys)
	if err := a.useSlots(tx, g, p, mine); err != nil {
		return err
	}
	err = a.takeFresh(tx, g, p, fresh)
	slices.SortFunc(g.Keys[before:], func(a, b KeyGrant) int { return a.Slot - b.Slot })
	return err
}

// pool reads what a grant of slots begins with. It creates the pool if the request
// names a size and there is none. What was granted before fits, whatever the size is
// now.
func (a *acquisition) pool(tx *store.Tx, key string, repeated bool) (*pool, error) {
	rec, err := getPool(tx, key)
	if err != nil {
		return nil, err
	}
	if !rec.Exists() && a.req.Slots != 0 && !repeated && slices.Contains(a.asked, key) {
		if err := putPool(tx, key, poolRecord{}, poolRecord{Size: a.req.Slots, By: a.worker(), Reason: a.req.Reason}); err != nil {
			return nil, err
		}
		guard := rec.Rev
		if rec, err = getPool(tx, key); err != nil {
			return nil, err
		}
		rec.Rev = guard
	}
	p := &pool{key: key, rec: rec, take: a.takes(key), info: newPoolInfo(key, rec.Value)}
	if p.all = p.take == TakeAll; p.all {
		p.take = p.size()
	}
	if err := p.fits(a.req); err != nil && !repeated {
		return nil, err
	}
	if a.weight += p.take - 1; a.weight+len(a.keys) > MaxKeys && !repeated {
		return nil, &InvalidError{What: fmt.Sprintf("%d keys", a.weight+len(a.keys)), Rule: fmt.Sprintf("a lease has at most %d keys, and each slot is one", MaxKeys)}
	}
	return p, p.read(tx, store.Hint[lockRecord])
}

// read reads the locks on the slots. It guards those on which every grant depends:
// the key of all, and slots above the size, which may be held.
func (p *pool) read(tx *store.Tx, hint reading[lockRecord]) error {
	p.locks = make([]store.Entry[lockRecord], 0, 1+MaxSlots)
	for i, slot := range slotRecords(p.key) {
		lockOf := hint
		if i == allSlots || i > p.size() && i <= p.rec.Value.Most {
			lockOf = store.Get[lockRecord]
		}
		lk, err := lockOf(tx, slot)
		if err != nil {
			return err
		}
		p.locks = append(p.locks, lk)
	}
	return nil
}

func (p *pool) size() int { return p.rec.Value.Size }

// fits refuses a request that the size of the pool does not allow.
func (p *pool) fits(r AcquireRequest) error {
	e := &PoolSizeError{Pool: p.info.Pool, Size: p.size(), By: p.rec.Value.By, Since: p.rec.Value.Since, Take: p.take}
	switch {
	case p.size() == 0:
		return e
	case r.Slots != 0 && r.Slots != p.size() && slices.Contains(r.Keys, p.key):
		e.Slots = r.Slots
		return e
	case p.take > p.size():
		return e
	}
	return nil
}

// plenty finds enough slots that nobody holds, if the request need not know more:
// then no lease is read.
func (p *pool) plenty(a *acquisition) bool {
	for _, lk := range p.locks {
		if lk.Exists() && MayUse(a.req.Owner, lk.Value.Owner) {
			return false
		}
	}
	p.free = p.freeSlots(a.req.Near, a.first)
	return !p.all && !p.locks[allSlots].Exists() && len(p.free) >= p.take
}

// freeSlots are the slots that may be taken: those that nobody holds, from near or a
// random one on, then those whose leases are over. While slots above the size are
// held, as many below it stay empty. So no grant makes the used slots more than the
// size, even if it does not see other grants at the same time.
func (p *pool) freeSlots(near, random int) (free []int) {
	for p.limit = p.size(); !p.all && p.limit > 0 && p.limit+p.heldAbove(p.limit) > p.size(); {
		p.limit--
	}
	var over []int
	for slot := 1; slot <= p.limit; slot++ {
		switch {
		case !p.locks[slot].Exists():
			free = append(free, slot)
		case p.over(slot):
			over = append(over, slot)
		}
	}
	if first := slices.Index(free, near); len(free) > 0 {
		if first < 0 {
			first = random % len(free)
		}
		free = slices.Concat(free[first:], free[:first])
	}
	return append(free, over...)
}

// heldAbove counts the slots above one that are held.
func (p *pool) heldAbove(slot int) (n int) {
	for i := slot + 1; i < len(p.locks); i++ {
		if p.locks[i].Exists() && !p.over(i) {
			n++
		}
	}
	return n
}

// over reports that the lease of a slot is known to be over.
func (p *pool) over(slot int) bool { return p.state[slot] != "" && p.state[slot] != Held }

// judgeSlots looks at the leases of all slots. What it finds may be a refusal, so it
// is not content with hints.
func (a *acquisition) judgeSlots(tx *store.Tx, p *pool) error {
	if err := p.read(tx, store.Peek[lockRecord]); err != nil {
		return err
	}
	if err := wantHolders(tx, p.locks); err != nil {
		return err
	}
	p.state = map[int]State{}
	for i, lk := range p.locks {
		if !lk.Exists() {
			continue
		}
		ls, err := peekLease(tx, lk.Value.Lease)
		if err != nil {
			return err
		}
		if p.state[i], err = a.judgeSlot(tx, p, i, ls); err != nil {
			return err
		}
		if info := newInfo(lk, ls, queueRecord{}); info.InForce() {
			p.info.add(info)
		}
		a.near = append(a.near, ls.Key)
	}
	if p.free = nil; p.all || !p.locks[allSlots].Exists() || p.over(allSlots) {
		p.free = p.freeSlots(a.req.Near, a.first)
	}
	own := func(slot int) int {
		if p.locks[slot].Value.Lease == a.lease() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(p.mine, func(x, y int) int { return own(x) - own(y) }) // a repeated request gets what it had
	return nil
}

// judgeSlot says whether a slot that exists is held, and notes whether the owner
// may use it, or who is in its way.
func (a *acquisition) judgeSlot(tx *store.Tx, p *pool, slot int, ls store.Entry[leaseRecord]) (State, error) {
	lk, state := p.locks[slot], stateOf(ls)
	again, err := a.again(tx, lk, ls, state)
	switch {
	case err != nil:
		return "", err
	case again:
		others, _, err := a.besides(tx, lk.Value.Key, lk)
		if len(others) == 0 && slot != allSlots {
			p.mine = append(p.mine, slot)
		}
		p.users = append(p.users, others...)
		return Held, err
	case state != Held || a.forces(p, ls.Value):
		return endsFor(state), nil
	}
	p.held = append(p.held, *heldBy(lk.Value.Key, lk, ls))
	return Held, nil
}

// forces reports whether a take-over by force ends the holder of a slot: not one that
// holds nothing of what the request names.
func (a *acquisition) forces(p *pool, l leaseRecord) bool {
	return a.req.Force && (p.all || slices.ContainsFunc(l.all(), func(key string) bool {
		return key == slotKey(p.key, allSlots) || slices.Contains(a.asked, key)
	}))
}

// choose returns the slots that the request uses again, and those that it takes.
func (p *pool) choose() (mine, fresh []int) {
	if p.all {
		fresh = p.free
		if lk := p.locks[allSlots]; !lk.Exists() || p.over(allSlots) {
			fresh = append([]int{allSlots}, fresh...)
		} else {
			mine = []int{allSlots}
		}
		return append(mine, p.mine...), fresh
	}
	mine = p.mine[:min(len(p.mine), p.take)]
	return mine, p.free[:min(len(p.free), p.take-len(mine))]
}

// enough reports whether what [pool.choose] returns is what the request wants.
func (p *pool) enough() bool {
	if p.all {
		return len(p.held)+len(p.users) == 0
	}
	return len(p.mine)+len(p.free) >= p.take
}

// useSlots adds slots that the owner, or a parent, already holds.
func (a *acquisition) useSlots(tx *store.Tx, g *Grant, p *pool, slots []int) error {
	for _, slot := range slots {
		a.means(p, slot)
		if err := a.useAgain(tx, g, p.locks[slot]); err != nil {
			return err
		}
	}
	return nil
}

// takeFresh adds slots that nobody holds, and ends the leases that are over and
// still count: those of the slots, of all, and of slots that stay empty.
func (a *acquisition) takeFresh(tx *store.Tx, g *Grant, p *pool, slots []int) error {
	for i, lk := range p.locks {
		if p.over(i) && (i == allSlots || i > p.limit || slices.Contains(slots, i)) {
			a.victims = append(a.victims, victim{lease: lk.Value.Lease, key: lk.Value.Key, owner: lk.Value.Owner, why: p.state[i]})
		}
	}
	for _, slot := range slots {
		key := a.means(p, slot)
		if _, err := getLock(tx, key); err != nil {
			return err
		}
		a.taken = append(a.taken, key)
		g.Keys = append(g.Keys, KeyGrant{Key: key, Name: a.names[key], Slot: slot, Token: store.Pending, Lease: a.lease()})
	}
	return nil
}

// means notes that a requested pool means this slot, or that an outer key does.
func (a *acquisition) means(p *pool, slot int) (key string) {
	key = slotKey(p.key, slot)
	a.names[key] = cmp.Or(a.names[p.key], p.key)
	if slices.Contains(a.asked, p.key) {
		a.asked = append(a.asked, key)
	}
	for inner, outer := range a.outer {
		if outer == p.key {
			a.outer[inner] = key
		}
	}
	return key
}

// blockedByPool notes who is in the way: a ticket ahead, or whoever holds slots.
// The first in the queue waits on all of them, because each may be the one that
// ends next. Everybody waits on the size, and on those who use the owner's slots.
func (a *acquisition) blockedByPool(tx *store.Tx, p *pool, b blocker, t *store.Entry[leaseRecord]) error {
	if p.state == nil {
		if err := a.judgeSlots(tx, p); err != nil {
			return err
		}
	}
	inWay := append(p.held, p.users...)
	p.info.Waiters = b.held.Waiters
	if b.held.Pool = &p.info; len(inWay) > 0 {
		b.held.Info = inWay[0].held.Info
		b.held.Waiters = p.info.Waiters
	}
	if t != nil {
		size := b.guards
		b.waitOn(*t)
		b.guards, inWay = append(b.guards, size...), p.users
	}
	a.blockers = append(a.blockers, b)
	for _, h := range inWay {
		h.held.Asked = p.key
		a.blockers = append(a.blockers, h)
	}
	return nil
}

// passesTicket reports whether an owner need not wait behind a ticket for a pool:
// it has so many slots that the ticket can only be served after it.
func passesTicket(tx *store.Tx, owner, key string, take int) (bool, error) {
	rec, err := store.Peek[poolRecord](tx, poolRecordOf(key))
	if err != nil {
		return false, err
	}
	var mine []string
	for _, slot := range slotKeys(key) {
		lk, err := peekLock(tx, slot)
		if err != nil {
			return false, err
		}
		if lk.Exists() && MayUse(owner, lk.Value.Owner) {
			mine = append(mine, slot)
		}
	}
	if len(mine) == 0 || take != TakeAll && mine[0] != slotKey(key, allSlots) && len(mine)+take <= rec.Value.Size {
		return false, nil
	}
	for _, slot := range mine { // they must not be lost meanwhile
		if roomToDrop(tx) {
			if _, err := getLock(tx, slot); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// slotsOf returns the keys with those of pools replaced by the slots that fit. A
// pool of which no slot fits stays.
func slotsOf(tx *store.Tx, keys []string, fits func(store.Entry[lockRecord]) bool) (out []string, err error) {
	for _, key := range keys {
		if !isPool(key) {
			out = append(out, key)
			continue
		}
		if err := tx.Want(slotRecords(key)...); err != nil {
			return nil, err
		}
		found := len(out)
		for _, slot := range slotKeys(key) {
			lk, err := peekLock(tx, slot)
			if err != nil {
				return nil, err
			}
			if lk.Exists() && fits(lk) {
				out = append(out, slot)
			}
		}
		if len(out) == found {
			out = append(out, key)
		}
	}
	return out, nil
}
