//go:build linux

package shellwrites

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/repo"
)

// A command is judged before a person has allowed it, in whichever repository it
// names: nothing that this repository's configuration names may run.
func TestAskGitRunsNothingOfTheRepository(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	hostile, ran := filepath.Join(dir, "repo"), filepath.Join(dir, "ran")
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$*\" >>'"+ran+"'\ncat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	sh := func(script string) {
		cmd := bash(hostile, dir, "set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a P="+program+"\n"+script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %s%v", script, out, err)
		}
	}
	if err := os.Mkdir(hostile, 0o700); err != nil {
		t.Fatal(err)
	}
	sh(`git init -q -b main; echo '* filter=x diff=x' >.gitattributes; echo a >a; echo b >b; git add .; git commit -qm 1
git checkout -q -b other; echo c >a; git commit -qam 2
printf 'tree %s\nparent %s\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n3\n' "$(git rev-parse HEAD^{tree})" "$(git rev-parse main)" >../commit
git update-ref refs/heads/signed "$(git hash-object -t commit -w ../commit)"
git checkout -q main; echo more >>a`)
	for setting, value := range map[string]string{
		"filter.x.clean": "$P", "filter.x.process": "$P", "filter.x.smudge": "$P", "core.fsmonitor": "$P", "core.hooksPath": "$PWD/..", "diff.external": "$P",
		"diff.x.textconv": "$P", "diff.x.command": "$P", "core.pager": "$P", "gpg.program": "$P", "log.showSignature": "true", "alias.x": "!$P",
	} {
		sh("git config " + setting + ` "` + value + `"`)
	}
	for line := range strings.Lines(`git checkout .
git stash
git reset --hard
git checkout -f other
git read-tree -u --reset other
git restore a
git cherry-pick signed
git revert other
git merge other
git clean -fdx
git rm a
git x
git ls-files -m | xargs rm
git diff --name-only --textconv -Gmore | xargs rm
git diff --name-only --textc -Gmore | xargs rm
git diff --name-only --outpu=written | xargs rm
`) {
		r := Read(strings.TrimSpace(line), hostile, View{Git: AskGit(context.Background(), time.Minute), Time: time.Minute})
		if by, err := os.ReadFile(ran); err == nil {
			t.Errorf("%s: the repository's program ran: %s", strings.TrimSpace(line), by)
			_ = os.Remove(ran)
		}
		if repo.Exists(filepath.Join(hostile, "written")) {
			t.Fatalf("%s: git wrote a file", line)
		}
		if len(r.Targets) == 0 && !strings.HasPrefix(line, "git x") && !strings.HasPrefix(line, "git clean") && !strings.Contains(line, "-Gmore") {
			t.Errorf("%s: nothing is known", line)
		}
	}
	sh(`git config "filter.x=y.clean" "$P"; echo '* filter=x=y' >.gitattributes`)
	if r := Read("git checkout .", hostile, View{Git: AskGit(context.Background(), time.Minute), Time: time.Minute}); len(r.Targets) != 1 || !r.Targets[0].Tree {
		t.Errorf("a filter that cannot be switched off: %v", r.Targets)
	}
	if by, err := os.ReadFile(ran); err == nil {
		t.Errorf("the repository's program ran: %s", by)
	}
}
