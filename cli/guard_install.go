package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tasklock/tasklock/repo"
)

// guarded are the hooks of git that the guard serves.
var guarded = []string{"pre-commit", "pre-push"}

const (
	guardMark = "# tasklock guard"
	keptEnd   = ".before-tasklock" // what was there, beside ours
)

// guardScript is the hook. The one that was there runs after it, with the same
// arguments and the same input.
func guardScript(hook string) []byte {
	input, pipe := "", ""
	if hook == "pre-push" {
		input, pipe = "input=$(cat)\nfeed() { [ -z \"$input\" ] || printf '%s\\n' \"$input\"; }\n", "feed | "
	}
	return fmt.Appendf(nil, `#!/bin/sh
%s: refuses what touches paths that others have locked; see "tasklock guard --help"
%sif command -v tasklock >/dev/null 2>&1; then
	%stasklock guard run %s "$@" || exit 1
fi
before="$0%s"
if [ -x "$before" ]; then
	%s"$before" "$@"
fi
`, guardMark, input, pipe, hook, keptEnd, pipe)
}

// guardChange is what install or remove did to one hook.
type guardChange struct {
	Hook string `json:"hook"`
	File string `json:"file"`
	Did  string `json:"did"` // installed, updated, unchanged, removed, absent, foreign
	Kept string `json:"kept,omitempty"`
}

// hooksFolder is where git looks for hooks.
func (a *App) hooksFolder(ctx context.Context) (string, error) {
	dir, err := git(ctx, a.Dir, "rev-parse", "--git-path", "hooks")
	if err != nil {
		return "", &repo.OutsideError{Path: a.Dir, Why: "has no hooks: " + err.Error()}
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(a.Dir, dir)
	}
	return dir, nil
}

func (a *App) guardInstall(ctx context.Context) error {
	dir, err := a.hooksFolder(ctx)
	if err != nil {
		return err
	}
	if tree, err := repo.TreeOf(a.Dir); err == nil && !strings.HasPrefix(repo.Canonical(dir)+"/", tree.Home+"/") && !strings.HasPrefix(dir, tree.Top) {
		a.note("Note: core.hooksPath is %s, outside this repository: the guard runs wherever it is used.", dir)
	}
	var out []guardChange
	for _, hook := range guarded {
		change, err := a.installHook(dir, hook)
		if err != nil {
			return err
		}
		out = append(out, change)
	}
	return a.guardAnswer(out)
}

func (a *App) installHook(dir, hook string) (guardChange, error) {
	file := filepath.Join(dir, hook)
	c := guardChange{Hook: hook, File: file, Did: "installed"}
	script := guardScript(hook)
	there, err := os.ReadFile(file)
	switch {
	case err == nil && bytes.Equal(there, script):
		c.Did = "unchanged"
		return c, nil
	case err == nil && ours(there):
		c.Did = "updated"
	case err == nil || !repo.Absent(err) || repo.Exists(file):
		c.Kept = file + keptEnd
		if repo.Exists(c.Kept) {
			return c, &deniedError{text: fmt.Sprintf("%s and %s are both there: one of them must go first", file, c.Kept)}
		}
	}
	if a.DryRun {
		return c, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return c, err
	}
	if c.Kept != "" {
		if err := os.Rename(file, c.Kept); err != nil {
			return c, err
		}
	}
	err = writeWhole(file, script, 0o755)
	if err != nil && c.Kept != "" {
		_ = os.Rename(c.Kept, file)
	}
	return c, err
}

func ours(script []byte) bool { return bytes.Contains(script, []byte("\n"+guardMark)) }

func (a *App) guardRemove(ctx context.Context) error {
	dir, err := a.hooksFolder(ctx)
	if err != nil {
		return err
	}
	var out []guardChange
	for _, hook := range guarded {
		change, err := a.removeHook(filepath.Join(dir, hook), hook)
		if err != nil {
			return err
		}
		out = append(out, change)
	}
	return a.guardAnswer(out)
}

func (a *App) removeHook(file, hook string) (guardChange, error) {
	c := guardChange{Hook: hook, File: file, Did: "removed"}
	there, err := os.ReadFile(file)
	switch {
	case repo.Absent(err):
		c.Did = "absent"
		return c, nil
	case err != nil:
		return c, err
	case !ours(there):
		c.Did = "foreign"
		return c, nil
	}
	if repo.Exists(file + keptEnd) {
		c.Kept = file + keptEnd
	}
	if a.DryRun {
		return c, nil
	}
	if c.Kept != "" {
		return c, os.Rename(c.Kept, file) // over ours, at once
	}
	return c, os.Remove(file)
}

func (a *App) guardAnswer(changes []guardChange) error {
	return a.answer(map[string]any{"hooks": changes}, func(p *printer) {
		for _, c := range changes {
			switch c.Did {
			case "installed":
				p.line("%s %s.", a.did("Installed", "Would install"), c.File)
			case "updated":
				p.line("%s %s.", a.did("Updated", "Would update"), c.File)
			case "removed":
				p.line("%s %s.", a.did("Removed", "Would remove"), c.File)
			case "unchanged":
				p.line("%s is there already.", c.File)
			case "absent":
				p.line("%s is not there.", c.File)
			case "foreign":
				p.line("%s is not ours, and stays.", c.File)
			}
			if c.Kept != "" && c.Did == "removed" {
				p.line("%s is %s again.", c.Kept, c.Hook)
			} else if c.Kept != "" {
				p.line("What was there runs after it, as %s.", c.Kept)
			}
		}
	})
}

// writeWhole writes a file so that nobody ever sees half of it.
func writeWhole(file string, data []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
