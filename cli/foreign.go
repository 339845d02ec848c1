package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/legacy"
	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store/driver"
)

// foreign tells the other systems that migrate can read.
func foreign(url string) (system, place string, ok bool) {
	system, place, _ = strings.Cut(url, ":")
	switch system {
	case "steroids", "cat", "pi", "aitasks":
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
		if errors.Is(err, driver.ErrMissing) {
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
	var busy *lock.BusyError
	switch {
	case errors.As(err, &busy) && !o.force:
		return &deniedBusy{
			busy: busy, text: fmt.Sprintf("%v in %s; wait, or take the locks over too with --force", err, r.From),
			next: a.commandLine("migrate", "--from", r.From, "--to", withoutPassword(o.to), "--force", "--dry-run"),
		}
	case err != nil:
		return interrupted(ctx, err)
	}
	for _, l := range out.LeftOut {
		a.warn("%s: %s", l.Where, short(l.Why, 200))
	}
	err = a.answer(adoptResult{r.From, a.placeName(o.to), out}, func(p *printer) {
		p.line("%s %s, %s and %s from %s.", a.did("Took over", "Would take over"), plural(out.Tasks, "task"), plural(out.Sections, "section"), plural(out.Locks, "lock"), r.From)
		if out.Already > 0 {
			p.line("%s there already.", plural(out.Already, "task"))
		}
		if out.Expired > 0 {
			p.line("%s over, not taken.", plural(out.Expired, "lock"))
		}
		if n := len(out.LeftOut); n > 0 {
			p.line("%s left out or changed, see above.", plural(n, "record"))
		}
	})
	if err == nil && len(out.LeftOut) > 0 {
		err = &exitWith{ExitDamaged}
	}
	return err
}

func timesOf(url string) lock.Times {
	if isGit(url) {
		return lock.Far
	}
	return lock.Near
}

func (a *App) readForeign(ctx context.Context, system, place string) (legacy.Source, error) {
	switch system {
	case "steroids":
		return legacy.Steroids(ctx, a.path(place), a.Now())
	case "cat":
		return legacy.CAT(a.path(place), a.Now())
	case "pi":
		return legacy.Pi(a.path(place), a.Now())
	}
	if a.Special.Files == nil {
		return legacy.Source{}, errors.ErrUnsupported
	}
	cfg, err := a.Config()
	if err != nil {
		return legacy.Source{}, err
	}
	tasks, err := a.Special.Files(ctx, place, "", legacy.AITasksFolder, cfg.opens())
	if err != nil && !errors.Is(err, driver.ErrMissing) {
		return legacy.Source{}, err
	}
	locks, err := a.Special.Files(ctx, place, legacy.AITasksLocks, "", cfg.opens())
	if err != nil && !errors.Is(err, driver.ErrMissing) { // nobody has locked anything yet
		return legacy.Source{}, err
	}
	return legacy.AITasks(tasks, locks, a.Now())
}

// deniedBusy: somebody works where no command of ours can wait for them.
type deniedBusy struct {
	busy *lock.BusyError
	text string
	next string
}

func (e *deniedBusy) Error() string { return e.text }
func (e *deniedBusy) Unwrap() error { return e.busy }
