package task

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// OuterKey names the section lock around a task's lock: whoever locks a task of
// an exclusive section locks the section too, or a slot of it. It is the OuterKey of every
// [AcquireRequest] that a user makes.
func OuterKey(tx *store.Tx, key string) (string, error) {
	if kind, _ := lease.KindOf(key); kind != lease.Task {
		return "", nil
	}
	t, err := getTask(tx, key)
	if err != nil {
		return "", err
	}
	return t.Value.outerKey(tx)
}

// NeedOuterKey names the records that [OuterKey] of these keys begins with: the Need
// of the request, so that it reads them with the locks.
func NeedOuterKey(keys []string) (need []string) {
	for _, k := range keys {
		key, err := lease.CheckKey(k)
		if kind, _ := lease.KindOf(key); err == nil && kind == lease.Task {
			need = append(need, taskKind+key)
		}
	}
	return need
}

func (t Task) outerKey(tx *store.Tx) (string, error) {
	if t.Section == "" {
		return "", nil
	}
	return outerKey(tx, t.Section)
}

// outerKey is the key around the tasks of a section.
func outerKey(tx *store.Tx, section string) (string, error) {
	s, err := getSection(tx, section)
	if err == nil && !s.Exists() {
		return sectionLock(section), nil
	}
	return s.Value.outerKey(), err
}

func sectionLock(section string) string { return lease.Section.Key(section) }

// ClaimRequest claims tasks for a worker: all of them or none.
type ClaimRequest struct {
	Tasks   []string       // ids, beginnings of ids, or titles
	Acquire AcquireRequest // owner, ttl, wait, …; its keys are set from Tasks
}

// ClaimResult is the grant with the tasks as claimed.
type ClaimResult struct {
	Tasks []Task `json:"tasks"`
	Grant Grant  `json:"grant"`
}

// ClaimTasks takes the locks and sets the status in one commit. The error is
// a *lock.HeldError if someone else works on one of them or in its section,
// and a [*StateError] if a task cannot be claimed now.
func ClaimTasks(ctx context.Context, st *store.Store, r ClaimRequest) (ClaimResult, error) {
	ids, err := resolve(ctx, st, r.Tasks)
	if err != nil {
		return ClaimResult{}, err
	}
	var out ClaimResult
	a := r.Acquire
	a.Keys, a.Exact = ids, true
	a.OuterKey, a.Then = claimHooks(ids, &out.Tasks, a.Owner, a.Worktree)
	out.Grant, err = lease.Acquire(ctx, st, a)
	if err != nil {
		return ClaimResult{}, err
	}
	return out, nil
}

// HoldTasks is ClaimTasks for a process that renews its claim itself.
func HoldTasks(ctx context.Context, st *store.Store, r ClaimRequest) ([]Task, *Lease, error) {
	ids, err := resolve(ctx, st, r.Tasks)
	if err != nil {
		return nil, nil, err
	}
	var claimed []Task
	a := r.Acquire
	a.Keys, a.Exact = ids, true
	a.OuterKey, a.Then = claimHooks(ids, &claimed, "", a.Worktree)
	lease, err := lease.Hold(ctx, st, a)
	return claimed, lease, err
}

// claimHooks turns an acquisition into a claim: before it waits it checks that the
// tasks can be claimed, and with the grant it writes the status.
func claimHooks(ids []string, claimed *[]Task, owner, worktree string) (
	outer func(*store.Tx, string) (string, error), then func(*store.Tx, *lease.Grant) error,
) {
	outer = func(tx *store.Tx, key string) (string, error) {
		t, err := mustTask(tx, key)
		if err != nil {
			return "", err
		}
		if err := claimable(tx, t); err != nil {
			return "", err
		}
		return t.outerKey(tx)
	}
	then = func(tx *store.Tx, g *lease.Grant) error {
		*claimed = nil
		for _, id := range ids {
			t, err := claimOne(tx, id, g.Owner, worktree)
			if err != nil {
				return err
			}
			*claimed = append(*claimed, t)
		}
		return withTexts(tx, pointersTo(*claimed)...)
	}
	return outer, then
}

// claimable refuses a task whose state or dependencies do not allow a claim.
func claimable(tx *store.Tx, t Task) error {
	if t.Status != InProgress { // else its lock decides
		if _, err := Claim.step(t.ID, t.Status); err != nil {
			return err
		}
	}
	if len(t.WaitsFor) > 0 {
		return &StateError{ID: t.ID, Status: t.Status, Why: "waits for " + list(t.WaitsFor), WaitsFor: t.WaitsFor}
	}
	return sectionOpen(tx, t)
}

// claimOne writes the claim of one task whose lock was granted in this transaction,
// or before to the same owner.
func claimOne(tx *store.Tx, id, owner, worktree string) (Task, error) {
	before, err := mustTask(tx, id)
	if err != nil {
		return Task{}, err
	}
	lk, err := lease.Look(tx, id)
	if err != nil {
		return Task{}, err
	}
	t := before.clone()
	if t.Status == InProgress && t.ClaimLease == lk.LeaseID {
		if !lease.MayUse(owner, t.ClaimedBy) && !lease.MayUse(t.ClaimedBy, owner) {
			return Task{}, siblings(t, lk) // both use the lock of their parent
		}
		return t, nil // claimed before: the same request again, or re-entrant
	}
	now := tx.Now().UTC().Truncate(time.Microsecond)
	t.Status, t.ClaimedBy, t.ClaimedAt, t.ClaimLease = InProgress, owner, &now, lk.LeaseID
	t.Attempts++
	t.Worktree = worktree
	t.LastVerb, t.LastToken, t.LastLease = "", 0, ""
	t.ClaimDue = claimedUntil(lk)
	if err := cmp.Or(save(tx, before, &t), lease.PutBack(tx, id, t.rankKey())); err != nil {
		return Task{}, err
	}
	return t, log(tx, Claim, id, owner, before.Status, InProgress, "")
}

// siblings refuses a task that another child of the lock's owner claimed.
func siblings(t Task, lk *lease.Info) error {
	held := &lease.HeldError{Info: *lk}
	held.Key, held.Owner, held.AcquiredAt, held.Worktree = t.ID, t.ClaimedBy, *t.ClaimedAt, t.Worktree
	return held
}

// resolve turns names of tasks into ids, once, before the claim: the claim itself
// decides on the records of those ids.
func resolve(ctx context.Context, st *store.Store, refs []string) (ids []string, err error) {
	err = st.View(ctx, query(needFind(refs)...), func(tx *store.Tx) error {
		found, err := findAll(tx, refs)
		ids = idsOf(found)
		return err
	})
	slices.Sort(ids)
	return ids, err
}

// effective is a task's status by its lock: a claim without its lock counts as
// pending.
func effective(t Task, lk *lease.Info) Status {
	if t.Status == InProgress && (lk == nil || lk.LeaseID != t.ClaimLease) {
		return Pending
	}
	return t.Status
}
