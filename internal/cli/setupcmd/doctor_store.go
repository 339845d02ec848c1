package setupcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// folder looks at the folder of a local store, its permissions and its file
// system. It reports whether there may be a store to look into.
func (x *examination) folder() bool {
	_, named := x.cfg.Store()
	if x.cfg.Place.Folder == "" && !named {
		return false // place or config has said why
	}
	if x.dir == "" {
		return true // elsewhere; opening it will tell
	}
	dir := x.dir
	fi, err := os.Lstat(dir)
	switch {
	case err != nil && repo.Absent(err):
		x.none(fmt.Errorf("%w: no folder %s", driver.ErrMissing, dir))
		if above := existing(dir); host.Writable(above) != nil {
			x.readOnly(above, host.Writable(above), problem.OwnStore)
		}
		x.fileSystem(dir)
		return false
	case err != nil:
		x.Fail("folder", "ls -ld "+term.ShellQuote(dir), config.Refused(err))
		return false
	case fi.Mode()&fs.ModeSymlink != 0:
		place := "file:" + repo.Canonical(dir)
		if x.path != "" {
			place = "sqlite:" + filepath.Join(repo.Canonical(dir), filepath.Base(x.path))
		}
		x.Fail("folder", "tasklock --store "+term.ShellQuote(place)+" doctor",
			fmt.Errorf("%w: %s is a symbolic link; nothing is written through it", driver.ErrUnsafe, dir))
		return false
	case !fi.IsDir():
		x.Fail("folder", "mv "+term.ShellQuote(dir)+" "+term.ShellQuote(dir+".old"), fmt.Errorf("%w: %s is not a folder", driver.ErrDamaged, dir))
		return false
	}
	x.permissions(dir, fi)
	x.fileSystem(dir)
	return true
}

// none notes that there is no store: a failure only if one was named.
func (x *examination) none(err error) {
	remedy := x.Session.CommandLine("init")
	var lacks *driver.LacksError
	if errors.As(err, &lacks) {
		remedy = lacks.Remedy
	}
	if _, named := x.cfg.Store(); named {
		x.Fail("store", remedy, err)
		return
	}
	if x.cfg.Users() { // init would make a project
		x.OK("store", "none yet at %s; the first lock makes it", config.WithoutPassword(x.url))
		return
	}
	x.Warn("store", remedy, "none yet at %s; the first lock makes it", config.WithoutPassword(x.url))
}

// noRoom is what a commit or two may need on a disk.
const noRoom = 128 << 10

// existing is the nearest folder above dir that is there, or dir itself.
func existing(dir string) string {
	for !repo.Exists(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}

func (x *examination) permissions(dir string, fi fs.FileInfo) {
	uid, owned := host.Owner(fi)
	mode := fi.Mode().Perm()
	quoted := term.ShellQuote(dir)
	switch {
	case owned && uid != 0 && uid != os.Geteuid():
		x.Fail("folder", problem.OwnStore,
			fmt.Errorf("%w: %s belongs to user %d, we are %d; use a store of your own", driver.ErrUnsafe, dir, uid, os.Geteuid()))
	case owned && mode&0o022 != 0 && fi.Mode()&fs.ModeSticky == 0:
		x.Fail("folder", "chmod go-w "+quoted, fmt.Errorf("%w: others may write in %s", driver.ErrUnsafe, dir))
	case host.Writable(dir) != nil && owned && uid != os.Geteuid():
		x.readOnly(dir, host.Writable(dir), problem.OwnStore)
	case host.Writable(dir) != nil:
		x.readOnly(dir, host.Writable(dir), "chmod u+rwx "+quoted)
	case x.path != "" && repo.Exists(x.path) && host.Writable(x.path) != nil:
		x.readOnly(x.path, host.Writable(x.path), "chmod u+w "+term.ShellQuote(x.path))
	case owned && mode&0o055 != 0 && filepath.Base(dir) == repo.StoreDir: // one with another name may hold more than a store
		x.Warn("folder", "chmod go-rwx "+quoted, "%s can be read by others (%04o)", dir, mode)
	default:
		x.OK("folder", "%s (%04o)", dir, mode)
	}
}

// readOnly notes what we may not write: then locks can be seen, not taken.
func (x *examination) readOnly(path string, why error, remedy string) {
	if errors.Is(why, syscall.EROFS) {
		remedy = "findmnt -T " + term.ShellQuote(path)
	}
	err := fmt.Errorf("%w: %s cannot be written (%w), so you can see locks but not take them; allow it in the sandbox", driver.ErrDenied, path, why)
	if codex, next := x.Session.Sandboxed(err); codex != "" {
		remedy, err = next, fmt.Errorf("%w. %s", err, codex)
	}
	x.Fail("folder", remedy, err)
}

func (x *examination) fileSystem(dir string) {
	name, safe, err := host.FileSystem(dir)
	free := room(existing(dir))
	switch {
	case err != nil:
		x.Fail("filesystem", "df "+term.ShellQuote(dir), config.Refused(err))
	case safe && free >= 0 && free < noRoom:
		x.Fail("filesystem", "df "+term.ShellQuote(dir), fmt.Errorf("%w: the disk is full: %s left on %s for %s", store.ErrUnreachable, size(free), name, dir))
	case safe:
		x.OK("filesystem", "%s", name)
	case x.cfg.AllowUnsafeFS():
		by, _ := x.cfg.Origin("allowUnsafeFs")
		x.Warn("filesystem", problem.OwnStore, "%s cannot be trusted with locks; allowed by %s, best effort", name, by)
	default:
		x.Fail("filesystem", problem.OwnStore,
			fmt.Errorf("%w: %s is on %s, where locks between processes cannot be trusted; use a path on a local disk, or accept the risk with --allow-unsafe-fs",
				driver.ErrUnsafe, dir, name))
	}
}

// largeLog is the size at which the log beside a database shows that nobody
// tidies it up: some reader keeps an old view open.
const largeLog = 16 << 20

// files lets the driver examine what it keeps.
func (x *examination) files(ctx context.Context) {
	ctx, cancel := x.looks(ctx)
	defer cancel()
	r, err := driver.Inspect(ctx, x.url)
	err = inTime(ctx, config.Refused(x.Session.Linked(err)))
	switch {
	case errors.Is(err, driver.ErrMissing):
		return // records will say so
	case err != nil:
		x.Fail("integrity", x.remedy(err), err)
		return
	}
	for i, problem := range r.Problems {
		if i == 5 {
			problem = fmt.Sprintf("and %d more", len(r.Problems)-i)
		}
		x.Fail("integrity", x.copyAside(), fmt.Errorf("%w: %s", driver.ErrDamaged, problem))
		if i == 5 {
			break
		}
	}
	for _, w := range r.Warnings {
		x.Warn("server", w.Remedy, "%s", w.Text)
	}
	facts := r.Facts
	if r.Path != "" {
		facts += fmt.Sprintf(", %s, log %s", size(r.Bytes), size(r.LogBytes))
	}
	switch {
	case len(r.Problems) > 0:
	case r.LogBytes > largeLog:
		x.Warn("integrity", "fuser -v "+term.ShellQuote(r.Path), "%s: the log is large, some process keeps an old view open", facts)
	default:
		x.OK("integrity", "%s", facts)
	}
}

// remedy is the command that helps against an error of the store.
func (x *examination) remedy(err error) string {
	var moved *store.MovedError
	if errors.As(err, &moved) {
		return x.Session.UseStore(moved.To)
	}
	var job *schedule.DamagedError
	if errors.As(err, &job) && job.Mend != "" {
		return x.Session.Problem(err).Next
	}
	switch exit := x.Session.Problem(err).Exit; {
	case errors.Is(err, driver.ErrNewer):
		return "tasklock version"
	case errors.Is(err, driver.ErrInvalid) && config.IsGit(x.url):
		return "git remote -v"
	case errors.Is(err, driver.ErrOlder):
		return x.Session.CommandLine("init", "--upgrade")
	case errors.Is(err, store.ErrUnreachable) && x.cfg.StoreTimeout() == 0:
		return x.Session.CommandLine("doctor", "--timeout", "60s")
	case exit == problem.Damaged && x.dir != "":
		return x.copyAside()
	case exit == problem.Denied && x.dir != "":
		return "ls -l " + term.ShellQuote(x.dir)
	case exit == problem.Unsafe && x.dir != "":
		return "ls -la " + term.ShellQuote(x.dir)
	}
	return x.Session.CommandLine("config", "show")
}

// copyAside saves what is left before anyone tries to repair it.
func (x *examination) copyAside() string {
	if x.dir == "" {
		return x.Session.CommandLine("config", "show")
	}
	dir, err := filepath.Abs(x.dir) // the folder may be "."
	if err != nil {
		dir = x.dir
	}
	return "cp -a " + term.ShellQuote(dir) + " " + term.ShellQuote(dir+".damaged")
}

// records reads the locks as every command does.
func (x *examination) records(ctx context.Context) {
	ctx, cancel := x.looks(ctx)
	defer cancel()
	d, err := x.Session.OpenStore(ctx, x.url, &driver.OpenOptions{AllowUnsafeFS: x.cfg.AllowUnsafeFS(), Poll: time.Second, Timeout: x.cfg.StoreTimeout()})
	switch {
	case errors.Is(err, driver.ErrMissing):
		x.none(err)
		return
	case err != nil:
		x.storeFails(inTime(ctx, err))
		return
	}
	st := x.Session.NewStore(x.url, d)
	defer func() { _ = st.Close() }()
	locks, err := lease.List(ctx, st, lease.ListRequest{})
	if err != nil {
		x.storeFails(inTime(ctx, err))
		return
	}
	held, endless := 0, 0
	for _, l := range locks.Locks {
		if l.State == lease.Held {
			held++
		}
		if l.ExpiresAt.IsZero() {
			endless++
		}
	}
	text := term.Plural(held, "lock") + " held"
	if endless > 0 {
		text += fmt.Sprintf(", %d of them without expiry (tasklock list --older-than 7d names the old ones)", endless)
	}
	x.OK("store", "%s, %s", config.WithoutPassword(x.url), text)
	x.format(ctx, st)
	x.stale(ctx, st)
	x.future(locks.Locks)
	x.pools(locks.Locks)
	x.sections(ctx, st)
	x.jobs(ctx, st)
}

// format reports records of an older format.
func (x *examination) format(ctx context.Context, st *store.Store) {
	err := st.View(ctx, driver.Query{}, func(tx *store.Tx) error {
		m, err := store.ReadMeta(tx)
		if err == nil && m.Format > 0 && m.Format < store.Format {
			x.OK("format", "the records have format %d: the next command that writes converts them to format %d; older versions of tasklock cannot use the store then", m.Format, store.Format)
		}
		return err
	})
	if err != nil {
		x.storeFails(inTime(ctx, err))
	}
}

// jobs finds those that do not fire although nobody paused them.
func (x *examination) jobs(ctx context.Context, st *store.Store) {
	out, err := schedule.List(ctx, st)
	if err != nil {
		x.storeFails(inTime(ctx, err))
		return
	}
	well := 0
	for _, j := range out.Jobs {
		switch {
		case j.Damaged != nil:
			x.Fail("jobs", x.remedy(j.Damaged), j.Damaged)
		case j.Next == nil && !j.Paused:
			x.Warn("jobs", x.Session.CommandLine("jobs", "resume", j.Name), "%s has no next fire time, and is not paused", j.Name)
		default:
			well++
		}
	}
	fires := slices.ContainsFunc(out.Jobs, func(j schedule.Info) bool { return !j.Paused || j.Triggered > 0 })
	switch names := view.SchedulerNames(out.Schedulers); {
	case names == "" && fires:
		x.Warn("jobs", x.Session.CommandLine("scheduler"), "%s, and no scheduler is running", term.Plural(len(out.Jobs), "job"))
	case well > 0 && well == len(out.Jobs) && names != "":
		x.OK("jobs", "%d, fired by %s", well, names)
	case well > 0 && well == len(out.Jobs):
		x.OK("jobs", "%d", well)
	}
}

// storeFails notes an error unless an earlier look has met it, in more detail.
func (x *examination) storeFails(err error) {
	code := x.Session.Problem(err).Code
	for _, f := range x.List {
		if f.Code == code && (f.Check == "folder" || f.Check == "filesystem" || f.Check == "integrity") {
			return
		}
	}
	x.Fail("store", x.remedy(err), err)
}

func (x *examination) stale(ctx context.Context, st *store.Store) {
	c, err := lease.Cleanup(ctx, st, lease.CleanupRequest{By: x.Session.Identity().Owner, DryRun: true})
	switch remedy := x.Session.CommandLine("cleanup"); {
	case err != nil:
		x.storeFails(inTime(ctx, err))
	case len(c.Freed)+c.Tickets > 0:
		x.Warn("stale", remedy, "%s of holders that are gone, %s that never came back", term.Plural(len(c.Freed), "lock"), term.Plural(c.Tickets, "waiter"))
	case c.Pruned > 0:
		x.OK("stale", "no locks, %s of old history", term.Plural(c.Pruned, "line"))
	default:
		x.OK("stale", "none")
	}
}

// pools finds locks on keys that mean a pool since pools exist: an older tasklock
// took them as plain keys.
func (x *examination) pools(locks []lease.Info) {
	for _, l := range locks {
		if _, _, slot := lease.SlotOf(l.Key); !slot && strings.HasPrefix(l.Key, string(lease.Pool)+":") {
			x.Warn("pools", "tasklock release --lease "+term.ShellQuote(l.LeaseID)+" --owner "+term.ShellQuote(l.Owner),
				"%s is a plain lock of %s, from before pools: nobody can make that pool while it is held; use another name for a plain key", l.Key, l.Owner)
			return
		}
	}
}

// sections compares what the sections and their pools say about how many may work
// there: tasks go by the section, the key of the section goes by the pool.
func (x *examination) sections(ctx context.Context, st *store.Store) {
	pools, err := lease.Pools(ctx, st)
	if err != nil {
		x.storeFails(inTime(ctx, err))
		return
	}
	size := map[string]int{}
	for _, p := range pools.Pools {
		size[p.Key] = p.Size
	}
	found, err := task.Sections(ctx, st, "")
	if err != nil {
		x.storeFails(inTime(ctx, err))
		return
	}
	for _, s := range found.Sections {
		key := lease.SectionPool(s.Name)
		if n := size[key]; n != s.Workers {
			workers := strconv.Itoa(s.Workers)
			if s.Workers == 0 {
				workers = strconv.Itoa(max(n, 2)) // with 1 the section needs no pool, and the pool would stay
			}
			x.Warn("sections", x.Session.CommandLine("sections", "update", s.Name, "--workers", workers),
				"the record of section %s is for %s, its pool for %s: owners may work there at once that should not", s.Name, workersOf(s.Workers), workersOf(n))
		}
		delete(size, key)
	}
	for _, p := range pools.Pools {
		if name, ok := strings.CutPrefix(p.Key, lease.SectionPool("")); ok && size[p.Key] > 0 {
			x.Warn("sections", x.Session.CommandLine("sections", "add", name, "--workers", strconv.Itoa(max(p.Size, 2))),
				"there is a pool for %s of section %s, but no such section; make it, and delete it if nobody needs it", workersOf(p.Size), name)
		}
	}
}

// workersOf is how many may work in a section, by one of its records.
func workersOf(n int) string {
	if n == 0 {
		return "no number of workers"
	}
	return term.Plural(n, "worker")
}

// future finds records that were written later than now: somebody set a clock.
func (x *examination) future(locks []lease.Info) {
	late := x.Session.Now().Add(time.Minute)
	for _, l := range locks {
		if l.AcquiredAt.After(late) || l.HeartbeatAt.After(late) {
			x.Warn("clock", "timedatectl status", "%s was written at %s, in the future: the clock was set back, or its writer's clock is ahead", l.Key, term.Stamp(later(l.AcquiredAt, l.HeartbeatAt)))
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func size(n int64) string {
	switch {
	case n < 10<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 10<<20:
		return strconv.FormatInt(n>>10, 10) + " KB"
	}
	return strconv.FormatInt(n>>20, 10) + " MB"
}
