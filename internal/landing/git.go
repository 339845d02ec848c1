package landing

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/git"
)

// ofRepository are the variables that tie git to one repository ("git rev-parse
// --local-env-vars"). A hook or an alias may have set them; we have two worktrees.
var ofRepository = []string{
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE",
	"GIT_INDEX_FILE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_QUARANTINE_PATH", "GIT_REFLOG_ACTION",
}

// asksNobody keeps git, ssh and gpg from asking: no editor, no terminal, no window.
var asksNobody = []string{
	"LC_ALL=C.UTF-8", "LANGUAGE=", "GIT_OPTIONAL_LOCKS=0",
	"GIT_EDITOR=:", "GIT_SEQUENCE_EDITOR=:", "GIT_MERGE_AUTOEDIT=no", "GIT_PAGER=cat",
	"GIT_TERMINAL_PROMPT=0", "GCM_INTERACTIVE=never", "SSH_ASKPASS=", "SSH_ASKPASS_REQUIRE=never",
}

// windows are where gpg would ask for the words of a key.
var windows = []string{"GPG_TTY", "DISPLAY", "WAYLAND_DISPLAY"}

// caller runs git for a landing in a folder.
func caller(dir string, environ []string) git.Caller {
	if environ == nil {
		environ = os.Environ()
	}
	var env []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !slices.Contains(ofRepository, name) && !slices.Contains(windows, name) {
			env = append(env, v)
		}
	}
	env = append(env, asksNobody...)
	return git.Caller{Dir: dir, Env: env, Gentle: true, With: []string{"advice.detachedHead=false", "color.ui=false", "diff.relative=false"}}
}

// batchSSH makes the user's ssh ask nothing, if it is OpenSSH by its name.
func batchSSH(ctx context.Context, g git.Caller) []string {
	command := "ssh"
	if own, err := g.Run(ctx, "config", "--get", "core.sshCommand"); err == nil {
		command = own
	}
	for _, v := range g.Env {
		if name, value, _ := strings.Cut(v, "="); name == "GIT_SSH_COMMAND" {
			command = value
		} else if name == "GIT_SSH" && value != "" {
			return nil
		}
	}
	if program, _, _ := strings.Cut(command, " "); filepath.Base(program) != "ssh" {
		return nil
	}
	return []string{"GIT_SSH_COMMAND=" + command + " -o BatchMode=yes"}
}
