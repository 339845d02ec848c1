package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// Problem is the meaning of an error for this command: the table of package
// problem, and what only the command knows.
func (s *Session) Problem(err error) problem.Problem {
	known := attemptOf(err)
	p := problem.Of(err, s.asker(known.retry))
	var hint *hinted
	var held *lease.HeldError
	var elsewhere *placeError
	var bad *config.Error
	switch {
	case errors.As(err, &hint):
	case errors.As(err, &held):
		p.Message = cmp.Or(known.Message, view.LockedText(held))
	case errors.As(err, &elsewhere):
		there := *s
		there.StoreURL = config.WithoutPassword(elsewhere.url)
		p.Next = there.Problem(elsewhere.err).Next
		if errors.Is(err, store.ErrNotEmpty) || errors.Is(err, driver.ErrMissing) {
			p.Next = there.CommandLine("doctor")
		}
	case errors.As(err, &bad) && s.Env(bad.File) != "":
		p.Next = "unset " + bad.File + "; " + s.CommandLine("config", "show")
	case errors.Is(err, store.ErrUnreachable):
		if look := s.lookOffline(err); look != "" {
			p.Next = look
		}
	case errors.Is(err, driver.ErrDenied):
		why, next := s.Sandboxed(err)
		if why != "" {
			p.Message += ". " + why
		}
		if next != "" {
			p.Next = next
		}
	}
	return p
}

func (s *Session) asker(retry []string) problem.Caller {
	url := cmp.Or(s.StoreURL, s.settings.url())
	return problem.Caller{
		Command: s.line.name, Owner: s.Identity().Owner, Store: config.WithoutPassword(url), Retry: retry,
		Line: s.CommandLine, Type: term.QuotedLine, Longer: func(hold time.Duration) []string { return longer(retry, hold) }, Use: s.UseStore,
	}
}

// longer is the command that waits again, with another --max-hold.
func longer(retry []string, hold time.Duration) []string {
	i := slices.Index(retry, "--max-hold")
	if i < 0 || i+1 == len(retry) {
		return nil
	}
	words := slices.Clone(retry)
	words[i+1] = term.Exact(hold)
	return words
}

// placeError is an error of another store than the configured one: commands that
// help must name it.
type placeError struct {
	err error
	url string
}

// OtherStore marks an error of the store that a URL names.
func OtherStore(err error, url string) error { return &placeError{err, url} }

func (e *placeError) Error() string { return e.err.Error() }

func (e *placeError) Unwrap() error { return e.err }

// UseStore is the command after which a store is the one that is used.
func (s *Session) UseStore(url string) string {
	switch {
	case s.StoreURL != "":
		return "tasklock doctor --store " + term.ShellQuote(url)
	case s.Env("TASKLOCK_STORE") != "":
		return "export TASKLOCK_STORE=" + term.ShellQuote(url) + "; tasklock doctor"
	}
	if cfg := s.settings.cfg; cfg != nil && cfg.Place.Kind == place.User {
		return "tasklock config set --user store " + term.ShellQuote(url)
	}
	return "tasklock config set store " + term.ShellQuote(url)
}

// otherTime limits the search for other work: a refusal must not wait for it.
const otherTime = time.Second

// OtherWork is the command that claims another task, for a refused caller. It is
// empty if no task is ready now.
func (s *Session) OtherWork() string {
	if s.opened.store == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), otherTime)
	defer cancel()
	if _, err := task.Next(ctx, s.opened.store, task.NextRequest{Acquire: lease.AcquireRequest{Owner: s.Identity().Owner}}); err != nil {
		return ""
	}
	return s.CommandLine("next", "--claim")
}

// Sandboxed explains a refusal of Codex's sandbox, and names the setting that
// helps; empty: the refusal has another cause. In a linked worktree the sandbox
// lets commands read the store of the main checkout, not write it.
func (s *Session) Sandboxed(err error) (why, next string) {
	if !errors.Is(err, driver.ErrDenied) || s.Env("CODEX_SANDBOX") == "" && s.Env("CODEX_SANDBOX_NETWORK_DISABLED") == "" && s.Env("CODEX_THREAD_ID") == "" {
		return "", ""
	}
	const mcp = "; or use the MCP tools of tasklock, which run outside the sandbox (tasklock agents install codex)"
	cfg := s.BestConfig()
	if known, bad := s.Config(); bad == nil {
		cfg = known
	}
	url, _ := cfg.Store()
	dir := place.FolderOf(url)
	tree, bad := repo.TreeOf(s.Dir)
	var file *fs.PathError
	switch {
	case dir != "" && errors.As(err, &file) && !repo.Within(dir, file.Path): // about another file
		return "", ""
	case dir == "":
		return "Codex's sandbox may be why: it keeps commands from writing .git and from the network" + mcp, ""
	case bad == nil && repo.Within(tree.Top, repo.Canonical(dir)):
		return "Codex's sandbox lets commands read this folder and not write it" + mcp, "codex --sandbox workspace-write"
	}
	roots := fmt.Sprintf("writable_roots = [%q]", filepath.ToSlash(dir))
	return "Codex's sandbox lets commands in this worktree read the store of the main checkout and not write it. A person adds to ~/.codex/config.toml, " +
			"below [sandbox_workspace_write]: " + roots + mcp,
		"codex -c " + term.ShellQuote("sandbox_workspace_write."+strings.ReplaceAll(roots, " ", ""))
}
