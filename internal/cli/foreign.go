package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/legacy"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// foreign tells the other systems that migrate can read.
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
func (o *migrateOptions) adopt(ctx context.Context, a *App, system, place string) error {
	if place == "" {
		return usagef("--from: %s: and then where it is", system)
	}
	src, err := a.readForeign(ctx, system, place)
	if err != nil {
		err = fmt.Errorf("--from %s: %w", withoutPassword(o.from), err)
		if errors.Is(err, driver.ErrMissing) || errors.Is(err, driver.ErrDamaged) { // theirs, not our store
			return &hinted{err, "tasklock migrate --help"}
		}
		return err
	}
	id, err := a.caller()
	if err != nil {
		return err
	}
	to, err := a.storeAt(ctx, "to", o.to, true)
	if err != nil {
		return err
	}
	ctx, signals := newListener(ctx)
	defer signals.stop()
	signals.listen()
	bar := a.copying()
	r := legacy.AdoptRequest{
		Source: src, By: id.Owner, From: withoutPassword(o.from), Now: a.Now(), Times: timesOf(o.to),
		Force: o.force, Progress: bar.update, DryRun: a.DryRun,
	}
	out, err := legacy.Adopt(ctx, to, r)
	bar.end()
	var busy *lease.BusyError
	switch {
	case errors.As(err, &busy) && !o.force:
		return &deniedBusy{
			busy: busy, text: fmt.Sprintf("%v in %s; wait, or take the locks over too with --force", err, r.From),
			next: a.commandLine("migrate", "--from", r.From, "--to", withoutPassword(o.to), "--force", "--dry-run"),
		}
	case err != nil:
		return interrupted(ctx, err)
	}
	for _, l := range append(out.Changed, out.LeftOut...) {
		a.warn("%s: %s", l.Where, short(l.Why, 200))
	}
	err = a.answer(adoptResult{r.From, a.placeName(o.to), out}, func(p *printer) { printAdopted(a, p, r.From, out) })
	if err == nil && len(out.LeftOut)+len(out.Changed) > 0 {
		err = &exitWith{problem.Damaged}
	}
	return err
}

func printAdopted(a *App, p *printer, from string, out legacy.AdoptResult) {
	what := fmt.Sprintf("%s, %s and %s", plural(out.Tasks, "task"), plural(out.Sections, "section"), plural(out.Locks, "lock"))
	if out.Jobs > 0 {
		what = fmt.Sprintf("%s and %s", plural(out.Jobs, "job"), plural(out.Locks, "lock"))
	}
	p.line("%s %s from %s.", a.did("Took over", "Would take over"), what, from)
	for _, l := range []struct {
		n          int
		what, rest string
	}{
		{out.Already, "record", "there already."},
		{out.Expired, "lock", "over, not taken."},
		{out.GivenBack, "lock", "taken over before and given back since."},
		{len(out.Changed), "record", "taken over with a change, see above."},
		{len(out.LeftOut), "record", "left out, see above."},
	} {
		if l.n > 0 {
			p.line("%s %s", plural(l.n, l.what), l.rest)
		}
	}
	if out.Jobs > 0 {
		p.line("The jobs are paused and have no command. Fill it in: tasklock jobs apply --help")
	}
}

func timesOf(url string) lease.Times { return lease.TimesOf(driver.Scheme(url)) }

func (a *App) readForeign(ctx context.Context, system, place string) (legacy.Source, error) {
	switch system {
	case "steroids":
		return legacy.Steroids(ctx, a.path(place), a.Now())
	case "cat":
		return legacy.CAT(a.path(place), a.Now())
	case "pi":
		return legacy.Pi(a.path(place), a.Now())
	case "percolate":
		return legacy.Percolate(a.path(place), a.Now())
	}
	cfg, err := a.Config()
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
	return legacy.AITasks(files, a.Now())
}

// deniedBusy: somebody works where no command of ours can wait for them.
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
