//go:build linux

package torture

import (
	"context"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// Every worker has a cache of its own: to git they are as many machines, each
// with its clone of the branch.
var (
	gitFile = gitBackend("git", brief{modes: []Mode{Library}, bugs: []string{"no_compare"}}, func(_ testing.TB, remote string) string { return "git:" + remote })
	gitHTTP = gitBackend("git-http", brief{modes: []Mode{Binary}}, func(t testing.TB, remote string) string {
		s := httptest.NewServer(gitServer(t, remote))
		t.Cleanup(s.Close)
		return "git:" + s.URL + "/" + filepath.Base(remote)
	})
)

const gitPoll = 200 * time.Millisecond

func gitBackend(name string, short brief, url func(t testing.TB, remote string) string) backend {
	return backend{
		name: name, scheme: "git",
		open: func(ctx context.Context, url string) (driver.Store, error) {
			return gitstore.Open(ctx, strings.TrimPrefix(url, "git:"), &gitstore.Options{Create: true, Poll: gitPoll})
		},
		create: func(t testing.TB, dir string) string {
			remote := filepath.Join(dir, "remote.git")
			git(t, "", "init", "--quiet", "--bare", remote)
			git(t, remote, "config", "http.receivepack", "true")
			at := url(t, remote)
			st, err := gitstore.Open(t.Context(), strings.TrimPrefix(at, "git:"), &gitstore.Options{Create: true, Cache: filepath.Join(dir, "first")})
			if err == nil {
				err = st.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			return at
		},
		machine: func(dir string, n int) []string {
			return []string{"XDG_CACHE_HOME=" + filepath.Join(dir, "cache", strconv.Itoa(n)), "TASKLOCK_POLL_INTERVAL=" + gitPoll.String()}
		},
		damage: func(url, dir string) []string {
			var problems []string
			if out, err := exec.Command("git", "-C", filepath.Join(dir, "remote.git"), "fsck", "--strict", "--no-dangling").CombinedOutput(); err != nil {
				problems = append(problems, "git fsck: "+string(out))
			}
			r, err := gitstore.Inspect(context.Background(), strings.TrimPrefix(url, "git:"), &gitstore.Options{Cache: filepath.Join(dir, "first")})
			if err != nil {
				problems = append(problems, err.Error())
			}
			return append(problems, r.Problems...)
		},
		race:  raceGit,
		ttl:   5 * time.Second,
		brief: short,
	}
}

// raceGit: a commit takes tens of milliseconds when nobody is in the way, and
// eight clones are in each other's way all the time.
func raceGit(c *Config) {
	c.Processes, c.Rounds, c.Keys = 8, 3, 3
	c.TTL, c.Wait, c.Late = 5*time.Second, 3*time.Minute, 30*time.Second
	c.KillEvery, c.PauseEvery, c.Pause, c.Tries = 1500*time.Millisecond, 8*time.Second, 2*c.TTL, 10
	if full() { // each of the killed costs a commit to join, and one to be passed over
		c.long(contentionTime)
		c.Processes, c.Wait, c.Late = 16, 10*time.Minute, 2*time.Minute
		c.KillEvery, c.PauseEvery = 5*time.Second, 20*time.Second
	}
}

// gitServer serves a bare repository over smart HTTP, as git itself does it.
func gitServer(t testing.TB, remote string) *cgi.Handler {
	return &cgi.Handler{
		Path:       filepath.Join(git(t, "", "--exec-path"), "git-http-backend"),
		Env:        []string{"GIT_PROJECT_ROOT=" + filepath.Dir(remote), "GIT_HTTP_EXPORT_ALL=1"},
		InheritEnv: []string{"PATH", "HOME"}, Stderr: os.Stderr,
	}
}

// git runs git as a person would, in dir.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
