package cli

import (
	"errors"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// problem is what an error means to this command: the table of package problem,
// and what only the command knows.
func (a *App) problem(err error) problem.Problem {
	p := problem.Of(err, a.asker())
	var hint *hinted
	var held *lease.HeldError
	var elsewhere *placeError
	var bad *ConfigError
	switch {
	case errors.As(err, &hint):
	case errors.As(err, &held):
		p.Message = a.lockedText(held)
	case errors.As(err, &elsewhere):
		there := *a
		there.StoreURL = withoutPassword(elsewhere.url)
		p.Next = there.problem(elsewhere.err).Next
		if errors.Is(err, store.ErrNotEmpty) || errors.Is(err, driver.ErrMissing) {
			p.Next = there.commandLine("doctor")
		}
	case errors.As(err, &bad) && a.Env(bad.File) != "":
		p.Next = "unset " + bad.File + "; " + a.commandLine("config", "show")
	case errors.Is(err, store.ErrUnreachable):
		if look := a.lookOffline(err); look != "" {
			p.Next = look
		}
	case errors.Is(err, driver.ErrDenied):
		why, next := a.sandboxed(err)
		if why != "" {
			p.Message += ". " + why
		}
		if next != "" {
			p.Next = next
		}
	}
	return p
}

func (a *App) asker() problem.Caller {
	url := a.StoreURL
	if url == "" && a.cfg != nil {
		url, _ = a.cfg.Store()
	}
	return problem.Caller{
		Command: a.command, Owner: a.Identity().Owner, Store: withoutPassword(url), Retry: a.retry,
		Line: a.commandLine, Longer: a.longer, Use: a.useStore,
	}
}

// longer is the command that waits again, with another --max-hold.
func (a *App) longer(hold time.Duration) []string {
	i := slices.Index(a.retry, "--max-hold")
	if i < 0 || i+1 == len(a.retry) {
		return nil
	}
	words := slices.Clone(a.retry)
	words[i+1] = exact(hold)
	return words
}
