package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store"
)

func newDoctorCmd(app *App) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Examine store, file system, hooks, clock, sandbox and owner, and say what to do",
		Long: "Examine everything that locks stand on. Nothing is changed. Each finding that is not ok comes with the\n" +
			"command that helps. The exit code is 0 unless something fails, else that of the worst finding:\n" +
			"9 damaged, 10 unsafe, 3 not usable as it is, 8 unreachable, 5 not permitted.",
		Args: noArgs,
		RunE: app.does(app.doctor),
	}
}

// level of a finding.
type level string

const (
	levelOK   level = "ok"
	levelWarn level = "warn"
	levelFail level = "fail"
)

// finding is one thing that doctor looked at.
type finding struct {
	Level  level  `json:"level"`
	Check  string `json:"check"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
	Code   string `json:"code,omitempty"` // of a failure, as in the errors of other commands

	exit problem.Exit
}

// examination collects findings. Every check stands alone: what one cannot
// see, the next may.
type examination struct {
	app  *App
	cfg  *Config // never nil: defaults, where the files are broken
	url  string
	path string // of the database, where there is one
	dir  string // of a store on this machine, else empty
	list []finding
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

func (a *App) doctor(ctx context.Context, _ []string) error {
	x := &examination{app: a}
	x.config()
	x.owner()
	if x.which() && x.folder() {
		x.files(ctx)
		x.records(ctx)
	}
	x.guard(ctx)
	x.agents(ctx)
	x.clock()
	x.sandbox()
	return a.tell(x.list)
}

func (x *examination) ok(check, format string, args ...any) {
	x.list = append(x.list, finding{Level: levelOK, Check: check, Text: fmt.Sprintf(format, args...)})
}

func (x *examination) warn(check, remedy, format string, args ...any) {
	x.list = append(x.list, finding{Level: levelWarn, Check: check, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// fail notes an error, with the exit code that another command would have
// ended with.
func (x *examination) fail(check, remedy string, err error) {
	is := x.app.problem(err)
	x.list = append(x.list, finding{Level: levelFail, Check: check, Text: is.Message, Remedy: remedy, Code: is.Code, exit: is.Exit})
}

// config looks at the configuration and finds the store.
func (x *examination) config() {
	cfg, err := x.app.Config()
	if err != nil {
		x.fail("config", x.app.commandLine("config", "path"), err)
		cfg = x.app.bestConfig()
	} else {
		x.ok("config", "%s", configSources(cfg))
	}
	x.cfg = cfg
	x.url, _ = cfg.Store()
	x.path, x.dir = place.DatabaseOf(x.url), place.FolderOf(x.url)
}

// bestConfig is what can be said about the store when the files cannot be
// read: flags still count, and the environment up to its first mistake.
func (a *App) bestConfig() *Config {
	p, _ := a.findPlace()
	return withoutFiles(configInput{Place: p, Env: a.Env, Flags: a.flags})
}

func configSources(cfg *Config) string {
	files := cfg.files()
	if len(files) == 0 {
		return "defaults, no file"
	}
	return "from " + strings.Join(files, " and ")
}

// owner looks at the name that locks would belong to.
func (x *examination) owner() {
	id := x.app.Identity()
	const remedy = "export TASKLOCK_OWNER=NAME"
	_, file := x.cfg.origin("owner")
	err := lease.CheckOwner(id.Owner)
	switch {
	case err != nil:
		x.fail("owner", remedy, err)
	case id.Warning != "":
		x.warn("owner", id.Remedy, "%s (%s): %s", id.Owner, id.Source, id.Warning)
	case id.Source == identity.FromConfig && file == x.cfg.place.Config():
		x.warn("owner", remedy, "%s is the owner of the whole project: all who work here count as one and share their locks", id.Owner)
	default:
		x.ok("owner", "%s (%s)", id.Owner, id.Source)
	}
}

// tell prints the findings. JSON carries all of them also when some fail.
func (a *App) tell(list []finding) error {
	worst := worstOf(list)
	data := map[string]any{"findings": list}
	if worst == nil {
		return a.answer(data, func(p *printer) { p.findings(list) })
	}
	done := &exitWith{worst.exit}
	if a.JSON {
		body := &errorBody{Code: worst.Code, Message: clean(worst.Check + ": " + worst.Text)}
		return errors.Join(a.writeJSON(envelope{Command: a.command, DryRun: a.DryRun, Data: data, Error: body}), done)
	}
	p := a.printer()
	p.findings(list)
	return errors.Join(p.flush(), done)
}

func (p *printer) findings(list []finding) {
	style := map[level]style{levelOK: green, levelWarn: yellow, levelFail: red}
	for _, f := range list {
		p.line("%s%s %s", style[f.Level].of(fmt.Sprintf("%-5s", f.Level)), fmt.Sprintf("%-10s", f.Check), f.Text)
		if f.Remedy != "" {
			p.line("      Next: %s", f.Remedy)
		}
	}
}

// gravity orders exit codes: what may have cost data first.
var gravity = []problem.Exit{problem.Damaged, problem.Unsafe, problem.Setup, problem.Unknown, problem.Denied}

// worstOf is the finding that decides the exit code, nil if nothing fails.
func worstOf(list []finding) *finding {
	rank := func(f *finding) int {
		if i := slices.Index(gravity, f.exit); i >= 0 {
			return i
		}
		return len(gravity)
	}
	var worst *finding
	for i := range list {
		if f := &list[i]; f.Level == levelFail && (worst == nil || rank(f) < rank(worst)) {
			worst = f
		}
	}
	return worst
}
