package gitstore_test

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// What the forge's web page shows.
func TestReadableOnTheForge(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	s := open(t, remote)
	commit(t, s, driver.Batch{
		Writes: put("lock/1.0-parse-tokens", `{"key":"1.0-parse-tokens","owner":"ci-7"}`).Writes,
		Note:   "ci-7 acquired 1.0-parse-tokens\nTasklock-Revision: 99\n\x1b[2J",
	})
	if files := git(t, remote, "ls-tree", "-r", "--name-only", "tasklock"); files != "README.md\nlock/1.0-parse-tokens.yaml\ntasklock.yaml" {
		t.Errorf("the branch holds:\n%s", files)
	}
	var file struct {
		Key   string
		Rev   int
		Value struct{ Owner string }
	}
	must(t, yaml.Unmarshal([]byte(git(t, remote, "show", "tasklock:lock/1.0-parse-tokens.yaml")), &file))
	if file.Key != "lock/1.0-parse-tokens" || file.Rev != 2 || file.Value.Owner != "ci-7" {
		t.Errorf("%+v", file)
	}
	message := git(t, remote, "log", "-1", "--format=%B", "tasklock")
	if !strings.HasPrefix(message, "ci-7 acquired 1.0-parse-tokens\n\nTasklock-Revision: 2\n") || strings.Contains(message, "Revision: 99") {
		t.Errorf("the message is:\n%s", message)
	}
	if out := git(t, remote, "fsck", "--strict"); strings.Contains(out, "error") {
		t.Error(out)
	}
	// An orphan: it has nothing of the project's history.
	if n := git(t, remote, "rev-list", "--count", "--max-parents=0", "tasklock"); n != "1" {
		t.Errorf("%s roots", n)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	without := func(o *gitstore.Options) { o.Create = false }
	if _, err := tryOpen(t, remote, without); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("no branch: %v", err)
	}
	if _, err := tryOpen(t, filepath.Join(remote, "nothing"), without); err == nil || driver.Refusal(err) {
		t.Errorf("no repository: %v", err)
	}
	open(t, remote)
	if _, err := tryOpen(t, remote, without); err != nil {
		t.Errorf("after it was made: %v", err)
	}
	if _, err := tryOpen(t, remote+"#other", without); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("another branch: %v", err)
	}
	if _, err := tryOpen(t, remote+"#main"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("main: %v", err)
	}
}

// A hook or a rule of the server says no: that is an answer, with its words.
func TestRefusedPush(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	s := open(t, remote)
	commit(t, s, put("lock/a", `{}`))
	hook := filepath.Join(remote, "hooks", "pre-receive")
	write(t, hook, "#!/bin/sh\nprintf 'branch is \\033[31mfrozen\\n' >&2\nexit 1\n")
	must(t, os.Chmod(hook, 0o755))
	_, err := s.Commit(t.Context(), put("lock/b", `{}`))
	if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "frozen") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("Commit: %q", err)
	}
	if err := s.Compact(t.Context()); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("Compact: %v", err)
	}
	if r := get(t, s, "lock/a"); r.Rev == 0 {
		t.Error("reading does not work")
	}
	if _, err := tryOpen(t, remote+"#new"); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("Create: %v", err)
	}
	must(t, os.Remove(hook))
	commit(t, s, put("lock/b", `{}`))
}

// A refusal does not answer an earlier push of the same call, whose answer was
// lost: that one may yet arrive.
func TestRefusedAfterLostAnswer(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	s := open(t, remote)
	commit(t, s, put("lock/a", `{}`))
	hook, once := filepath.Join(remote, "hooks", "pre-receive"), filepath.Join(t.TempDir(), "once")
	write(t, hook, "#!/bin/sh\nif mkdir "+once+" 2>/dev/null; then kill -9 $PPID; fi\necho frozen >&2\nexit 1\n")
	must(t, os.Chmod(hook, 0o755))
	_, err := s.Commit(t.Context(), put("lock/b", `{}`))
	if !sameClass(err, nil) || errors.Is(err, driver.ErrUntouched) || !strings.Contains(err.Error(), "frozen") {
		t.Errorf("the first push had no answer: %v", err)
	}
	_, err = s.Commit(t.Context(), put("lock/b", `{}`))
	if !errors.Is(err, driver.ErrDenied) {
		t.Errorf("the only push was refused: %v", err)
	}
}

// The user's repository may be anything: it is read for a URL and no more.
func TestHostileWorkTree(t *testing.T) {
	remote, mark := newRemote(t), filepath.Join(t.TempDir(), "ran")
	tree := filepath.Join(t.TempDir(), "tree")
	git(t, "", "clone", "--quiet", remote, tree)
	git(t, tree, "commit", "--quiet", "--allow-empty", "-m", "x")
	script := filepath.Join(tree, "evil.sh")
	write(t, script, "#!/bin/sh\necho \"$0 $*\" >>"+mark+"\nexit 1\n")
	must(t, os.Chmod(script, 0o755))
	for _, hook := range []string{"pre-push", "post-commit", "reference-transaction", "pre-commit"} {
		must(t, os.CopyFS(filepath.Join(tree, ".git/hooks2"), os.DirFS(t.TempDir())))
		write(t, filepath.Join(tree, ".git/hooks", hook), "#!/bin/sh\n"+script+"\n")
		must(t, os.Chmod(filepath.Join(tree, ".git/hooks", hook), 0o755))
	}
	head := git(t, tree, "rev-parse", "HEAD")
	for key, value := range map[string]string{
		"core.fsmonitor": script, "core.hooksPath": filepath.Join(tree, ".git/hooks"), "core.sshCommand": script, "core.askPass": script,
		"credential.helper": "!" + script, "commit.gpgsign": "true", "gpg.program": script, "push.gpgSign": "true", "core.pager": script,
		"url./nowhere/.insteadOf": remote, "remote.origin.uploadpack": script, "remote.origin.receivepack": script, "alias.fetch": "!" + script,
		"core.editor": script, "diff.external": script, "uploadpack.packObjectsHook": script, "core.gitProxy": script,
	} {
		git(t, tree, "config", key, value)
	}
	config, err := os.ReadFile(filepath.Join(tree, ".git/config"))
	must(t, err)
	// As if called from one of its hooks.
	t.Setenv("GIT_DIR", filepath.Join(tree, ".git"))
	t.Setenv("GIT_WORK_TREE", tree)
	t.Setenv("GIT_INDEX_FILE", filepath.Join(tree, ".git/index"))
	t.Setenv("GIT_OBJECT_DIRECTORY", filepath.Join(tree, ".git/objects"))
	t.Setenv("GIT_TRACE", "1")
	t.Chdir(tree)
	s, err := tryOpen(t, "origin", func(o *gitstore.Options) { o.Dir = tree })
	must(t, err)
	commit(t, s, put("lock/a", `{"n":1}`))
	if r := get(t, s, "lock/a"); string(r.Value) != `{"n":1}` {
		t.Errorf("read %v", r)
	}
	must(t, s.Compact(t.Context()))
	os.Unsetenv("GIT_DIR")
	os.Unsetenv("GIT_WORK_TREE")
	os.Unsetenv("GIT_INDEX_FILE")
	os.Unsetenv("GIT_OBJECT_DIRECTORY")
	os.Unsetenv("GIT_TRACE")
	if ran, err := os.ReadFile(mark); err == nil {
		t.Errorf("it ran:\n%s", ran)
	}
	now, err := os.ReadFile(filepath.Join(tree, ".git/config"))
	if err != nil || string(now) != string(config) {
		t.Errorf("the configuration changed: %v", err)
	}
	must(t, os.Remove(filepath.Join(tree, ".git/config")))
	if at := git(t, tree, "rev-parse", "HEAD"); at != head {
		t.Errorf("HEAD went from %s to %s", head, at)
	}
	if refs := git(t, tree, "for-each-ref", "--format=%(refname)"); strings.Contains(refs, "tasklock") {
		t.Errorf("references: %s", refs)
	}

	// A remote in the configuration is checked like any other.
	git(t, tree, "config", "remote.bad.url", "ext::"+script)
	if _, err := tryOpen(t, "bad", func(o *gitstore.Options) { o.Dir = tree }); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("remote ext::…: %v", err)
	}
}

func TestCompact(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	remote := newRemote(t)
	s := open(t, remote, func(o *gitstore.Options) { o.CompactAfter = 6 })
	other := open(t, remote)
	history := func() int {
		n, err := strconv.Atoi(git(t, remote, "rev-list", "--count", "tasklock"))
		must(t, err)
		return n
	}
	last := int64(0)
	for i := range 16 { // some by one who does not compact
		h := s
		if i%3 == 0 {
			h = other
		}
		rev := commit(t, h, put(fmt.Sprintf("lock/%d", i), `{}`))
		if rev != last+1 && last > 0 {
			t.Errorf("revision %d after %d", rev, last)
		}
		last = rev
		if n := history(); n > 9 {
			t.Fatalf("%d commits", n)
		}
	}
	must(t, other.Compact(t.Context()))
	if n := history(); n != 1 {
		t.Errorf("%d commits after Compact", n)
	}
	for _, h := range []*gitstore.Store{s, other, open(t, remote)} {
		snap, err := h.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "lock/"}}})
		if err != nil || len(snap.Records) != 16 || snap.Rev != last {
			t.Errorf("%d records at %d, %v", len(snap.Records), snap.Rev, err)
		}
	}
	if rev := commit(t, s, put("lock/0", `{}`)); rev != last+1 {
		t.Errorf("revision %d after %d", rev, last)
	}
}

// Where a forced push is forbidden the history grows, and the store works.
func TestCompactRefused(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	git(t, remote, "config", "receive.denyNonFastForwards", "true")
	s := open(t, remote, func(o *gitstore.Options) { o.CompactAfter = 2 })
	for i := range 4 {
		commit(t, s, put(fmt.Sprintf("lock/%d", i), `{}`))
	}
	if n := git(t, remote, "rev-list", "--count", "tasklock"); n != "5" {
		t.Errorf("%s commits", n)
	}
	if err := s.Compact(t.Context()); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("Compact: %v", err)
	}
}

// The cache stays small however long the store is used.
func TestCacheIsTidied(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	remote, cache := newRemote(t), t.TempDir()
	s := open(t, remote, func(o *gitstore.Options) { o.Cache, o.CompactAfter = cache, 20 })
	rounds := 40
	if torture() {
		rounds = 2000
	}
	for i := range rounds {
		var b driver.Batch
		for j := range 30 {
			b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("lease/%d", j), Value: []byte(fmt.Sprintf(`{"n":%d}`, i))})
		}
		commit(t, s, b)
	}
	must(t, s.Close())
	packs, err := filepath.Glob(filepath.Join(cache, "*/repo/objects/pack/*"))
	if err != nil || len(packs) > 70 {
		t.Errorf("%d packs in the cache, %v", len(packs), err)
	}
	again := open(t, remote, func(o *gitstore.Options) { o.Cache = cache })
	if r := get(t, again, "lease/0"); string(r.Value) != fmt.Sprintf(`{"n":%d}`, rounds-1) {
		t.Errorf("read %v", r)
	}
}

// A remote on this machine is packed when it has become crowded, though few pushes look
// whether it has.
func TestRemoteIsTidied(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	remote := newRemote(t)
	git(t, remote, "config", "gc.auto", "1")
	git(t, remote, "config", "gc.autoDetach", "false")
	for n, found := 0, 0; found < 2; n++ { // git counts the objects of which the name begins with 17
		text := fmt.Sprint(n)
		if sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text)); sum[0] == 0x17 {
			gitInput(t, remote, text, "hash-object", "-w", "--stdin")
			found++
		}
	}
	packs := func() int {
		list, err := filepath.Glob(filepath.Join(remote, "objects/pack/*.pack"))
		must(t, err)
		return len(list)
	}
	s := open(t, remote)
	for i := range 40 {
		commit(t, s, put("lock/a", fmt.Sprintf(`{"n":%d}`, i)))
		if i == 5 && packs() > 0 {
			t.Error("every push packs the remote")
		}
	}
	if packs() == 0 {
		t.Error("no push has packed the remote")
	}
}

// A kind with very many records is spread over folders, and looks the same.
func TestLargeKind(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	s := open(t, remote)
	var b driver.Batch
	for i := range 1500 {
		b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("event/%06d", i), Value: []byte(`{}`)})
	}
	commit(t, s, b)
	commit(t, s, driver.Batch{Writes: []driver.Write{{Key: "event/000007"}, {Key: "event/000008", Value: []byte(`{"n":1}`)}, {Key: "event/x", Value: []byte(`{}`)}}})
	other := open(t, remote)
	snap, err := other.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "event/"}, {Prefix: "event/", Limit: -1}}})
	if err != nil || len(snap.Records) != 1501 || snap.Records[1500].Key != "event/x" || string(snap.Records[7].Value) != `{"n":1}` {
		t.Errorf("%d records, %v", len(snap.Records), err)
	}
	if files := git(t, remote, "ls-tree", "--name-only", "tasklock:event"); strings.Count(files, "\n") > 255 {
		t.Errorf("%d names in the folder", strings.Count(files, "\n")+1)
	}
}

// To a machine that sees a record late it is as old as its writer says, less
// the allowance for clocks.
func TestAges(t *testing.T) {
	t.Parallel()
	remote, cache := newRemote(t), t.TempDir()
	s := open(t, remote)
	commit(t, s, put("lock/a", `{}`))
	with := func(o *gitstore.Options) { o.Cache = cache }
	late := open(t, remote, with)
	age := func(s driver.Store) time.Duration {
		snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
		must(t, err)
		return snap.Now.Sub(snap.Records[0].Time)
	}
	first := age(late)
	time.Sleep(100 * time.Millisecond)
	commit(t, s, put("lock/b", `{}`))                               // the other record's age is not touched
	for _, h := range []driver.Store{late, open(t, remote, with)} { // the cache remembers
		if now := age(h); now < first+100*time.Millisecond || now > first+time.Minute {
			t.Errorf("age %v, then %v", first, now)
		}
	}

	old := time.Now().Add(-time.Hour).UTC()
	edit(t, remote, func(dir string) {
		path := filepath.Join(dir, "lock/a.yaml")
		text, err := os.ReadFile(path)
		must(t, err)
		lines := strings.Split(string(text), "\n")
		lines[2] = "written: " + old.Format(time.RFC3339Nano)
		write(t, path, strings.Join(lines, "\n"))
	})
	if now := age(open(t, remote)); now < 57*time.Minute || now > 59*time.Minute {
		t.Errorf("written an hour ago, age %v", now)
	}
}

func TestCachedNeverSeen(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	s := open(t, remote)
	commit(t, s, put("lock/a", `{}`))
	must(t, os.Rename(remote, remote+".away"))
	snap, at, err := s.Cached(t.Context(), driver.Query{Ranges: []driver.Range{{}}})
	if err != nil || len(snap.Records) != 1 || time.Since(at) > time.Minute {
		t.Errorf("%v as of %v, %v", snap, at, err)
	}
	if _, err := s.Read(t.Context(), driver.Query{}); err == nil || driver.Refusal(err) {
		t.Errorf("Read: %v", err)
	}
	if _, err := s.Commit(t.Context(), put("lock/a", `{}`)); err == nil || driver.Refusal(err) || errors.Is(err, driver.ErrConflict) {
		t.Errorf("Commit: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Wait(ctx, []driver.Guard{{Key: "lock/x"}}); err == nil || ctx.Err() != nil {
		t.Errorf("Wait: %v", err)
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	o := &gitstore.Options{Cache: t.TempDir()}
	if _, err := gitstore.Inspect(t.Context(), remote, o); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("no branch: %v", err)
	}
	s := open(t, remote)
	commit(t, s, driver.Batch{Writes: []driver.Write{{Key: "lock/a", Value: []byte(`{}`)}, {Key: "lock/b", Value: []byte(`{}`)}}})
	r, err := gitstore.Inspect(t.Context(), remote, o)
	if err != nil || !strings.HasSuffix(r.Facts, ", revision 2, 2 records, history of 2 commits") || len(r.Problems) != 0 {
		t.Errorf("%+v %v", r, err)
	}
	edit(t, remote, func(dir string) { write(t, filepath.Join(dir, "lock/a.yaml"), "x") })
	r, err = gitstore.Inspect(t.Context(), remote, &gitstore.Options{Cache: t.TempDir()})
	if err != nil || !strings.Contains(r.Facts, ", 1 records") || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "lock/a.yaml") {
		t.Errorf("%+v %v", r, err)
	}
}

// A repository with the longer object ids.
func TestSHA256(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "remote.git")
	git(t, "", "init", "--quiet", "--bare", "--object-format=sha256", dir)
	empty := gitInput(t, dir, "", "mktree")
	first := git(t, dir, "commit-tree", empty, "-m", "x")
	git(t, dir, "update-ref", "refs/heads/main", first)
	s := open(t, dir)
	commit(t, s, put("lock/a", `{"n":1}`))
	if r := get(t, open(t, dir), "lock/a"); string(r.Value) != `{"n":1}` {
		t.Errorf("read %v", r)
	}
}

// The user's way to reach a host through ssh is used, in both spellings.
func TestSSH(t *testing.T) {
	remote := newRemote(t)
	ssh := filepath.Join(t.TempDir(), "ssh")
	write(t, ssh, "#!/bin/sh\nfor last; do :; done\necho \"$*\" >>"+ssh+".log\nexec sh -c \"$last\"\n")
	must(t, os.Chmod(ssh, 0o755))
	t.Setenv("GIT_SSH", ssh)
	t.Setenv("GIT_SSH_VARIANT", "ssh")
	commit(t, open(t, "git@example.com:"+remote), put("lock/a", `{"n":1}`))
	if r := get(t, open(t, "ssh://git@example.com"+remote), "lock/a"); string(r.Value) != `{"n":1}` {
		t.Errorf("read %v", r)
	}
	if log, err := os.ReadFile(ssh + ".log"); err != nil || !strings.Contains(string(log), "git@example.com git-receive-pack") {
		t.Errorf("ssh was called with:\n%s%v", log, err)
	}
}
