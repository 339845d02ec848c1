package task

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// NextRequest asks for the task to work on next.
type NextRequest struct {
	Section string        // only from this section
	Label   string        // only with this label
	Claim   bool          // claim it
	Pool    string        // with Claim: take a slot of the pool with this key together with it
	Wait    time.Duration // how long to wait for a ready task

	WithSection bool // with HoldNext: acquire an exclusive section together with the task

	Acquire AcquireRequest // owner, ttl, … of the claim; with an id, repeating it gives the same task

	Waiting func() // if set, called when the wait begins
}

// NextResult is the task, and with Claim the grant.
type NextResult struct {
	Task  Task   `json:"task"`
	Grant *Grant `json:"grant,omitempty"`
}

// A look reads this many entries of the index: candidates at their rank, of which it
// looks closely at a quarter, and claims that are the next to expire. It reads more
// only if none of these can be taken.
const (
	candidates = 32
	claims     = 4
)

// Next picks by section order, priority and age among the tasks that are ready and
// that nobody holds. With Claim, it passes a candidate that another worker claimed
// first.
//
// If there is none the error is a [*NothingReadyError].
func Next(ctx context.Context, st *store.Store, r NextRequest) (NextResult, error) {
	return (&selection{NextRequest: r}).next(ctx, st)
}

// selection is the run of a [NextRequest].
type selection struct {
	NextRequest
	first *first       // see ChangeAndNext
	hold  bool         // see HoldNext
	lease *lease.Lease // what HoldNext took

	pages                   // how much one look reads
	close bool              // look at tasks and locks, not only at the index: see glance
	raced bool              // another worker was faster
	open  map[string]bool   // exclusive sections that the last look found free
	outer map[string]string // section → the key around its tasks
	taken map[string]bool   // keys that others hold, have just acquired, or wait for
	holds []driver.Guard    // of those that others hold
	wrong []entry           // entries of the index that are to be moved: see tidy
}

// pages is how many entries of each part of the index one look reads.
type pages struct{ ranked, claimed int }

func (r *selection) next(ctx context.Context, st *store.Store) (NextResult, error) {
	if r.Section != "" {
		var err error
		if r.Section, err = checkSection(r.Section); err != nil {
			return NextResult{}, err
		}
	}
	if r.Claim && r.Acquire.ID != "" {
		if out, err := r.again(ctx, st); out != nil || err != nil {
			return value(out), err
		}
	}
	start, tell := time.Now(), r.Waiting
	r.taken, r.pages = map[string]bool{}, pages{candidates, claims}
	for {
		found, none, more, err := r.look(ctx, st)
		if err != nil {
			return NextResult{}, err
		}
		out, err := r.pickOne(ctx, st, found)
		if out != nil || err != nil {
			r.tidy(ctx, st, out)
			return value(out), err
		}
		if len(found) > 0 { // all were taken meanwhile: there may be others
			continue
		}
		if more != r.pages {
			r.pages = more
			continue
		}
		left := r.Wait - time.Since(start)
		if left <= 0 {
			return NextResult{}, none
		}
		if tell != nil {
			tell()
			tell = nil
		}
		if err := none.Wait(ctx, st, left); err != nil {
			return NextResult{}, err
		}
		clear(r.taken)
		r.pages, r.holds, r.wrong, r.close, r.raced = pages{candidates, claims}, nil, nil, false, false
	}
}

// pickOne picks the first candidate that is still free. Once another worker was
// faster, it tries those of equal rank in any order: otherwise workers that race would
// meet again at each of the next.
func (r *selection) pickOne(ctx context.Context, st *store.Store, found []candidate) (*NextResult, error) {
	for i, c := range found {
		if r.raced {
			spreadOut(found[i:])
			c = found[i]
		}
		if outer := r.outer[c.Section]; outer != "" && r.taken[outer] {
			continue
		}
		out, err := r.pick(ctx, st, c)
		if out != nil || err != nil || r.close && c.entry != "" {
			return out, err
		}
	}
	return nil, nil
}

// spreadOut shuffles the first candidates, as far as they have equal rank.
func spreadOut(rest []candidate) {
	n := 0
	for n < len(rest) && rest[n].Section == rest[0].Section && rest[n].Priority == rest[0].Priority {
		n++
	}
	rand.Shuffle(n, func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
}

func value(out *NextResult) NextResult {
	if out == nil {
		return NextResult{}
	}
	return *out
}

// again returns the result of the same request before.
func (r *selection) again(ctx context.Context, st *store.Store) (*NextResult, error) {
	keys, err := lease.Granted(ctx, st, r.Acquire.Owner, r.Acquire.ID)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	for _, key := range keys {
		if kind, _ := lease.KindOf(key); kind == lease.Task {
			r.first = nil // it is in the commit that granted this
			return r.claim(ctx, st, candidate{Task: Task{ID: key}})
		}
	}
	return nil, nil
}

// pick claims a candidate. It returns nothing if that is not possible now.
func (r *selection) pick(ctx context.Context, st *store.Store, t candidate) (*NextResult, error) {
	switch {
	case !r.Claim:
		return &NextResult{Task: t.Task}, nil
	case r.hold && r.open[t.Section] && !r.WithSection:
		return nil, &SectionError{Section: t.Section, Key: r.outer[t.Section]}
	}
	out, err := r.claim(ctx, st, t)
	if r.first.refused() {
		return nil, err
	}
	var held *lease.HeldError
	if errors.As(err, &held) && r.Pool != "" && held.Asked == r.Pool { // no other task can start either
		return nil, err
	}
	var state *StateError
	var used *lease.ReusedError
	refused := errors.As(err, &state) || errors.Is(err, driver.ErrTooLarge) || errors.Is(err, lease.ErrNotFound)
	switch {
	case errors.Is(err, errRaced):
		r.raced, r.taken[t.ID] = true, true
	case t.entry != "" && (refused || errors.As(err, &held)):
		r.close = true // the index alone does not say why
	case errors.As(err, &held):
		r.raced = true
		taken := cmp.Or(held.Asked, held.Key)
		if r.taken[taken] = true; taken != r.outer[t.Section] { // it may be held under another name
			r.taken[t.ID] = true
		}
	case refused:
		r.raced, r.taken[t.ID] = true, true
	case errors.As(err, &used): // the same request was faster
		return r.again(ctx, st)
	default:
		return out, err
	}
	return nil, nil
}

func (r *selection) claim(ctx context.Context, st *store.Store, t candidate) (*NextResult, error) {
	a := r.Acquire
	a.Wait, a.Exact = 0, true
	a.Keys, a.Need = []string{t.ID}, []string{taskKind + t.ID}
	if t.Section != "" {
		a.Need = append(a.Need, sectionKind+t.Section)
	}
	if outer := r.outer[t.Section]; outer != "" {
		a.Need = append(a.Need, lease.NeedLook(outer).Keys...)
	}
	var claimed []Task
	a.OuterKey, a.Then = claimHooks(a.Keys, &claimed, a.Owner, a.Worktree)
	if t.entry != "" {
		a.OuterKey, a.Need = t.asListed(a.OuterKey), append(a.Need, t.entry)
	}
	if r.Pool != "" {
		a.Keys, a.OuterKey = []string{t.ID, r.Pool}, except(r.Pool, a.OuterKey)
	}
	if r.first != nil {
		a.First, a.Need = r.first.do, append(a.Need, r.first.need()...)
	}
	g, err := r.acquire(ctx, st, a)
	if err != nil {
		return nil, err
	}
	return &NextResult{Task: claimed[0], Grant: &g}, nil
}

// except is an OuterKey for a key besides the tasks, which has no outer key.
func except(other string, of func(*store.Tx, string) (string, error)) func(*store.Tx, string) (string, error) {
	return func(tx *store.Tx, key string) (string, error) {
		if key == other {
			return "", nil
		}
		return of(tx, key)
	}
}

// look returns the tasks that may be claimed now, in order, and what blocks the
// rest; more is how much the next look has to read if there may be others.
func (r *selection) look(ctx context.Context, st *store.Store) (found []candidate, none *NothingReadyError, more pages, err error) {
	need := driver.Query{Ranges: append(r.ranges(r.Section), driver.Range{Prefix: sectionKind})}
	if r.first != nil {
		need.Keys = r.first.need()
	}
	taken, holds, wrong := r.taken, r.holds, r.wrong
	err = st.View(ctx, need, func(tx *store.Tx) error {
		found, more = nil, r.pages
		r.taken, r.holds, r.wrong, r.open = maps.Clone(taken), slices.Clip(holds), slices.Clip(wrong), map[string]bool{}
		r.outer = map[string]string{}
		if err := r.first.do(tx); err != nil {
			return err
		}
		none = &NothingReadyError{guards: []driver.Guard{{Key: readyKind, Rev: tx.Rev()}, {Key: sectionKind, Rev: tx.Rev()}}}
		order, err := r.order(tx)
		if err != nil {
			return err
		}
		var closed []closedSection
		var missing error // of some sections together, so that many cost few reads
		for looked := 0; len(order) > 0 && len(found) == 0 && (missing == nil || looked < 2*candidates); order = order[1:] {
			s := order[0]
			by, err := r.sectionHolder(tx, s)
			if by != nil {
				none.guards = append(none.guards, by.guards...)
				closed = append(closed, by.closedSection)
			}
			if by != nil || err != nil || s.outerKey() != "" && r.taken[s.outerKey()] {
				missing = cmp.Or(missing, err)
				continue
			}
			page, err := r.read(tx, s.Name)
			looked += len(page.ranked) + len(page.claimed)
			free, further, missed := r.listed(tx, s.Name, page)
			if missing = cmp.Or(missing, err, missed); missing != nil {
				continue
			}
			if found, more = free, further; more != r.pages {
				break // its other tasks come before those of the sections after it
			}
		}
		if len(found) > 0 && !r.Claim {
			missing = cmp.Or(missing, withTexts(tx, &found[0].Task))
		}
		none.guards = append(none.guards, r.holds...)
		if len(found) == 0 && missing == nil {
			none.Closed, missing = r.openings(tx, closed)
		}
		return missing
	})
	return found, none, more, err
}

// order returns the sections to look at: open ones, by priority, with the tasks
// without a section among the medium ones.
func (r *selection) order(tx *store.Tx) ([]Section, error) {
	all, err := sections(tx)
	if err != nil {
		return nil, err
	}
	all = append([]Section{{Priority: Medium}}, all...)
	var out []Section
	var locks []string
	var missing error
	for _, s := range all {
		if s.closed() || r.Section != "" && s.Name != r.Section {
			continue
		}
		waits, err := s.waits(tx)
		if missing = cmp.Or(missing, err); len(waits) == 0 {
			out = append(out, s)
		}
		r.outer[s.Name] = s.outerKey()
		switch {
		case s.Shared || s.Name == "":
		case s.Workers > 0:
			missing = cmp.Or(missing, tx.Want(lease.NeedSection(s.Name)...))
		default:
			locks = append(locks, sectionLock(s.Name))
		}
	}
	if missing = cmp.Or(missing, lease.WantLook(tx, locks...)); missing != nil {
		return nil, missing
	}
	if r.Section != "" && len(out) == 0 && !slices.ContainsFunc(all, func(s Section) bool { return s.Name == r.Section }) {
		return nil, &NotFoundError{What: "section", Ref: r.Section}
	}
	slices.SortStableFunc(out, func(a, b Section) int { return a.Priority - b.Priority })
	return out, nil
}

// holders are those who keep the caller out of a section.
type holders struct {
	closedSection
	guards []driver.Guard // of their locks
}

// sectionHolder returns who keeps the caller out of a section, or nil.
func (r *selection) sectionHolder(tx *store.Tx, s Section) (*holders, error) {
	switch {
	case s.Name == "" || s.Shared:
		return nil, nil
	case s.Workers > 0:
		return r.poolHolders(tx, s)
	}
	lk, err := lease.Look(tx, sectionLock(s.Name))
	if err != nil {
		return nil, err
	}
	switch {
	case lk == nil || lk.State != lease.Held:
		r.open[s.Name] = true
	case !lease.MayUse(r.Acquire.Owner, lk.Owner):
		return &holders{closedSection{name: s.Name, by: *lk}, []driver.Guard{lk.Guard()}}, nil
	}
	return nil, nil
}

// poolHolders is sectionHolder for a section in which several may work.
func (r *selection) poolHolders(tx *store.Tx, s Section) (*holders, error) {
	pool, err := lease.PeekSection(tx, s.Name)
	if err != nil {
		return nil, err
	}
	if all := pool.AllOf(); all != nil && !lease.MayUse(r.Acquire.Owner, all.Owner) {
		return &holders{closedSection{name: s.Name, by: *all}, []driver.Guard{all.Guard()}}, nil
	}
	var guards []driver.Guard
	for _, h := range pool.Holders {
		if lease.MayUse(r.Acquire.Owner, h.Owner) {
			return nil, nil
		}
		guards = append(guards, h.Guard())
	}
	if !pool.Full() || len(guards) == 0 {
		r.open[s.Name] = true
		return nil, nil
	}
	return &holders{closedSection{s.Name, pool.Holders[0], len(guards)}, guards}, nil
}
