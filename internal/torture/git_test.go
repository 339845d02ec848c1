//go:build linux

package torture

import (
	"context"
	"fmt"
	"net/http"
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
	gitFile = gitBackend("git", brief{modes: []Mode{Library}, bugs: []string{"no_compare"}}, way{
		url: func(_ testing.TB, remote string) string { return remote },
	})
	gitHTTP = gitBackend("git-http", brief{modes: []Mode{Binary}}, way{
		url: func(t testing.TB, remote string) string {
			must(t, os.WriteFile(filepath.Join(filepath.Dir(remote), "password"), []byte("username=me\npassword=s3cret\n"), 0o600))
			return serveGit(t, remote, withPassword(gitServer(t, remote), "me", "s3cret"))
		},
		// It answers from a file and writes none, so a kill leaves no lock behind.
		login: func(dir string) []string {
			return helper(fmt.Sprintf("!f() { cat '%s'; }; f", filepath.Join(dir, "password")))
		},
	})
)

// A way is how git comes to a bare repository, which lies in the store's folder.
type way struct {
	url   func(t testing.TB, remote string) string
	login func(dir string) []string // variables by which git is let in; nil: nobody asks
}

// helper makes that the only credential helper of git, "" none at all.
func helper(program string) []string {
	return []string{
		"GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=credential.helper", "GIT_CONFIG_VALUE_0=",
		"GIT_CONFIG_KEY_1=credential.helper", "GIT_CONFIG_VALUE_1=" + program,
	}
}

const gitPoll = 200 * time.Millisecond

func gitBackend(name string, short brief, w way) backend {
	return backend{
		name: name, scheme: "git",
		open: func(ctx context.Context, url string) (driver.Store, error) {
			return gitstore.Open(ctx, strings.TrimPrefix(url, "git:"), &gitstore.Options{Create: true, Poll: gitPoll})
		},
		create: func(t testing.TB, dir string) string {
			remote := filepath.Join(dir, "remote.git")
			git(t, "", "init", "--quiet", "--bare", remote)
			git(t, remote, "config", "http.receivepack", "true")
			st, err := gitstore.Open(t.Context(), remote, &gitstore.Options{Create: true, Cache: filepath.Join(dir, "first")})
			if err == nil {
				err = st.Close()
			}
			must(t, err)
			return "git:" + w.url(t, remote)
		},
		machine: func(dir string, n int) []string {
			env := []string{"XDG_CACHE_HOME=" + filepath.Join(dir, "cache", strconv.Itoa(n)), "TASKLOCK_POLL_INTERVAL=" + gitPoll.String()}
			if w.login != nil {
				env = append(env, w.login(dir)...)
			}
			return env
		},
		damage: func(_, dir string) []string {
			var problems []string
			remote := filepath.Join(dir, "remote.git")
			if out, err := exec.Command("git", "-C", remote, "fsck", "--strict", "--no-dangling").CombinedOutput(); err != nil {
				problems = append(problems, "git fsck: "+string(out))
			}
			r, err := gitstore.Inspect(context.Background(), remote, &gitstore.Options{Cache: filepath.Join(dir, "first")})
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

// serveGit returns the URL at which a handler serves the repository.
func serveGit(t testing.TB, remote string, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/" + filepath.Base(remote)
}

// withPassword lets in who has it.
func withPassword(h http.Handler, user, password string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); ok && u == user && p == password {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "no", http.StatusUnauthorized)
	})
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
