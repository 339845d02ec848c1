package landing

import (
	"errors"
	"slices"
	"testing"

	"github.com/tasklock/tasklock/internal/git"
)

// What the remote or a hook says about a push becomes one line, without git's hints.
func TestRefusal(t *testing.T) {
	for _, c := range []struct{ out, said, want string }{
		{
			"To ../remote.git\n!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)\nDone", "remote: frozen until Monday        \nerror: failed to push some refs to '../remote.git'",
			"[remote rejected] (pre-receive hook declined); frozen until Monday",
		},
		{"", "no commits on a Friday\nerror: failed to push some refs to 'x'\nhint: see\n", "no commits on a Friday"},
		{"", "", "git push: exit status 1"},
	} {
		if got := refusal(c.out, &git.Error{Verb: "push", Said: c.said, Err: errors.New("exit status 1")}); got != c.want {
			t.Errorf("%q %q: %q, want %q", c.out, c.said, got, c.want)
		}
	}
}

// A remote that does not answer has a reason, before git's advice.
func TestWithCause(t *testing.T) {
	err := withCause(&git.Error{Verb: "fetch", Said: "me@host: Permission denied (publickey).\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists."})
	if want := "git fetch: me@host: Permission denied (publickey).; fatal: Could not read from remote repository."; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// A checkout that git refuses names the files that are in its way.
func TestRefusedCheckout(t *testing.T) {
	err := refused(&git.Error{Verb: "checkout", Said: "error: The following untracked working tree files would be overwritten by checkout:\n\ta\n\tb c\nPlease move them.\nAborting"})
	e := (*NotReadyError)(nil)
	if !errors.As(err, &e) || !slices.Equal(e.Files, []string{"a", "b c"}) || e.Why == "" {
		t.Errorf("%v", err)
	}
}

// The user's way to call ssh stays, and asks nothing.
func TestBatchSSH(t *testing.T) {
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, c := range []struct {
		env  []string
		want []string
	}{
		{nil, []string{"GIT_SSH_COMMAND=ssh -o BatchMode=yes"}},
		{[]string{"GIT_SSH_COMMAND=/usr/bin/ssh -i key"}, []string{"GIT_SSH_COMMAND=/usr/bin/ssh -i key -o BatchMode=yes"}},
		{[]string{"GIT_SSH_COMMAND=plink -batch"}, nil},
		{[]string{"GIT_SSH=/opt/wrapper"}, nil},
		{[]string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.sshCommand", "GIT_CONFIG_VALUE_0=ssh -p 22"}, []string{"GIT_SSH_COMMAND=ssh -p 22 -o BatchMode=yes"}},
	} {
		g := caller(t.TempDir(), append(c.env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"))
		if got := batchSSH(t.Context(), g); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.env, got, c.want)
		}
	}
}

// git gets nothing that belongs to another repository, and nothing that opens a window.
func TestCallerEnvironment(t *testing.T) {
	g := caller(t.TempDir(), []string{"GIT_DIR=/x", "GIT_INDEX_FILE=/y", "DISPLAY=:0", "GPG_TTY=/dev/pts/1", "GIT_EDITOR=vi", "GIT_AUTHOR_NAME=a", "LC_ALL=de_AT"})
	last := map[string]string{}
	for _, v := range g.Env {
		for i := range v {
			if v[i] == '=' {
				last[v[:i]] = v[i+1:]
				break
			}
		}
	}
	for name, want := range map[string]string{"GIT_DIR": "", "GIT_INDEX_FILE": "", "DISPLAY": "", "GPG_TTY": "", "GIT_EDITOR": ":", "GIT_AUTHOR_NAME": "a", "GIT_TERMINAL_PROMPT": "0"} {
		if last[name] != want {
			t.Errorf("%s=%s, want %q", name, last[name], want)
		}
	}
}
