package problem

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// Interrupted is the problem of a command that a signal ended.
func Interrupted(s os.Signal) Problem {
	n, _ := s.(syscall.Signal)
	return Problem{Exit: Signal + Exit(n), Code: "INTERRUPTED"}
}

// Held returns the facts about the blocking lock.
func Held(h *lease.HeldError) map[string]any {
	kind, name := lease.KindOf(cmp.Or(h.PoolKey(), h.Key))
	d := map[string]any{string(kind) + "Id": name, "key": h.Key, "lockedBy": h.Owner, "ahead": h.Ahead, "position": h.Position}
	put := func(name string, v any, known bool) {
		if known {
			d[name] = v
		}
	}
	if p := h.Pool; p != nil {
		d["used"], d["size"], d["all"], d["holders"] = p.Used, p.Size, p.All, p.Holders
	}
	put("asked", h.Asked, h.Asked != "" && h.Asked != h.Key)
	put("lockedAt", h.AcquiredAt, !h.AcquiredAt.IsZero())
	put("expiresAt", h.ExpiresAt, h.Owner != "" || !h.ExpiresAt.IsZero())
	put("lastSeen", h.HeartbeatAt, !h.HeartbeatAt.IsZero())
	put("leaseId", h.LeaseID, h.LeaseID != "")
	put("token", h.Token, h.Token != 0)
	put("host", h.Host, h.Host != "")
	put("pid", h.PID, h.PID != 0)
	put("reason", h.Reason, h.Reason != "")
	put("worktree", h.Worktree, h.Worktree != "")
	put("waitedSeconds", h.Waited.Seconds(), h.Waited > 0)
	return d
}

func lockedCode(key string) string {
	switch kind, _ := lease.KindOf(key); kind {
	case lease.Section:
		return "SECTION_LOCKED"
	case lease.Job:
		return "JOB_LOCKED"
	case lease.Path:
		return "PATH_LOCKED"
	case lease.Pool:
		return "POOL_LOCKED"
	}
	return "TASK_LOCKED"
}

func deadlock(e *lease.DeadlockError) map[string]any {
	var chain []map[string]string
	for _, l := range e.Chain {
		chain = append(chain, map[string]string{"owner": l.Owner, "waitsFor": l.Key})
	}
	return map[string]any{"cycle": chain}
}

// poolSize is the problem of a request that the size of a pool does not allow.
func poolSize(e *lease.PoolSizeError, c Caller) Problem {
	p := Problem{
		Exit: State, Code: "POOL_SIZE", Next: c.Line("pools", "show", e.Pool),
		Details: map[string]any{"pool": e.Pool, "size": e.Size, "setBy": e.By, "slots": e.Slots, "take": e.Take},
	}
	switch set := c.Line("pools", "set", e.Pool, strconv.Itoa(max(e.Slots, e.Take, 1))); {
	case e.Size == 0 && e.Take == 0: // for a runner or a job
		p.Code, p.Next = "POOL_UNKNOWN", set
		p.Message = "there is no pool " + e.Pool + ": set its size first"
	case e.Size == 0:
		p.Code, p.Next = "POOL_UNKNOWN", set
		p.Message = "there is no pool " + e.Pool + ": give its size with --slots N"
		p.Ours = "there is no such pool: call again with slots"
	case e.Slots != 0:
		p.Message = e.Error() + " (to change it for everybody: " + set + ")"
		p.Ours = fmt.Sprintf("the pool has %d slots, not %d: leave slots out", e.Size, e.Slots)
		if c.Retry != nil {
			p.Next = c.Line(withoutFlag(c.Retry, "--slots")...)
		}
	default:
		p.Ours = fmt.Sprintf("the pool has %d slots, you want %d", e.Size, e.Take)
	}
	return p
}

// withoutFlag leaves a flag and its value out of a command line.
func withoutFlag(words []string, flag string) []string {
	if i := slices.Index(words, flag); i >= 0 && i+1 < len(words) {
		return slices.Delete(slices.Clone(words), i, i+2)
	}
	return words
}

// whichSlot is the problem of a break that must name a slot.
func whichSlot(e *lease.WhichSlotError, c Caller) Problem {
	p := Problem{Exit: Usage, Code: "WHICH_SLOT", Next: c.Line("pools", "show", e.Pool), Details: map[string]any{"pool": e.Pool, "holders": e.Holders}}
	if len(e.Holders) > 0 {
		p.Message = "pool " + e.Pool + ": name a slot, or an owner with --of OWNER"
		p.Next = c.Line("break", e.Holders[0].Key, "--reason", "TEXT")
	}
	return p
}

func busy(e *lease.BusyError) map[string]any {
	d := map[string]any{"holders": e.Holders}
	if len(e.Holders) > 0 {
		h := e.Holders[0]
		d["taskId"], d["lockedBy"], d["expiresAt"] = h.Key, h.Owner, h.ExpiresAt
	}
	return d
}

// several is the problem of an ambiguous name.
func several(c Caller, ref string, ids []string, facts func(id string) map[string]any) Problem {
	var matches []map[string]any
	for _, id := range ids {
		matches = append(matches, facts(id))
	}
	p := Problem{Exit: Usage, Code: "AMBIGUOUS", Ours: notOne, Details: map[string]any{"ref": ref, "matches": matches}}
	if len(ids) > 0 {
		p.Next = c.Line("tasks", "show", ids[0])
	}
	return p
}

// sectionFull is the problem of a worker for whom nothing is ready, because others
// work in a section.
func sectionFull(by task.Closed, c Caller) Problem {
	p := Problem{Exit: None, Code: "NOTHING_READY", Next: c.again(), Details: map[string]any{"section": by.Task.Section, "lockedBy": by.Lock.Owner, "workers": max(1, by.Workers)}}
	if by.Workers > 0 {
		p.Next = c.Line("sections", "update", by.Task.Section, "--workers", "any")
	}
	return p
}
