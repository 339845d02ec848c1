package legacy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func (a *adoption) holders() (list []lease.Info) {
	for _, l := range a.r.Source.Locks {
		list = append(list, lease.Info{
			Key: l.Key, Owner: l.Owner, AcquiredAt: l.Since, HeartbeatAt: l.Since, ExpiresAt: lease.Expiry{Time: l.Until},
			State: lease.Held, Host: l.Host, PID: l.PID, Worktree: l.Worktree,
		})
	}
	return list
}

// ttl is how long the lock has left.
func (l Lock) ttl(now time.Time) time.Duration {
	if l.Until.IsZero() {
		return lease.Endless
	}
	return min(max(l.Until.Sub(now), lease.MinTTL), lease.MaxTTL)
}

// hold turns a lock into a lease. The request is named after what is locked, so
// that a repetition does not take again what was released here since. A lock that
// was renewed there meanwhile is another one: its lease here may have expired.
//
// If one of the lock's other names is a task or a lock here already, hold locks
// that, and the lock's own name leads there. If another owner holds it, hold
// locks only the lock's own name.
func (a *adoption) hold(l Lock) error {
	for i, id := range l.Aliases {
		there, err := a.known(id)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		other, before := l, len(a.out.LeftOut)
		other.Key, other.Aliases = id, append(slices.Delete(slices.Clone(l.Aliases), i, i+1), l.Key)
		if err := a.take(other); err != nil || len(a.out.LeftOut) == before {
			return err
		}
		l.Aliases = nil
		break
	}
	return a.take(l)
}

// known reports whether a task or a lock has exactly this name.
func (a *adoption) known(id string) (bool, error) {
	here, err := task.Show(a.ctx, a.st, id)
	if err == nil && here.ID == id {
		return true, nil
	}
	if err != nil && !theirFault(err) {
		return false, err
	}
	found, err := lease.Show(a.ctx, a.st, id)
	if errors.Is(err, lease.ErrNotFound) || err != nil && theirFault(err) {
		return false, nil
	}
	return err == nil && found.Key == id && found.Lock != nil, err
}

func (a *adoption) take(l Lock) error {
	name := fmt.Appendf(nil, "%s\x00%s\x00%d", l.Key, l.Owner, l.Since.UnixNano())
	if !l.Until.IsZero() {
		name = fmt.Appendf(name, "\x00%d", l.Until.UnixNano())
	}
	sum := sha256.Sum256(name)
	req := lease.AcquireRequest{
		Keys: []string{l.Key}, Owner: l.Owner, ID: "import-" + hex.EncodeToString(sum[:12]),
		TTL: l.ttl(a.r.Now), Worktree: l.Worktree, Reason: within("held in "+a.r.From, lease.MaxText),
		DryRun: a.r.DryRun,
	}
	from := lease.Origin{Host: l.Host, PID: l.PID, Since: l.Since, Aliases: l.Aliases}
	section, within := "", task.OuterKeyNew(a.tasks[l.Key].Section)
	req.OuterKey = func(tx *store.Tx, key string) (_ string, err error) {
		section, err = within(tx, key)
		return section, err
	}
	_, err := lease.AcquireFrom(a.ctx, a.st, req, from)
	if err == nil && a.r.DryRun { // nothing was taken, so nothing blocks the next
		a.enter(l, section)
	}
	var held, around *lease.HeldError
	if errors.As(err, &around) && around.Key != l.Key || errors.Is(err, lease.ErrLost) {
		req.OuterKey = nil // another owner works in its section: hold only the task, as before a repetition
		if _, err = lease.AcquireFrom(a.ctx, a.st, req, from); err == nil && around != nil {
			a.alongside(l, around.Key, around.Owner)
		}
	}
	switch {
	case err == nil:
		a.out.Locks++
		a.holding[l.Key] = l.Owner
	case errors.Is(err, lease.ErrLost):
		a.out.GivenBack++
	case errors.As(err, &held), theirFault(err):
		a.leave(l.where, fmt.Errorf("lock on %s of %s: %w", l.Key, l.Owner, err))
	default:
		return err
	}
	return nil
}

// enter notes who would have the lock of a section.
func (a *adoption) enter(l Lock, section string) {
	if kind, _ := lease.KindOf(l.Key); kind == lease.Section {
		section = l.Key
	}
	if owner, there := a.entered[section]; there && section != "" && owner != l.Owner {
		a.alongside(l, section, owner)
		return
	}
	a.entered[section] = l.Owner
}

func (a *adoption) alongside(l Lock, section, owner string) {
	a.changed(l.where, "the lock on %s is held by %s without the lock on %s, which %s holds", l.Key, l.Owner, section, owner)
}
