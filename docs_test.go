package tasklock_test

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/etcdtest"
	"github.com/tasklock/tasklock/internal/server"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

// TestDocs runs every ```console block of the README and of docs/ against the
// real command, so that no document can drift. The blocks of a document run in
// order, in one shell and one fresh folder, a project with an empty store:
//
//	$ command            is run; lines that begin with "> " continue it
//	expected output      stdout and stderr together; "…" stands for any text
//	[exit 6]             the exit code, where it is not 0
func TestDocs(t *testing.T) {
	long.NotShort(t) // builds the command
	bin := build(t)
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, _ := filepath.Glob("docs/*/*.md")
	ran := 0
	for _, doc := range append(append(docs, more...), "README.md") {
		steps := console(t, doc)
		ran += len(steps)
		if len(steps) > 0 {
			t.Run(doc, func(t *testing.T) {
				var env []string
				if start := servers[doc]; start != nil {
					env = start(t)
				}
				runDoc(t, bin, steps, env)
			})
		}
	}
	if ran == 0 {
		t.Fatal("no console block found in any document")
	}
}

// servers start what a document needs beside the command, and say where it is.
var servers = map[string]func(t *testing.T) (env []string){
	"docs/backends/etcd.md": func(t *testing.T) []string {
		return []string{"ETCD=" + strings.Join(etcdtest.Start(t, 1, "--unsafe-no-fsync").Addrs(), ",")}
	},
	"docs/backends/http.md": func(t *testing.T) []string {
		url, key := servePeers(t)
		return []string{"SERVER=" + url, "TASKLOCK_ACCESS_KEY=" + key}
	},
}

// servePeers starts a server over a new store, and returns its URL and the key of a
// peer.
func servePeers(t *testing.T) (url, key string) {
	t.Helper()
	d, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "tasklock.db"), &sqlitestore.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	st := store.New(d)
	added, err := access.Add(t.Context(), st, access.AddRequest{Role: access.Peer})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(st, server.Options{Peers: d})
	if err := s.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() { s.Stop(); h.Close(); _ = st.Close() })
	return h.URL, added.Secret
}

// build makes the command once for the tests of this package.
func build(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	cmd := exec.Command("go", "build", "-o", bin+"/", "./cmd/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// A step is one command of a document with what it should print.
type step struct {
	line    int
	command string
	want    string
	exit    int
}

var exitLine = regexp.MustCompile(`^\[exit (\d+)\]$`)

func console(t *testing.T, doc string) (steps []step) {
	t.Helper()
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for i, line := range strings.Split(string(text), "\n") {
		var last *step
		if len(steps) > 0 {
			last = &steps[len(steps)-1]
		}
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{line: i + 1, command: line[2:]})
		case last == nil:
			t.Fatalf("%s:%d: output before the first command", doc, i+1)
		case strings.HasPrefix(line, "> ") && last.want == "":
			last.command += "\n" + line[2:]
		case exitLine.MatchString(line):
			last.exit, _ = strconv.Atoi(exitLine.FindStringSubmatch(line)[1])
		default:
			last.want += line + "\n"
		}
	}
	return steps
}

func runDoc(t *testing.T, bin string, steps []step, env []string) {
	dir := t.TempDir()
	script := bytes.NewBufferString("tasklock init --quiet\n")
	for i, s := range steps {
		fmt.Fprintf(script, "printf '\\036%d\\n'\n%s\nprintf '\\037%%d\\n' $?\n", i, s.command)
	}
	sh := exec.Command("bash", "-c", script.String())
	sh.Dir = dir
	sh.Env = append(plainEnv(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir, "TASKLOCK_OWNER=me")
	sh.Env = append(sh.Env, env...)
	var out bytes.Buffer
	sh.Stdout, sh.Stderr = &out, &out
	sh.WaitDelay = 5 * time.Second
	if err := sh.Run(); err != nil {
		t.Log("shell:", err)
	}
	parts := strings.Split(out.String(), "\x1e")
	for i, s := range steps {
		if i+1 >= len(parts) {
			t.Errorf("line %d: not reached: %s", s.line, s.command)
			continue
		}
		got, code, _ := strings.Cut(strings.TrimPrefix(parts[i+1], strconv.Itoa(i)+"\n"), "\x1f")
		exit, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(code, "\n", 2)[0]))
		if !matches(s.want, got) || exit != s.exit {
			t.Errorf("line %d: $ %s\n--- printed (exit %d):\n%s--- documented (exit %d):\n%s", s.line, s.command, exit, got, s.exit, s.want)
		}
	}
}

// plainEnv is the environment without anything that tells who calls.
func plainEnv() (env []string) {
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case strings.HasPrefix(name, "TASKLOCK_"), strings.HasPrefix(name, "CLAUDE"), strings.HasPrefix(name, "CODEX"),
			name == "AI_AGENT", name == "CI", name == "PATH", name == "HOME", name == "XDG_CONFIG_HOME", name == "XDG_STATE_HOME":
		default:
			env = append(env, e)
		}
	}
	return env
}

// matches compares documented output, in which "…" stands for any text.
func matches(want, got string) bool {
	var pattern strings.Builder
	pattern.WriteString(`(?s)\A`)
	for i, part := range strings.Split(want, "…") {
		if i > 0 {
			pattern.WriteString(`.*?`)
		}
		pattern.WriteString(regexp.QuoteMeta(part))
	}
	pattern.WriteString(`\z`)
	return regexp.MustCompile(pattern.String()).MatchString(got)
}

// Every page can be reached from the README.
func TestDocsAreLinked(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"docs/*.md", "docs/backends/*.md"} {
		pages, _ := filepath.Glob(pattern)
		for _, page := range pages {
			if !bytes.Contains(readme, []byte("]("+filepath.ToSlash(page)+")")) {
				t.Errorf("README.md has no link to %s", page)
			}
		}
	}
}

// TestMatchesCanFail shows that a document that drifts is noticed.
func TestMatchesCanFail(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"a … c\n", "a b c\n", true},
		{"a … c\n", "a b d\n", false},
		{"", "", true},
		{"", "x\n", false},
		{"a\n", "a\nb\n", false},
	} {
		if matches(c.want, c.got) != c.ok {
			t.Errorf("matches(%q, %q) is not %v", c.want, c.got, c.ok)
		}
	}
}
