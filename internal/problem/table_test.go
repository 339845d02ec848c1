package problem

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

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

// Every row of the table is met by one of these, and means this much.
func TestTable(t *testing.T) {
	both := fmt.Errorf("%w: %w", driver.ErrFull, store.ErrUnknown)
	met := map[int]bool{}
	for _, c := range []struct {
		err  error
		exit Exit
		code string
		next string
	}{
		{errors.New("anything"), 1, "ERROR", ""},
		{&schedule.DamagedError{Job: "j", Mend: "resume", Err: driver.ErrDamaged}, 9, "STORE_DAMAGED", "jobs resume j --force"},
		{&schedule.DamagedError{Job: "j", Err: driver.ErrDamaged}, 9, "STORE_DAMAGED", "doctor"},
		{&schedule.CronError{}, 2, "INVALID_ARGUMENTS", "jobs next --cron 0 6 * * mon-fri"},
		{&schedule.ZoneError{}, 2, "INVALID_ARGUMENTS", "jobs next --cron 0 6 * * * --tz Europe/Vienna"},
		{&schedule.ExistsError{Name: "j"}, 11, "JOB_EXISTS", "jobs show j"},
		{&schedule.NotFoundError{Name: "j"}, 4, "JOB_NOT_FOUND", "jobs list"},
		{schedule.ErrNotFound, 4, "JOB_NOT_FOUND", "jobs list"},
		{&runner.StartError{ExitCode: 127}, 127, "COMMAND_NOT_STARTED", ""},
		{&runner.SignalError{Signal: syscall.SIGTERM}, 143, "INTERRUPTED", ""},
		{&worker.RunningError{}, 6, "RUNNER_RUNNING", ""},
		{&landing.NotReadyError{Code: "DIRTY_TREE", Next: []string{"git", "status"}}, 11, "DIRTY_TREE", "git status"},
		{&landing.NotReadyError{Code: "REMOTE_MOVES", Next: []string{"tasklock", "guard", "install"}}, 11, "REMOTE_MOVES", "guard install"},
		{&landing.ConflictError{Next: []string{"git", "rebase", "origin/main"}}, 11, "REBASE_CONFLICT", "git rebase origin/main"},
		{&landing.TestError{ExitCode: 3, Log: "l"}, 3, "TEST_FAILED", "tail -n 50 l"},
		{&landing.TestError{ExitCode: 127, Err: errors.New("x")}, 127, "TEST_FAILED", ""},
		{&landing.PushError{Remote: "r", Onto: "m"}, 5, "PUSH_REFUSED", "git push --dry-run r HEAD:refs/heads/m"},
		{&landing.RemoteError{Remote: "r"}, 8, "REMOTE_UNREACHABLE", "git ls-remote r"},
		{&landing.RemoteError{Remote: "r", Unknown: true}, 8, "OUTCOME_UNKNOWN", "git ls-remote r"},
		{&landing.NotFoundError{What: "branch", Next: []string{"git", "branch"}}, 4, "BRANCH_NOT_FOUND", "git branch"},
		{&lease.HeldError{Info: lease.Info{Key: "x"}}, 6, "TASK_LOCKED", "again"},
		{&lease.HeldError{Info: lease.Info{Key: "section:x"}}, 6, "SECTION_LOCKED", "again"},
		{&lease.HeldError{Info: lease.Info{Key: "job:x"}}, 6, "JOB_LOCKED", "again"},
		{&lease.HeldError{Info: lease.Info{Key: "path:x"}}, 6, "PATH_LOCKED", "again"},
		{&lease.HeldError{Info: lease.Info{Key: "pool:x#1"}}, 6, "POOL_LOCKED", "again"},
		{&lease.PoolSizeError{Pool: "x", Size: 2, Slots: 3}, 11, "POOL_SIZE", "again"},
		{&lease.PoolSizeError{Pool: "x", Size: 2, Take: 3}, 11, "POOL_SIZE", "pools show x"},
		{&lease.PoolSizeError{Pool: "x"}, 11, "POOL_UNKNOWN", "pools set x 1"},
		{&lease.AheadError{Since: 9, Newest: 7}, 11, "REVISION_AHEAD", "watch --since 7"},
		{&lease.PoolBusyError{Pool: "x"}, 11, "POOL_IN_USE", "pools show x"},
		{&lease.WhichSlotError{Pool: "x", Holders: []lease.Info{{Key: "pool:x#1"}}}, 2, "WHICH_SLOT", "break pool:x#1 --reason TEXT"},
		{&lease.DeadlockError{Chain: []lease.DeadlockLink{{Owner: "a", Key: "x"}, {Owner: "b", Key: "y"}}}, 6, "DEADLOCK", "release y"},
		{lease.ErrQueueFull, 6, "QUEUE_FULL", ""},
		{&lease.LostError{Key: "x"}, 7, "LEASE_LOST", "tasks show x"},
		{&lease.LostError{Key: "lease l", Never: "x"}, 7, "NOT_HELD", "list --mine"},
		{lease.ErrLost, 7, "LEASE_LOST", ""},
		{&lease.OwnerError{Key: "x"}, 5, "PERMISSION_DENIED", "tasks show x"},
		{&lease.InUseError{Inside: []string{"x"}}, 11, "IN_USE", "list --mine"},
		{&lease.BusyError{}, 6, "TASK_LOCKED", ""},
		{&lease.BusyError{Holders: []lease.Info{{Key: "x", Owner: "bob"}, {Key: "y", Owner: "bob"}}}, 6, "TASK_LOCKED", "wait x y"},
		{&lease.BusyError{Holders: []lease.Info{{Key: "x", Owner: "me"}, {Key: "y", Owner: "bob"}}}, 6, "TASK_LOCKED", "release x"},
		{&lease.AmbiguousError{IDs: []string{"t1", "t2"}}, 2, "AMBIGUOUS", "tasks show t1"},
		{lease.ErrNotFound, 4, "LOCK_NOT_FOUND", "list"},
		{&task.StateError{ID: "t1"}, 11, "INVALID_STATE", "tasks show t1"},
		{&task.StateError{ID: "t1", WaitsFor: []string{"section:s"}}, 11, "INVALID_STATE", "sections show s"},
		{&task.CycleError{IDs: []string{"x"}}, 11, "DEPENDENCY_CYCLE", "tasks show x"},
		{&task.AmbiguousError{}, 2, "AMBIGUOUS", "tasks claim --help"},
		{&task.NotFoundError{What: "task"}, 4, "TASK_NOT_FOUND", "tasks list"},
		{&task.NotFoundError{What: "section"}, 4, "SECTION_NOT_FOUND", "sections list"},
		{&task.NotFoundError{What: "runner"}, 4, "RUNNER_NOT_FOUND", "runner list"},
		{task.ErrNothingReady, 4, "NOTHING_READY", "again"},
		{&lease.ReusedError{}, 2, "REQUEST_ID_USED", "tasks claim --help"},
		{&access.DeniedError{}, 5, "PERMISSION_DENIED", ""},
		{&access.NotFoundError{ID: "x"}, 4, "ACCESS_KEY_NOT_FOUND", "keys list"},
		{access.ErrRevoked, 5, "ACCESS_KEY_REVOKED", ""},
		{&lease.InvalidError{}, 2, "INVALID_ARGUMENTS", "tasks claim --help"},
		{&repo.OutsideError{Path: "x"}, 2, "INVALID_ARGUMENTS", "tasks claim --help"},
		{driver.ErrTooLarge, 2, "INVALID_ARGUMENTS", "tasks claim --help"},
		{driver.ErrInvalid, 2, "INVALID_ARGUMENTS", "tasks claim --help"},
		{store.ErrSame, 2, "INVALID_ARGUMENTS", "tasks claim --help"},
		{store.ErrNotBackup, 2, "INVALID_ARGUMENTS", "tasks claim --help"},
		{&place.Error{}, 3, "NO_PLACE", "--store sqlite:PATH init"},
		{&place.SharedError{Remote: "r"}, 3, "SHARED_STORE", "config set store git:r"},
		{&driver.LacksError{}, 3, "NOT_INITIALIZED", "doctor"},
		{&store.MovedError{To: "u"}, 3, "STORE_MOVED", "doctor"},
		{&store.FillingError{From: "f", Backup: true}, 3, "STORE_INCOMPLETE", "restore f"},
		{&store.FillingError{From: "f"}, 3, "STORE_INCOMPLETE", "migrate --from f --to here"},
		{driver.ErrMissing, 3, "NOT_INITIALIZED", "init"},
		{driver.ErrNewer, 3, "NEWER_FORMAT", "version"},
		{driver.ErrOlder, 3, "OLDER_FORMAT", "init --upgrade"},
		{store.ErrMoved, 3, "STORE_MOVED", "config show"},
		{store.ErrFilling, 3, "STORE_INCOMPLETE", "config show"},
		{store.ErrNotEmpty, 11, "STORE_NOT_EMPTY", ""},
		{driver.ErrFull, 10, "DISK_FULL", "doctor"},
		{both, 8, "OUTCOME_UNKNOWN", "doctor"},
		{&host.DeniedError{}, 5, "PERMISSION_DENIED", ""},
		{&githooks.RefusedError{}, 5, "PERMISSION_DENIED", ""},
		{driver.ErrDenied, 5, "PERMISSION_DENIED", "doctor"},
		{store.ErrBackupDamaged, 9, "BACKUP_DAMAGED", "restore --help"},
		{driver.ErrDamaged, 9, "STORE_DAMAGED", "doctor"},
		{driver.ErrUnsafe, 10, "UNSAFE_ENVIRONMENT", "doctor"},
		{store.ErrUnknown, 8, "OUTCOME_UNKNOWN", "doctor"},
		{store.ErrUnreachable, 8, "STORE_UNREACHABLE", "doctor"},
	} {
		err := fmt.Errorf("wrapped: %w", c.err)
		p := Of(err, Caller{Command: "tasks claim", Owner: "me", Store: "here", Retry: []string{"again"}})
		if p.Exit != c.exit || p.Code != c.code {
			t.Errorf("%T %v: %d %s, want %d %s", c.err, c.err, p.Exit, p.Code, c.exit, c.code)
		}
		if p.Status < 400 && p.Exit <= State || p.Message == "" {
			t.Errorf("%T %v: status %d, message %q", c.err, c.err, p.Status, p.Message)
		}
		if next := strings.TrimPrefix(p.Next, "tasklock "); next != c.next {
			t.Errorf("%T %v: next %q, want %q", c.err, c.err, next, c.next)
		}
		for i, fits := range table {
			if _, ok := fits(err, Caller{}.complete()); ok {
				met[i] = true
				break
			}
		}
	}
	for i := range table {
		if !met[i] {
			t.Errorf("row %d of the table is not met: an earlier one hides it, or it has no case here", i)
		}
	}
}
