package setupcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/legacy"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// foreign are the other systems that migrate can read.
func foreign(url string) (system, place string, ok bool) {
	system, place, _ = strings.Cut(url, ":")
	switch system {
	case "steroids", "cat", "pi", "aitasks", "percolate":
		return system, place, true
	}
	return "", "", false
}

// adoptResult is what was taken over from another system.
type adoptResult struct {
	From string `json:"from"`
	To   string `json:"to"`
	legacy.AdoptResult
}

// adopt takes over the tasks and locks of another system.
func (o *migrateOptions) adopt(ctx context.Context, s *session.Session, system, place string) error {
	if place == "" {
		return session.Usagef("--from: needs a place after %s:", system)
	}
	src, err := readForeign(ctx, s, system, place)
	if err != nil {
		err = fmt.Errorf("--from %s: %w", config.WithoutPassword(o.from), err)
		if errors.Is(err, driver.ErrMissing) || errors.Is(err, driver.ErrDamaged) { // theirs, not our store
			return session.WithNext(err, "tasklock migrate --help")
		}
		return err
	}
	id, err := s.Caller()
	if err != nil {
		return err
	}
	to, err := storeAt(ctx, s, "to", o.to, true)
	if err != nil {
		return err
	}
	ctx, copying := startCopying(ctx, s)
	r := legacy.AdoptRequest{
		Source: src, By: id.Owner, From: config.WithoutPassword(o.from), Now: s.Now(),
		Force: o.force, Progress: copying.Update, DryRun: s.DryRun,
	}
	out, err := legacy.Adopt(ctx, to, r)
	err = copying.end(err)
	var busy *lease.BusyError
	switch {
	case errors.As(err, &busy) && !o.force:
		return &deniedBusy{
			busy: busy, text: fmt.Sprintf("%v in %s; wait, or take the locks over too with --force", err, r.From),
			next: s.CommandLine("migrate", "--from", r.From, "--to", config.WithoutPassword(o.to), "--force", "--dry-run"),
		}
	case err != nil:
		return err
	}
	for _, l := range append(out.Changed, out.LeftOut...) {
		s.Warn("%s: %s", l.Where, term.Short(l.Why, 200))
	}
	err = s.Answer(adoptResult{r.From, placeName(s, o.to), out}, func(p *term.Printer) { printAdopted(p, r.From, out) })
	if err == nil && len(out.LeftOut)+len(out.Changed) > 0 {
		err = session.ExitError(problem.Damaged)
	}
	return err
}

func printAdopted(p *term.Printer, from string, out legacy.AdoptResult) {
	what := fmt.Sprintf("%s, %s and %s", term.Plural(out.Tasks, "task"), term.Plural(out.Sections, "section"), term.Plural(out.Locks, "lock"))
	if out.Jobs > 0 {
		what = fmt.Sprintf("%s and %s", term.Plural(out.Jobs, "job"), term.Plural(out.Locks, "lock"))
	}
	p.Line("%s %s from %s.", p.Did("Took over", "Would take over"), what, from)
	for _, l := range []struct {
		n          int
		what, rest string
	}{
		{out.Already, "record", "there already."},
		{out.Expired, "lock", "expired, not taken over."},
		{out.GivenBack, "lock", "taken over before and released since."},
		{len(out.Changed), "record", "taken over with a change, see above."},
		{len(out.LeftOut), "record", "left out, see above."},
	} {
		if l.n > 0 {
			p.Line("%s %s", term.Plural(l.n, l.what), l.rest)
		}
	}
	if out.Jobs > 0 {
		p.Line("The jobs are paused and have no command. Fill it in: tasklock jobs apply --help")
	}
}

func readForeign(ctx context.Context, s *session.Session, system, place string) (legacy.Source, error) {
	switch system {
	case "steroids":
		return legacy.Steroids(ctx, s.Path(place), s.Now())
	case "cat":
		return legacy.CAT(s.Path(place), s.Now())
	case "pi":
		return legacy.Pi(s.Path(place), s.Now())
	case "percolate":
		return legacy.Percolate(s.Path(place), s.Now())
	}
	cfg, err := s.Config()
	if err != nil {
		return legacy.Source{}, err
	}
	remote, branch, _ := strings.Cut(place, "#")
	read := func(branch, under string) (map[string][]byte, error) {
		found, err := gitstore.Files(ctx, remote, branch, under, &gitstore.Options{Timeout: cfg.StoreTimeout()})
		if errors.Is(err, driver.ErrMissing) {
			err = nil
		}
		return found, driver.Unreachable(err)
	}
	var files legacy.AITasksFiles
	if files.Locks, err = read(legacy.AITasksLocks, ""); err != nil {
		return legacy.Source{}, err
	}
	if files.IDs, err = read(legacy.AITasksIDs, ""); err != nil {
		return legacy.Source{}, err
	}
	branches := []string{legacy.AITasksData, ""} // current versions, older ones
	if branch != "" {
		branches = []string{branch}
	}
	for _, b := range branches {
		if files.Tasks, err = read(b, legacy.AITasksFolder); err != nil {
			return legacy.Source{}, err
		}
		if len(files.Tasks) > 0 {
			break
		}
	}
	if branch != "" && len(files.Tasks) == 0 {
		return legacy.Source{}, fmt.Errorf("%w: no task in %s on branch %s", driver.ErrMissing, legacy.AITasksFolder, branch)
	}
	return legacy.AITasks(files, s.Now())
}

// deniedbusy: somebody works where no command of ours can wait for them.
type deniedBusy struct {
	busy *lease.BusyError
	text string
	next string
}

func (e *deniedBusy) Error() string { return e.text }

func (e *deniedBusy) Unwrap() error { return e.busy }

func (e *deniedBusy) Problem(c problem.Caller) problem.Problem {
	p := problem.Of(e.busy, c)
	p.Message, p.Next = e.text, e.next
	return p
}
