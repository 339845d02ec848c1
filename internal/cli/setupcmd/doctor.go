package setupcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store"
)

// NewDoctor takes the checks of what is installed for coding agents and git.
func NewDoctor(s *session.Session, more func(context.Context, *session.Findings)) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Examine store, file system, hooks, clock, sandbox and owner",
		Long: `Examine the store, the file system, hooks, clock, sandbox and owner. It changes
nothing. Each finding that is not ok comes with the command that helps.

Exit codes:
  0  nothing failed; otherwise the code of the worst finding:
  9 damaged, 10 unsafe, 3 not usable, 8 unreachable, 5 not permitted`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return doctor(ctx, s, more) }),
	}
}

// examination is one run of doctor.
type examination struct {
	session.Findings
	cfg  *config.Config // never nil: defaults, where the files are broken
	url  string
	path string // of the database, where there is one
	dir  string // of a store on this machine, else empty
}

// doctorTime bounds each look at the store, which may not answer, unless a
// longer time is configured.
const doctorTime = 10 * time.Second

func (x *examination) looks(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := max(doctorTime, x.cfg.StoreTimeout())
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: no answer within %v", store.ErrUnreachable, limit))
}

// inTime names the end of a look's time instead of the context's.
func inTime(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func doctor(ctx context.Context, s *session.Session, more func(context.Context, *session.Findings)) error {
	x := &examination{Findings: session.Findings{Session: s}}
	x.config()
	x.owner()
	if x.which() && x.folder() {
		x.files(ctx)
		x.records(ctx)
	}
	more(ctx, &x.Findings)
	x.clock()
	x.sandbox()
	return tell(s, x.List)
}

// config looks at the configuration and finds the store.
func (x *examination) config() {
	cfg, err := x.Session.Config()
	if err != nil {
		x.Fail("config", x.Session.CommandLine("config", "path"), err)
		cfg = x.Session.BestConfig()
	} else {
		x.OK("config", "%s", configSources(cfg))
	}
	x.cfg = cfg
	x.url, _ = cfg.Store()
	x.path, x.dir = place.DatabaseOf(x.url), place.FolderOf(x.url)
}

func configSources(cfg *config.Config) string {
	files := cfg.Files()
	if len(files) == 0 {
		return "defaults, no file"
	}
	return "from " + strings.Join(files, " and ")
}

// owner looks at the owner of locks.
func (x *examination) owner() {
	id := x.Session.Identity()
	const remedy = "export TASKLOCK_OWNER=NAME"
	_, file := x.cfg.Origin("owner")
	err := lease.CheckOwner(id.Owner)
	switch {
	case err != nil:
		x.Fail("owner", remedy, err)
	case id.Warning != "":
		x.Warn("owner", id.Remedy, "%s (%s): %s", id.Owner, id.Source, id.Warning)
	case id.Source == identity.FromConfig && file == x.cfg.Place.Config():
		x.Warn("owner", remedy, "%s is the owner of the whole project: everybody who works here counts as one owner and shares its locks", id.Owner)
	default:
		x.OK("owner", "%s (%s)", id.Owner, id.Source)
	}
}

// tell prints the findings. JSON carries all of them also when some fail.
func tell(s *session.Session, list []session.Finding) error {
	worst := worstOf(list)
	data := map[string]any{"findings": list}
	if worst == nil {
		return s.Answer(data, func(p *term.Printer) { printFindings(p, list) })
	}
	is := problem.Problem{Exit: worst.Exit, Code: worst.Code, Message: term.Clean(worst.Check + ": " + worst.Text)}
	return s.Verdict(data, is, func(p *term.Printer) { printFindings(p, list) })
}

func printFindings(p *term.Printer, list []session.Finding) {
	style := map[session.Level]term.Style{session.LevelOK: term.Green, session.LevelWarn: term.Yellow, session.LevelFail: term.Red}
	for _, f := range list {
		p.Line("%s%s %s", style[f.Level].Of(fmt.Sprintf("%-5s", f.Level)), fmt.Sprintf("%-10s", f.Check), f.Text)
		if f.Remedy != "" {
			p.Line("      Next: %s", f.Remedy)
		}
	}
}

// gravity orders exit codes: what may have cost data first.
var gravity = []problem.Exit{problem.Damaged, problem.Unsafe, problem.Setup, problem.Unknown, problem.Denied}

// worstOf is the finding that decides the exit code, nil if nothing fails.
func worstOf(list []session.Finding) *session.Finding {
	rank := func(f *session.Finding) int {
		if i := slices.Index(gravity, f.Exit); i >= 0 {
			return i
		}
		return len(gravity)
	}
	var worst *session.Finding
	for i := range list {
		if f := &list[i]; f.Level == session.LevelFail && (worst == nil || rank(f) < rank(worst)) {
			worst = f
		}
	}
	return worst
}

// which names the store and the reason, and whether there is a place for one.
func (x *examination) which() bool {
	url, named, err := x.cfg.Where()
	p := x.cfg.Place
	if p.Kind == "" && !named {
		return false // config has said why
	}
	if err == nil && !named && !place.Has(p.Folder) {
		err = x.cfg.Unmade()
	}
	if err != nil {
		x.Fail("place", x.Session.Problem(err).Next, err)
		return false
	}
	why := x.cfg.Why()
	switch {
	case !x.cfg.Users():
	case os.Geteuid() == 0:
		why += "; this is root's, other users have their own"
	default:
		why += "; other users, root too, have their own"
	}
	if remote := p.Shared(false); remote != "" && !named {
		x.Warn("place", session.UseBranch(remote), "%s: %s, although %s has a branch %s, where others may keep their locks", config.WithoutPassword(url), why, remote, place.Branch)
		return true
	}
	x.OK("place", "%s: %s", config.WithoutPassword(url), why)
	return true
}

// near reports whether the store lies on a disk of this machine.
func (x *examination) near() bool { return x.dir != "" }

// clock looks at what ages are measured by.
func (x *examination) clock() {
	now := x.Session.Now()
	_, domain := host.Awake()
	switch {
	case now.Before(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || now.Year() > 2100:
		x.Warn("clock", "timedatectl status", "the clock says %s", term.Stamp(now))
	case !x.near():
		x.OK("clock", "%s here; the store measures ages", term.Stamp(now))
	case domain == "":
		x.Warn("clock", "timedatectl status", "this system has no boot id, so ages come from the wall clock: do not let it jump")
	default:
		x.OK("clock", "%s, ages by the clock of this boot", term.Stamp(now))
	}
}

// firstPIDNamespace is the number the kernel gives the namespace of the whole
// machine.
const firstPIDNamespace = "pid:[4026531836]"

// sandbox looks at what this process is kept from seeing.
func (x *examination) sandbox() {
	me := host.Self()
	shorter := x.Session.CommandLine("run", "--ttl", "1m", "KEY", "--", "COMMAND")
	switch {
	case runtime.GOOS == "linux" && (me.NS == "" || me.Start == ""):
		x.Warn("sandbox", shorter, "/proc does not show our own process: tasklock cannot prove the death of a holder, whose lock then expires")
	case runtime.GOOS == "linux" && me.NS != firstPIDNamespace:
		x.Warn("sandbox", shorter, "a separate pid namespace (%s): tasklock does not see the death of holders outside it, whose locks then expire", me.NS)
	case me.Boot == "":
		x.Warn("sandbox", shorter, "no boot id: tasklock cannot prove the death of a holder, whose lock then expires")
	default:
		x.OK("sandbox", "processes of this machine are seen")
	}
	if !x.near() {
		return // what wakes its waiters, the store itself tells
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		x.Warn("wake-up", "sysctl fs.inotify.max_user_instances=1024", "files cannot be watched (%v): waiters look several times a second instead", err)
		return
	}
	_ = w.Close()
	x.OK("wake-up", "file notification works")
}
