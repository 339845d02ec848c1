package session

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store/driver"
)

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
