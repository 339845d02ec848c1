package task

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// StatusRequest changes the status of tasks, all of them or none.
type StatusRequest struct {
	Verb  Verb
	Tasks []string // ids, beginnings of ids, or titles
	Owner string
	Token int64  // of the claim, with one task; 0: the owner must hold it, or nobody
	Lease string // beside Token: the lease of the claim; empty: any

	// Slots are slots of pools that the owner took for the claim, and their tokens: they
	// are released in the same commit.
	Slots map[string]int64

	Uncounted bool // with unclaim: do not count the claim as an attempt

	Reason string  // why it is blocked, failed, skipped, …
	Result *Result // with complete, review and fail
	DryRun bool
}

// ChangeResult holds the tasks as they are now.
type ChangeResult struct {
	Tasks    []Task `json:"tasks"`
	Repeated bool   `json:"repeated,omitempty"` // it was done before, with the same token or request id
}

// ChangeStatus carries out any verb but claim and reset. A task that someone works on
// can be changed by its holder only: with an old token the error is
// lock.ErrLost, from someone else an [*OwnerError]. Repeating it with the
// same token succeeds again. The task's lock is free afterwards.
func ChangeStatus(ctx context.Context, st *store.Store, r StatusRequest) (out ChangeResult, err error) {
	if err := r.check(); err != nil {
		return ChangeResult{}, err
	}
	_, err = update(ctx, st, r.DryRun, query(r.need()...), func(tx *store.Tx) (err error) {
		out, err = r.all(tx)
		return err
	})
	return out, err
}

// need names the records that all begins with: the tasks, their locks and, if it is
// known, the lease.
func (r StatusRequest) need() []string {
	keys := needFind(r.Tasks)
	for _, ref := range r.Tasks {
		keys = append(keys, lease.NeedLook(exact(ref)...).Keys...)
	}
	if r.Lease != "" {
		keys = append(keys, lease.NeedLease(r.Lease))
	}
	return append(keys, lease.NeedLook(slices.Sorted(maps.Keys(r.Slots))...).Keys...)
}

func (r StatusRequest) check() error {
	if r.Verb == Claim || r.Verb == Reset || transitions[r.Verb].to == "" {
		return &lease.InvalidError{What: "verb " + strconv.Quote(string(r.Verb)), Rule: "is none of those that ChangeStatus knows"}
	}
	if r.Token != 0 && len(r.Tasks) != 1 {
		return &lease.InvalidError{What: "token", Rule: "goes with exactly one task"}
	}
	return checkReason(r.Reason, r.Result)
}

// all changes the tasks of the request.
func (r StatusRequest) all(tx *store.Tx) (out ChangeResult, err error) {
	found, err := findAll(tx, r.Tasks)
	if err != nil {
		return out, err
	}
	if err := wantChange(tx, found); err != nil {
		return out, err
	}
	for i, t := range found {
		if i > 0 { // as the one before left it
			if t, err = mustTask(tx, t.ID); err != nil {
				return out, err
			}
		}
		if out.Repeated = r.repeats(t); !out.Repeated {
			if t, err = r.one(tx, t); err != nil {
				return out, err
			}
		}
		out.Tasks = append(out.Tasks, t)
	}
	return out, withTexts(tx, pointersTo(out.Tasks)...)
}

// repeats reports whether the same verb of the same claim made the task what it is.
func (r StatusRequest) repeats(t Task) bool {
	return r.Token != 0 && t.LastToken == r.Token && t.LastVerb == r.Verb && (r.Lease == "" || t.LastLease == "" || t.LastLease == r.Lease)
}

func checkReason(reason string, r *Result) error {
	text := reason
	if r != nil {
		text += r.Summary + strings.Join(r.Commits, "") + strings.Join(r.Tests, "")
	}
	switch {
	case len(text) > lease.MaxText:
		return &lease.InvalidError{What: "reason or result", Rule: "is longer than 4096 bytes"}
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return &lease.InvalidError{What: "reason or result", Rule: "must be valid text"}
	}
	return nil
}

// wantChange reads at once what a change of the tasks needs: their locks and claims,
// and the tasks that they depend on or that depend on them.
func wantChange(tx *store.Tx, found []Task) error {
	var around []string
	for _, t := range found {
		around = append(around, taskKeys(slices.Concat(t.DependsOn, t.Dependents))...)
		if t.ClaimLease != "" {
			around = append(around, lease.NeedLease(t.ClaimLease))
		}
	}
	return cmp.Or(tx.Want(around...), lease.WantEnd(tx, idsOf(found)...))
}

func (r StatusRequest) one(tx *store.Tx, before Task) (t Task, err error) {
	lk, err := lease.Look(tx, before.ID)
	if err != nil {
		return t, err
	}
	token, err := r.may(tx, before, lk)
	if err != nil {
		return t, err
	}
	to, err := r.Verb.step(before.ID, effective(before, lk))
	if err != nil {
		return t, err
	}
	t = before.clone()
	t.Status, t.LastVerb, t.LastToken, t.LastLease = to, r.Verb, token, ""
	if lk != nil {
		t.LastLease = lk.LeaseID
	}
	t.release()
	if r.Uncounted && r.Verb == Unclaim {
		t.Attempts--
	}
	r.describe(tx, &t)
	if err := lease.ReleaseClaim(tx, t.ID, r.Owner, r.Reason); err != nil {
		return t, err
	}
	if err := r.releaseSlots(tx); err != nil {
		return t, err
	}
	if err := saveOver(tx, before, &t, before.traceUnder(lk)); err != nil {
		return t, err
	}
	return t, cmp.Or(spread(tx, before, t), log(tx, r.Verb, t.ID, r.Owner, before.Status, to, r.Reason))
}

// releaseSlots releases the slots that are still the caller's. Whoever works under one
// keeps it, and does not keep the task from its end.
func (r StatusRequest) releaseSlots(tx *store.Tx) error {
	slots := slices.Sorted(maps.Keys(r.Slots))
	if err := lease.WantEnd(tx, slots...); err != nil {
		return err
	}
	for _, slot := range slots {
		lk, err := lease.Look(tx, slot)
		if err == nil && lk != nil && lk.Token == r.Slots[slot] {
			err = lease.ReleaseKey(tx, slot, r.Owner, r.Reason)
		}
		if _, used := errors.AsType[*lease.InUseError](err); err != nil && !used {
			return err
		}
	}
	return nil
}

// may says whether the caller may change the task, and by which token.
func (r StatusRequest) may(tx *store.Tx, t Task, lk *lease.Info) (int64, error) {
	switch {
	case r.Token != 0:
		return r.Token, lease.FenceLease(tx, t.ID, r.Token, r.Lease)
	case lk == nil && t.Status == InProgress && t.ClaimedBy == r.Owner:
		return 0, &lease.LostError{Key: t.ID, Why: "the claim has ended"}
	case lk == nil, lk.State != lease.Held && !lease.Related(r.Owner, lk.Owner):
		return 0, nil
	case !lease.Related(r.Owner, lk.Owner):
		return 0, &lease.OwnerError{Key: t.ID, Owner: lk.Owner, Caller: r.Owner}
	}
	return lk.Token, nil
}

// describe writes what the verb leaves in the task.
func (r StatusRequest) describe(tx *store.Tx, t *Task) {
	t.BlockedReason = ""
	switch r.Verb {
	case Block:
		t.BlockedReason = r.Reason
	case Complete, Submit, Fail, Skip:
		if r.Result != nil {
			t.Result = r.Result
		} else if r.Reason != "" {
			t.Result = &Result{Summary: r.Reason}
		}
	}
	t.CompletedAt, t.CompletedBy = nil, ""
	if !t.Status.Open() {
		now := tx.Now().UTC()
		t.CompletedAt, t.CompletedBy = &now, r.Owner
	}
}

// release forgets the claim.
func (t *Task) release() {
	t.ClaimedBy, t.ClaimedAt, t.ClaimLease, t.ClaimDue, t.Progress = "", nil, "", nil, ""
}

// spread updates the tasks that depend on this one: whether it is done now.
func spread(tx *store.Tx, before, after Task) error {
	if before.Status.Done() == after.Status.Done() {
		return nil
	}
	if err := tx.Want(taskKeys(after.Dependents)...); err != nil {
		return err
	}
	var all []Task
	for _, id := range after.Dependents {
		e, err := getTask(tx, id)
		if err != nil {
			return err
		}
		if e.Exists() {
			all = append(all, e.Value)
		}
	}
	if err := notBulky(all); err != nil {
		return err
	}
	for _, before := range all {
		d := before.clone()
		waits := slices.Contains(d.WaitsFor, after.ID)
		switch {
		case after.Status.Done() && waits:
			d.WaitsFor = slices.DeleteFunc(d.WaitsFor, func(s string) bool { return s == after.ID })
		case !after.Status.Done() && !waits:
			d.WaitsFor = append(d.WaitsFor, after.ID)
		default:
			continue
		}
		if err := save(tx, before, &d); err != nil {
			return err
		}
	}
	return nil
}

// ProgressRequest notes the progress of the holder of a task. It counts as a
// heartbeat.
type ProgressRequest struct {
	Task  string
	Owner string
	Token int64
	Lease string // beside Token: the lease of the claim; empty: any
	Note  string

	DryRun bool
}

// Progress writes a note into a task; only its holder may.
func Progress(ctx context.Context, st *store.Store, r ProgressRequest) (Task, error) {
	if err := checkReason(r.Note, nil); err != nil {
		return Task{}, err
	}
	return r.change(ctx, st, func(t *Task) { t.Progress = r.Note }, nil)
}

// SetWorktree notes the worktree of a task, in the task and in its lease; only its
// holder may.
func SetWorktree(ctx context.Context, st *store.Store, id, owner, path string) (Task, error) {
	r := ProgressRequest{Task: id, Owner: owner}
	return r.change(ctx, st, func(t *Task) { t.Worktree = path }, &path)
}

// change writes the holder's changes into a task.
func (r ProgressRequest) change(ctx context.Context, st *store.Store, set func(*Task), worktree *string) (Task, error) {
	return changeTask(ctx, st, r.DryRun, []string{r.Task}, func(tx *store.Tx, t *Task) error {
		lk, err := lease.Look(tx, t.ID)
		if err != nil {
			return err
		}
		if r.Token != 0 {
			err = lease.FenceLease(tx, t.ID, r.Token, r.Lease)
		} else if lk == nil || !lease.Related(r.Owner, lk.Owner) {
			err = lease.NotHeld(tx, t.ID, r.Owner)
		}
		if err != nil {
			return err
		}
		set(t)
		return lease.RenewKey(tx, t.ID, lk.Owner, worktree)
	})
}

func taskKeys(ids []string) []string { return lease.Prefixed(taskKind, ids) }

func query(keys ...string) driver.Query { return driver.Query{Keys: keys} }

// list names a few of many.
func list(ids []string) string {
	const most = 5
	if len(ids) > most {
		return strings.Join(ids[:most], ", ") + ", …"
	}
	return strings.Join(ids, ", ")
}
