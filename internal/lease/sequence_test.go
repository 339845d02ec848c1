package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

const (
	seqSteps = 200
	seqSeeds = 100
	seqLong  = 6 * time.Minute
	seqRerun = 10 // one sequence in so many runs each transaction twice
)

// seqCaught are seeds that have shown a fault: a lease that outlived what it
// uses, users ended with a stranger's key, a key kept for users that were gone.
var seqCaught = []uint64{719, 727, 1003, 1872, 3686, 5331}

// TestSequences does random things one after another, with locks, attached
// holders, holders within those, sections, keepers and waiters, and after each
// looks at what must hold between the records, and at whether somebody lost
// what nobody took. TASKLOCK_SEEDS=n runs n sequences, from TASKLOCK_SEED on;
// the long form as many as fit into its time.
func TestSequences(t *testing.T) { runSequences(t, false) }

// TestSequencesOfPools is TestSequences with slots of pools among the keys.
func TestSequencesOfPools(t *testing.T) { runSequences(t, true) }

func runSequences(t *testing.T, pools bool) {
	first, count := long.Seeds(t)
	inTime := count == 0 && long.Asked()
	switch {
	case count != 0:
	case testing.Short(): // under the race detector; it has one goroutine, so nothing to race with
		count = seqSeeds / 20
	default:
		count = seqSeeds
	}
	done, ran, started := map[string]int{}, 0, time.Now()
	for told := started; ; ran++ {
		if time.Since(told) > time.Minute {
			told = time.Now()
			t.Logf("%d seeds in %v", ran, told.Sub(started).Round(time.Second))
		}
		seed := first + uint64(ran-len(seqCaught))
		if ran < len(seqCaught) {
			seed = seqCaught[ran]
		}
		if enough := ran >= len(seqCaught)+int(count); enough && (!inTime || time.Since(started) > long.Time(seqLong)) {
			break
		}
		s := newSequence(t, seed, pools)
		for i := 0; i < seqSteps && len(s.faults) == 0; i++ {
			s.step()
		}
		for what, n := range s.done {
			done[what] += n
		}
		if len(s.faults) > 0 {
			t.Fatalf("seed %d (TASKLOCK_SEED=%d TASKLOCK_SEEDS=1):\n%s\nlast steps:\n%s\nrecords:\n%s", seed, seed,
				strings.Join(s.faults, "\n"), strings.Join(s.trace[max(0, len(s.trace)-40):], "\n"), strings.Join(s.dump(), "\n"))
		}
	}
	for _, op := range seqOps {
		if done[op.name] == 0 && count >= seqSeeds {
			t.Errorf("%s never succeeded", op.name)
		}
	}
	t.Logf("%d seeds: %v", ran, done)
}

// A sequence is one world, in which nothing happens at the same time.
type sequence struct {
	ctx  context.Context
	rand *rand.Rand
	now  time.Time
	mem  *memstore.Store
	st   *store.Store
	keys []string

	workers []*seqWorker
	waiters []*acquisition
	tied    map[string]host.Process // lease → the process that it ends with
	keepers []seqKeeper

	done   map[string]int
	trace  []string
	faults []string

	ended mayEnd // by the last operation
}

// seqWorker is somebody who believes to hold keys.
type seqWorker struct {
	name   string
	owner  string
	renew  renewal // of an attached holder
	tokens map[string]int64
	plain  bool
}

type seqKeeper struct {
	lease string
	p     host.Process
}

func newSequence(t *testing.T, seed uint64, pools bool) *sequence {
	cryptotest.SetGlobalRandom(t, seed)
	s := &sequence{
		ctx: t.Context(), rand: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		tied: map[string]host.Process{}, done: map[string]int{},
	}
	s.mem = memstore.NewWithClock(func() time.Time { return s.now })
	far := drivertest.NewRerun(t, s.mem, func() { s.now = s.now.Add(time.Microsecond) }) // all of it is less than what any ttl is apart from another
	s.st = store.New(far)
	if seed%seqRerun != 0 { // a commit that is refused takes a pause
		s.st = store.New(far.Far)
	}
	if s.keys = seqKeys; pools {
		s.keys = slices.Concat(seqKeys[:4], []string{"pool:p", "pool:p", "pool:p", "pool:q"})
		for key, size := range seqPools {
			if _, err := SetPool(s.ctx, s.st, SetPoolRequest{Name: key, Slots: size, By: "boss"}); err != nil {
				s.fault("%v", err)
			}
		}
	}
	return s
}

// seqPools are the sizes of the pools. A key lies within one of them.
var seqPools = map[string]int{"pool:p": 3, "pool:q": 2}

var seqOps = []struct {
	name   string
	weight int
	do     func(*sequence) error
}{
	{"acquire", 10, (*sequence).acquire},
	{"hold", 14, (*sequence).hold},
	{"heartbeat", 8, (*sequence).heartbeat},
	{"let go", 8, (*sequence).letGo},
	{"release", 8, (*sequence).release},
	{"renew", 3, (*sequence).renewKeys},
	{"break", 2, (*sequence).breakKey},
	{"end session", 1, (*sequence).endSession},
	{"cleanup", 2, (*sequence).cleanup},
	{"wait", 4, (*sequence).wait},
	{"look again", 4, (*sequence).lookAgain},
	{"give up", 4, (*sequence).giveUp},
	{"process ends", 3, (*sequence).processEnds},
	{"time", 6, (*sequence).time},
}

// mayEnd says whom the last operation may have taken something from.
type mayEnd func(*seqWorker) bool

func nobody(*seqWorker) bool { return false }

func (s *sequence) step() {
	total := 0
	for _, op := range seqOps {
		total += op.weight
	}
	n := s.rand.IntN(total)
	for _, op := range seqOps {
		if n -= op.weight; n >= 0 {
			continue
		}
		before := s.valid()
		s.say("%s", op.name)
		s.ended = nobody
		err := op.do(s)
		var (
			held  *HeldError
			owner *OwnerError
			inUse *InUseError
			size  *PoolSizeError
		)
		switch {
		case err == nil:
			s.done[op.name]++
		case errors.Is(err, ErrLost), errors.As(err, &held), errors.As(err, &owner), errors.As(err, &inUse), errors.As(err, &size):
			s.say("  %v", err)
		default:
			s.fault("%s: unexpected %v", op.name, err)
		}
		if op.name != "time" {
			s.survive(before)
		}
		s.judge()
		return
	}
}

func (s *sequence) say(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

func (s *sequence) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func pickOf[T any](s *sequence, from []T) T { return from[s.rand.IntN(len(from))] }

var (
	seqOwners = []string{"A", "A", "B", "A/x", "B/y"}
	seqKeys   = []string{"a", "b", "c", "section:S", "path:src", "path:src/x", "path:src/*", "path:doc"}
	seqTTLs   = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute}
)

func seqWithin(_ *store.Tx, key string) (string, error) {
	if key == "a" || key == "b" {
		return "section:S", nil
	}
	return "", nil
}

// within is the section of a key, or its pool.
func (s *sequence) within(tx *store.Tx, key string) (string, error) {
	if key == "c" && slices.Contains(s.keys, "pool:q") {
		return "pool:q", nil
	}
	return seqWithin(tx, key)
}

func (s *sequence) request(owner string) AcquireRequest {
	r := AcquireRequest{Owner: owner, Keys: []string{pickOf(s, s.keys)}, OuterKey: s.within}
	if s.rand.IntN(3) == 0 {
		r.Keys = append(r.Keys, pickOf(s, s.keys))
	}
	if slices.ContainsFunc(r.Keys, isPool) {
		r.Take = pickOf(s, []int{0, 0, 1, 2, TakeAll})
	}
	if s.rand.IntN(2) == 0 {
		r.TTL = pickOf(s, seqTTLs)
	}
	if s.rand.IntN(8) == 0 {
		r.MaxHold = 3 * time.Minute
	}
	return r
}

// owner is one of the fixed ones, or an attached holder for its own children.
func (s *sequence) owner() string {
	if len(s.workers) > 0 && s.rand.IntN(3) == 0 {
		return pickOf(s, s.workers).owner
	}
	return pickOf(s, seqOwners)
}

func (s *sequence) granted(a *acquisition, g *Grant) {
	owner := a.req.Owner
	w := &seqWorker{name: fmt.Sprintf("%s#%d", owner, len(s.trace)), owner: owner, plain: !a.user, tokens: map[string]int64{}}
	for _, k := range g.Keys {
		w.tokens[k.Key] = k.Token
	}
	w.renew = renewal{RenewRequest: RenewRequest{Owner: owner}, held: &holding{names: g.leases, tokens: w.tokens}}
	if a.written.holds() {
		w.renew.held.own, w.renew.held.record = a.lease(), a.written
	}
	if under := func(lease string) bool { return leaseOwner(lease) != owner }; !w.plain || !slices.ContainsFunc(g.leases, under) {
		s.workers = append(s.workers, w) // a plain call that a parent's lock was good enough for holds nothing
	}
	s.say("  %s has %v with lease %s, uses %v", w.name, w.tokens, a.lease(), a.written.Uses)
}

func (s *sequence) acquire() error {
	r := s.request(s.owner())
	if s.rand.IntN(3) == 0 {
		r.Process = host.Process{PID: 1 << 30, Start: strconv.Itoa(len(s.trace)), Boot: "another"}
	}
	s.say("  %s: %v, ttl %s, max hold %s, process %s", r.Owner, r.Keys, r.TTL, r.MaxHold, r.Process.Start)
	a, err := newAcquisition(s.st, r, false)
	if err != nil {
		return err
	}
	g, err := a.try(s.ctx, s.st, r.Process)
	if err != nil || g == nil {
		return cmpHeld(err, a.blockers)
	}
	s.granted(a, g)
	s.tie(a, g)
	return nil
}

// tie notes with which process the leases end that the request took or has.
func (s *sequence) tie(a *acquisition, g *Grant) {
	if a.req.Process.PID == 0 {
		return
	}
	for _, name := range g.leases {
		around := len(Without(a.asked, s.lease(name).Keys)) == len(a.asked)
		if leaseOwner(name) == a.req.Owner && !around && !s.lease(name).Attached {
			s.tied[name] = a.req.Process
		}
		s.keepers = append(s.keepers, seqKeeper{name, a.req.Process})
	}
}

func cmpHeld(err error, blocked []blocker) error {
	if err == nil {
		return &blocked[0].held
	}
	return err
}

func (s *sequence) hold() error {
	r := s.request(s.owner())
	r.Owner += "/" + NewID()
	if len(r.Owner) > 200 { // deep enough
		return nil
	}
	if r.TTL == 0 {
		r.TTL = time.Minute
	}
	a, err := newAcquisition(s.st, r, true)
	if err != nil {
		return err
	}
	a.attached = true
	s.say("  %s: %v, ttl %s, max hold %s", r.Owner, r.Keys, r.TTL, r.MaxHold)
	g, err := a.try(s.ctx, s.st, r.Process)
	if err != nil || g == nil {
		return cmpHeld(err, a.blockers)
	}
	s.granted(a, g)
	return nil
}

func (s *sequence) heartbeat() error {
	if len(s.workers) == 0 {
		return nil
	}
	w := pickOf(s, s.workers)
	s.say("  %s", w.name)
	if w.plain {
		_, err := Renew(s.ctx, s.st, RenewRequest{Owner: w.owner, All: true})
		return err
	}
	_, err := w.renew.run(s.ctx, s.st)
	return err
}

// letGo ends an attached holder.
func (s *sequence) letGo() error {
	attached := slices.DeleteFunc(slices.Clone(s.workers), func(w *seqWorker) bool { return w.plain })
	if len(attached) == 0 {
		return nil
	}
	w := pickOf(s, attached)
	s.say("  %s", w.name)
	s.workers = slices.DeleteFunc(s.workers, func(o *seqWorker) bool { return o == w })
	if w.renew.held.own == "" {
		return nil
	}
	s.ended = func(o *seqWorker) bool { return o.plain && slices.Contains(o.renew.held.names, w.renew.held.own) }
	_, err := (&release{ReleaseRequest: ReleaseRequest{Owner: w.owner, Lease: w.renew.held.own}, leave: true}).run(s.ctx, s.st)
	s.forget(s.ended)
	return err
}

// release is what the owner of a plain lock does; a parent may do it to a child
// who took the lock itself.
func (s *sequence) release() error {
	owner, key := s.owner(), s.slot()
	keys := []string{key}
	if s.rand.IntN(3) == 0 {
		keys = append(keys, s.slot())
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	s.say("  %s: %v", owner, keys)
	s.ended = func(w *seqWorker) bool {
		for k := range w.tokens {
			if named := slices.Contains(keys, k) || slices.Contains(keys, queueOf(k)); named && (w.plain || slices.Contains(w.renew.held.record.Keys, k) && descends(w.owner, owner)) {
				return true
			}
		}
		return w.plain && len(w.tokens) > 1 // a section may leave with its last task
	}
	_, err := Release(s.ctx, s.st, ReleaseRequest{Owner: owner, Keys: keys})
	return err
}

func (s *sequence) renewKeys() error {
	owner, key := s.owner(), s.slot()
	s.say("  %s: %s", owner, key)
	_, err := Renew(s.ctx, s.st, RenewRequest{Owner: owner, Keys: []string{key}})
	return err
}

// slot is a key, perhaps that of a slot.
func (s *sequence) slot() string {
	key := pickOf(s, s.keys)
	if isPool(key) && s.rand.IntN(2) == 0 {
		return slotKey(key, s.rand.IntN(1+seqPools[key]))
	}
	return key
}

func anybody(*seqWorker) bool { return true }

func (s *sequence) breakKey() error {
	key := s.slot()
	if isPool(key) {
		key = slotKey(key, 1)
	}
	s.say("  %s", key)
	s.ended = anybody
	_, err := Break(s.ctx, s.st, BreakRequest{By: "root", Keys: []string{key}})
	if _, out := s.at(key); err == nil && out {
		s.fault("%s is locked after it was broken", key)
	}
	return err
}

func (s *sequence) endSession() error {
	owner := pickOf(s, seqOwners)
	s.say("  %s", owner)
	s.ended = func(w *seqWorker) bool { return w.plain || descends(w.owner, owner) }
	_, err := Release(s.ctx, s.st, ReleaseRequest{Owner: owner, All: true})
	s.forget(s.ended)
	return err
}

func (s *sequence) cleanup() error {
	_, err := Cleanup(s.ctx, s.st, CleanupRequest{By: "root"})
	return err
}

// wait puts a plain owner into the queue, as a call that may be stopped.
func (s *sequence) wait() error {
	if len(s.waiters) > 4 {
		return s.giveUp()
	}
	r := s.request(pickOf(s, seqOwners))
	r.Wait = time.Hour
	s.say("  %s: %v", r.Owner, r.Keys)
	a, err := newAcquisition(s.st, r, false)
	if err != nil {
		return err
	}
	return s.look(a)
}

func (s *sequence) look(a *acquisition) error {
	g, err := a.try(s.ctx, s.st, host.Process{PID: 1 << 30, Start: "waits", Boot: "another"})
	if err != nil {
		s.say("  %v", err)
		a.abandon(s.st)
		return nil
	}
	if g == nil {
		s.say("  %s waits with lease %s", a.req.Owner, a.lease())
		s.waiters = append(s.waiters, a)
		return nil
	}
	s.granted(a, g)
	return nil
}

func (s *sequence) takeWaiter() *acquisition {
	i := s.rand.IntN(len(s.waiters))
	a := s.waiters[i]
	s.waiters = slices.Delete(s.waiters, i, i+1)
	s.say("  %s for %v with lease %s", a.req.Owner, a.asked, a.lease())
	return a
}

func (s *sequence) lookAgain() error {
	if len(s.waiters) == 0 {
		return nil
	}
	return s.look(s.takeWaiter())
}

func (s *sequence) giveUp() error {
	if len(s.waiters) > 0 {
		s.takeWaiter().abandon(s.st)
	}
	return nil
}

// processEnds is what the keeper of a lease does when its process has ended.
func (s *sequence) processEnds() error {
	if len(s.keepers) == 0 {
		return nil
	}
	k := pickOf(s, s.keepers)
	s.say("  process %s of lease %s", k.p.Start, k.lease)
	if s.tied[k.lease] == k.p {
		s.ended = func(w *seqWorker) bool {
			return w.plain && (slices.Contains(w.renew.held.names, k.lease) || len(w.tokens) > 1)
		}
	}
	_, err := (&release{ReleaseRequest: ReleaseRequest{Owner: leaseOwner(k.lease), Lease: k.lease}, process: &k.p, leave: true}).run(s.ctx, s.st)
	s.forget(s.ended)
	return err
}

// forget is for workers that have released: what they held may stay for others.
func (s *sequence) forget(who mayEnd) { s.workers = slices.DeleteFunc(s.workers, who) }

func (s *sequence) time() error {
	d := pickOf(s, []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, time.Minute, 4 * time.Minute})
	s.say("  %s", d)
	s.now = s.now.Add(d)
	return nil
}
