package problem

import (
	"errors"
	"strconv"
	"strings"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/githooks"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/landing"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// A row recognises an error and says what it means.
type row func(err error, c Caller) (Problem, bool)

// as is a row for a type of errors with facts.
func as[E error](means func(E, Caller) Problem) row {
	return func(err error, c Caller) (Problem, bool) {
		var e E
		if !errors.As(err, &e) {
			return Problem{}, false
		}
		return means(e, c), true
	}
}

// is is a row for one error. The words of next are a command.
func is(target error, exit Exit, code string, next ...string) row {
	return func(err error, c Caller) (Problem, bool) {
		p := Problem{Exit: exit, Code: code}
		if len(next) > 0 {
			p.Next = c.Line(next...)
		}
		return p, errors.Is(err, target)
	}
}

// when is a row for one error that means more than a code.
func when(target error, means func(error, Caller) Problem) row {
	return func(err error, c Caller) (Problem, bool) {
		if !errors.Is(err, target) {
			return Problem{}, false
		}
		return means(err, c), true
	}
}

// invalid is a row for a type of errors about the caller's input.
func invalid[E error]() row {
	return as(func(E, Caller) Problem { return Problem{Exit: Usage, Code: "INVALID_ARGUMENTS"} })
}

// unknown is a change with an unknown outcome.
var unknown = Problem{Exit: Unknown, Code: "OUTCOME_UNKNOWN", Status: 500}

const notOne = "no task or section, or more than one, has that name"

// table is the one table from errors to problems. The first row that fits counts.
var table = []row{
	// Jobs.
	as(func(e *schedule.DamagedError, c Caller) Problem {
		p := Problem{Exit: Damaged, Code: "STORE_DAMAGED"}
		if e.Mend != "" {
			p.Next = c.Line("jobs", e.Mend, e.Job, "--force")
		}
		return p
	}),
	as(func(e *schedule.CronError, c Caller) Problem {
		return Problem{
			Exit: Usage, Code: "INVALID_ARGUMENTS", Next: c.Line("jobs", "next", "--cron", "0 6 * * mon-fri"),
			Details: map[string]any{"cron": e.Expr, "column": e.Column, "part": e.Part, "why": e.Why},
		}
	}),
	as(func(e *schedule.ZoneError, c Caller) Problem {
		return Problem{
			Exit: Usage, Code: "INVALID_ARGUMENTS", Next: c.Line("jobs", "next", "--cron", "0 6 * * *", "--tz", "Europe/Vienna"),
			Details: map[string]any{"tz": e.Zone},
		}
	}),
	as(func(e *schedule.ExistsError, c Caller) Problem {
		return Problem{Exit: State, Code: "JOB_EXISTS", Details: map[string]any{"job": e.Name}, Next: c.Line("jobs", "show", e.Name)}
	}),
	as(func(e *schedule.NotFoundError, c Caller) Problem {
		return Problem{Exit: None, Code: "JOB_NOT_FOUND", Details: map[string]any{"job": e.Name}, Next: c.Line("jobs", "list")}
	}),
	is(schedule.ErrNotFound, None, "JOB_NOT_FOUND", "jobs", "list"),

	// Commands that run under a lock.
	as(func(e *runner.SignalError, _ Caller) Problem { return Interrupted(e.Signal) }),
	as(func(e *runner.StartError, _ Caller) Problem {
		return Problem{Exit: Exit(e.ExitCode), Code: "COMMAND_NOT_STARTED"}
	}),
	as(func(*worker.RunningError, Caller) Problem { return Problem{Exit: Locked, Code: "RUNNER_RUNNING"} }),

	// Landing.
	as(func(e *landing.NotReadyError, c Caller) Problem {
		return Problem{Exit: State, Code: e.Code, Details: map[string]any{"files": append([]string{}, e.Files...)}, Next: c.typed(e.Next)}
	}),
	as(func(e *landing.ConflictError, c Caller) Problem {
		return Problem{Exit: State, Code: "REBASE_CONFLICT", Details: map[string]any{"at": e.Commit, "files": e.Files}, Next: c.typed(e.Next)}
	}),
	as(func(e *landing.TestError, c Caller) Problem {
		p := Problem{Exit: Exit(e.ExitCode), Code: "TEST_FAILED", Details: map[string]any{"exitCode": e.ExitCode, "log": e.Log}}
		if e.Err == nil {
			p.Next = c.typed([]string{"tail", "-n", "50", e.Log})
		}
		return p
	}),
	as(func(e *landing.PushError, c Caller) Problem {
		return Problem{
			Exit: Denied, Code: "PUSH_REFUSED", Details: map[string]any{"remote": e.Remote, "onto": e.Onto, "words": e.Words},
			Next: c.typed([]string{"git", "push", "--dry-run", e.Remote, "HEAD:refs/heads/" + e.Onto}),
		}
	}),
	as(func(e *landing.RemoteError, c Caller) Problem {
		p := Problem{Exit: Unknown, Code: "REMOTE_UNREACHABLE", Next: c.typed([]string{"git", "ls-remote", e.Remote})}
		if e.Unknown {
			p.Code = "OUTCOME_UNKNOWN"
		}
		return p
	}),
	as(func(e *landing.NotFoundError, c Caller) Problem {
		return Problem{Exit: None, Code: strings.ToUpper(e.What) + "_NOT_FOUND", Details: map[string]any{e.What: e.Name}, Next: c.typed(e.Next)}
	}),

	// Locks.
	as(func(e *lease.HeldError, c Caller) Problem {
		return Problem{Exit: Locked, Code: lockedCode(e.Key), Details: Held(e), Next: c.again()}
	}),
	as(func(e *lease.DeadlockError, c Caller) Problem {
		p := Problem{Exit: Locked, Code: "DEADLOCK", Details: deadlock(e), Ours: "waiting would never end: someone waits for what you hold"}
		if len(e.Chain) > 0 {
			p.Next = c.Line("release", e.Chain[len(e.Chain)-1].Key)
		}
		return p
	}),
	when(lease.ErrQueueFull, func(error, Caller) Problem {
		return Problem{Exit: Locked, Code: "QUEUE_FULL", Status: 429}
	}),
	as(func(e *lease.LostError, c Caller) Problem {
		p := Problem{
			Exit: Lost, Code: "LEASE_LOST", Next: c.afterLoss(e), Ours: "the lease was lost and nothing was changed: stop what you do under it",
			Details: map[string]any{"key": e.Key, "token": e.Token, "lockedBy": e.Owner, "currentToken": e.Now, "why": e.Why},
		}
		if e.Never != "" {
			p.Code = "NOT_HELD"
		}
		return p
	}),
	is(lease.ErrLost, Lost, "LEASE_LOST"),
	as(func(e *lease.OwnerError, c Caller) Problem {
		return Problem{
			Exit: Denied, Code: "PERMISSION_DENIED", Next: c.afterRefusal(e),
			Message: e.Error() + "; only its owner or a parent may do that (a person may: release --force)",
			Details: map[string]any{"key": e.Key, "lockedBy": e.Owner, "caller": e.Caller},
		}
	}),
	as(func(e *lease.InUseError, c Caller) Problem {
		return Problem{Exit: State, Code: "IN_USE", Details: map[string]any{"key": e.Key, "inside": e.Inside}, Next: c.Line("list", "--mine")}
	}),
	as(func(e *lease.BusyError, c Caller) Problem {
		return Problem{Exit: Locked, Code: "TASK_LOCKED", Details: busy(e), Next: c.afterBusy(e)}
	}),
	as(func(e *lease.AheadError, c Caller) Problem {
		return Problem{
			Exit: State, Code: "REVISION_AHEAD", Next: c.Line("watch", "--since", strconv.FormatInt(e.Newest, 10)),
			Details: map[string]any{"since": e.Since, "newest": e.Newest},
		}
	}),
	as(poolSize),
	as(whichSlot),
	as(func(e *lease.PoolBusyError, c Caller) Problem {
		return Problem{
			Exit: State, Code: "POOL_IN_USE", Next: c.Line("pools", "show", e.Pool),
			Details: map[string]any{"pool": e.Pool, "holders": e.Holders, "waiters": e.Waiters},
		}
	}),
	as(func(e *lease.AmbiguousError, c Caller) Problem {
		return several(c, e.Name, e.IDs, func(id string) map[string]any { return map[string]any{"id": id} })
	}),

	// Tasks and sections.
	as(func(e *task.StateError, c Caller) Problem {
		return Problem{
			Exit: State, Code: "INVALID_STATE", Next: c.afterState(e), Ours: "the task is in a state that does not allow it",
			Details: map[string]any{"id": e.ID, "status": e.Status, "waitsFor": append([]string{}, e.WaitsFor...)},
		}
	}),
	as(func(e *task.CycleError, c Caller) Problem {
		kind := "tasks"
		if c.group() == "sections" {
			kind = "sections"
		}
		return Problem{Exit: State, Code: "DEPENDENCY_CYCLE", Details: map[string]any{"cycle": e.IDs}, Next: c.Line(kind, "show", e.IDs[0])}
	}),
	as(func(e *task.AmbiguousError, c Caller) Problem {
		ids := make([]string, len(e.Matches))
		facts := map[string]map[string]any{}
		for i, t := range e.Matches {
			ids[i], facts[t.ID] = t.ID, map[string]any{"id": t.ID, "title": t.Title, "status": t.Status}
		}
		return several(c, e.Ref, ids, func(id string) map[string]any { return facts[id] })
	}),
	as(func(e *task.NotFoundError, c Caller) Problem {
		return Problem{
			Exit: None, Code: strings.ToUpper(e.What) + "_NOT_FOUND", Ours: notOne,
			Details: map[string]any{e.What: e.Ref}, Next: c.search(e),
		}
	}),
	when(task.ErrNothingReady, func(err error, c Caller) Problem {
		if none, ok := errors.AsType[*task.NothingReadyError](err); ok && len(none.Closed) > 0 {
			return sectionFull(none.Closed[0], c)
		}
		return Problem{Exit: None, Code: "NOTHING_READY", Next: c.again()}
	}),
	is(lease.ErrNotFound, None, "LOCK_NOT_FOUND", "list"), // after those of tasks, which match it too

	// Access keys of a server.
	as(func(*access.DeniedError, Caller) Problem { return Problem{Exit: Denied, Code: "PERMISSION_DENIED"} }),
	as(func(e *access.NotFoundError, c Caller) Problem {
		return Problem{Exit: None, Code: "ACCESS_KEY_NOT_FOUND", Details: map[string]any{"id": e.ID}, Next: c.Line("keys", "list")}
	}),
	when(access.ErrRevoked, func(error, Caller) Problem {
		return Problem{Exit: Denied, Code: "ACCESS_KEY_REVOKED", Status: 401}
	}),

	// Bad input.
	as(func(*lease.ReusedError, Caller) Problem {
		return Problem{Exit: Usage, Code: "REQUEST_ID_USED", Status: 422}
	}),
	invalid[*lease.InvalidError](),
	invalid[*repo.OutsideError](),
	is(driver.ErrTooLarge, Usage, "INVALID_ARGUMENTS"),
	is(driver.ErrInvalid, Usage, "INVALID_ARGUMENTS"),
	is(store.ErrSame, Usage, "INVALID_ARGUMENTS"),
	is(store.ErrNotBackup, Usage, "INVALID_ARGUMENTS"),

	// Which store.
	as(func(e *place.Error, c Caller) Problem {
		p := Problem{Exit: Setup, Code: "NO_PLACE", Next: OwnStore}
		if len(e.Stores) > 0 {
			p.Next = c.Line("doctor", "--store", e.Stores[0])
		}
		return p
	}),
	as(func(e *place.SharedError, c Caller) Problem {
		return Problem{Exit: Setup, Code: "SHARED_STORE", Next: c.Line("config", "set", "store", "git:"+e.Remote)}
	}),
	as(func(_ *driver.LacksError, c Caller) Problem { // init would say the same
		return Problem{Exit: Setup, Code: "NOT_INITIALIZED", Next: c.Line("doctor")}
	}),
	as(func(e *store.MovedError, c Caller) Problem {
		return Problem{Exit: Setup, Code: "STORE_MOVED", Next: c.Use(e.To)}
	}),
	as(func(e *store.FillingError, c Caller) Problem {
		p := Problem{Exit: Setup, Code: "STORE_INCOMPLETE", Next: c.Line("restore", e.From)}
		if !e.Backup {
			p.Next = c.Line("migrate", "--from", e.From, "--to", c.Store)
		}
		return p
	}),
	is(driver.ErrMissing, Setup, "NOT_INITIALIZED", "init"),
	is(driver.ErrNewer, Setup, "NEWER_FORMAT", "version"), // the message says how to upgrade
	is(driver.ErrOlder, Setup, "OLDER_FORMAT", "init", "--upgrade"),
	is(store.ErrMoved, Setup, "STORE_MOVED"),
	is(store.ErrFilling, Setup, "STORE_INCOMPLETE"),
	is(store.ErrNotEmpty, State, "STORE_NOT_EMPTY"),

	// The state of the store. "Disk full" is reported only if nothing was written.
	when(driver.ErrFull, func(err error, _ Caller) Problem {
		if errors.Is(err, store.ErrUnknown) {
			return unknown
		}
		return Problem{Exit: Unsafe, Code: "DISK_FULL"}
	}),
	as(func(*host.DeniedError, Caller) Problem { return Problem{Exit: Denied, Code: "PERMISSION_DENIED"} }),
	as(func(*githooks.RefusedError, Caller) Problem { return Problem{Exit: Denied, Code: "PERMISSION_DENIED"} }),
	is(driver.ErrDenied, Denied, "PERMISSION_DENIED", "doctor"),
	is(store.ErrBackupDamaged, Damaged, "BACKUP_DAMAGED", "restore", "--help"),
	is(driver.ErrDamaged, Damaged, "STORE_DAMAGED"),
	is(driver.ErrUnsafe, Unsafe, "UNSAFE_ENVIRONMENT"),
	when(store.ErrUnknown, func(error, Caller) Problem { return unknown }),
	is(store.ErrUnreachable, Unknown, "STORE_UNREACHABLE"),
}
