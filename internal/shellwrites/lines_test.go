//go:build linux

package shellwrites

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

//go:embed testdata/lines.txt
var table string

//go:embed testdata/scratch.sh
var scratch string

// line is one command of the table, with what is said of it there.
type line struct {
	number int
	kind   string // "w" it writes, "r" it only reads, "p" it is known to pass, "o" more is denied than it writes
	why    string
	script string
}

func lines300(t *testing.T) (out []line) {
	for i, text := range strings.Split(table, "\n") {
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		kind, rest, _ := strings.Cut(text, " ")
		l := line{number: i + 1, kind: kind, script: strings.TrimSpace(rest)}
		if kind == "p" || kind == "o" {
			why, script, ok := strings.Cut(l.script, " :: ")
			if l.why, l.script = why, script; !ok {
				t.Fatalf("line %d has no reason", l.number)
			}
		}
		l.script = strings.ReplaceAll(l.script, "⏎", "\n")
		out = append(out, l)
	}
	return out
}

// TestLinesByExecution runs every line of the table in a copy of a repository and
// compares what really changed with what the reader says. A line that only reads
// is never denied; of one that writes each file is found, and no other.
func TestLinesByExecution(t *testing.T) {
	long.NotShort(t) // runs some thousand processes
	for _, tool := range []string{"bash", "git", "sed", "awk", "perl", "python3", "node", "patch", "vim", "ed", "tar", "zip", "unzip", "sqlite3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v; type: scripts/need %s", err, tool)
		}
	}
	root := t.TempDir()
	template := filepath.Join(root, "template")
	if err := os.Mkdir(template, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := bash(template, template, scratch).CombinedOutput(); err != nil {
		t.Fatalf("the scratch repository: %v\n%s", err, out)
	}
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(template, "gitconfig"))
	counts := map[string]int{}
	work := make(chan line)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for l := range work {
				l.try(t, template, filepath.Join(root, fmt.Sprint(l.number)))
			}
		})
	}
	for _, l := range lines300(t) {
		counts[l.kind]++
		work <- l
	}
	close(work)
	wg.Wait()
	t.Log(counts)
	if counts["w"] < 180 || counts["r"] < 100 || counts["w"]+counts["r"]+counts["p"]+counts["o"] < 300 {
		t.Errorf("the table has become short: %v", counts)
	}
}

func bash(dir, home, script string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = dir
	cmd.Cancel = func() error { cancel(); return cmd.Process.Kill() }
	cmd.Env = append(os.Environ(), "HOME="+home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+filepath.Join(home, "gitconfig"), "VIMINIT=", "TERM=dumb", "D=", "LC_ALL=C.UTF-8")
	return cmd
}

// try runs one line in its own copy.
func (l line) try(t *testing.T, template, copied string) {
	if out, err := exec.Command("cp", "-a", template, copied).CombinedOutput(); err != nil {
		t.Errorf("cp: %v %s", err, out)
		return
	}
	defer func() { _ = os.RemoveAll(copied) }()
	dir := filepath.Join(copied, "repo")
	env := func(name string) string {
		if name == "HOME" {
			return copied
		}
		return ""
	}
	got := Read(l.script, dir, View{Env: env, Git: AskGit(context.Background(), time.Minute), Time: time.Minute})
	for i, t := range got.Targets {
		got.Targets[i].Path = resolved(t)
	}
	before := snapshot(copied)
	cmd := bash(dir, copied, l.script)
	said, _ := cmd.CombinedOutput()
	after := snapshot(copied)
	var changed, missed, over []string
	for path := range union(before, after) {
		switch is := before[path] != after[path]; {
		case is:
			changed = append(changed, path)
			if !covered(got.Targets, copied, path, before[path] == "dir" || after[path] == "dir") {
				missed = append(missed, path)
			}
		case before[path] != "dir" && covered(got.Targets, copied, path, false):
			over = append(over, path)
		}
	}
	fail := func(what string, paths []string) {
		t.Errorf("line %d (%s): %s\n%s: %v\nwrites: %v\nread as: %v\nunsure: %s\nsaid: %.300s", l.number, l.kind, l.script, what, paths, changed, show(got.Targets, copied), got.Unsure, bytes.TrimSpace(said))
	}
	switch {
	case l.kind == "r" && len(changed) > 0:
		fail("it does write", changed)
	case l.kind == "r" && (len(over) > 0 || inRepo(got.Targets, dir)):
		fail("a line that only reads is denied", over)
	case l.kind != "r" && len(changed) == 0:
		fail("it writes nothing", nil)
	case (l.kind == "w" || l.kind == "o") && len(missed) > 0:
		fail("passes", missed)
	case (l.kind == "w" || l.kind == "p") && len(over) > 0:
		fail("denies also", over)
	case l.kind == "p" && len(missed) == 0:
		fail("does not pass any more: make it w", nil)
	case l.kind == "o" && len(over) == 0:
		fail("is exact now: make it w", nil)
	}
}

func inRepo(targets []Target, dir string) bool {
	for _, t := range targets {
		if strings.HasPrefix(t.Path, dir+"/") {
			return true
		}
	}
	return false
}

func show(targets []Target, root string) (out []string) {
	for _, t := range targets {
		p := strings.TrimPrefix(t.Path, root+"/")
		for what, is := range map[string]bool{"tree": t.Tree, "glob": t.Pattern, "gone": t.Gone} {
			if is {
				p = what + ":" + p
			}
		}
		out = append(out, p)
	}
	return out
}

func union(a, b map[string]string) map[string]bool {
	out := map[string]bool{}
	for p := range a {
		out[p] = true
	}
	for p := range b {
		out[p] = true
	}
	return out
}

// covered reports whether one of the targets means a path. A folder that is made
// or removed is meant by whatever is in it.
func covered(targets []Target, root, path string, dir bool) bool {
	full := filepath.Join(root, path)
	for _, t := range targets {
		at := t.Path
		switch {
		case at == full, t.Tree && strings.HasPrefix(full, at+"/"), dir && strings.HasPrefix(at, full+"/"):
			return true
		case t.Pattern:
			expr := regexp.QuoteMeta(at)
			expr = strings.NewReplacer(`\*\*`, ".*", `\*`, "[^/]*", `\?`, "[^/]").Replace(expr)
			if t.Tree {
				expr += "(/.*)?"
			}
			if regexp.MustCompile("^" + expr + "$").MatchString(full) {
				return true
			}
		}
	}
	return false
}

// resolved is where a target leads, as long as links are as they are now.
func resolved(t Target) string {
	if t.Pattern {
		return t.Path
	}
	at := t.Path
	if real, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil {
		at = filepath.Join(real, filepath.Base(at))
	}
	if link, err := os.Readlink(at); err == nil && !t.Gone {
		return filepath.Join(filepath.Dir(at), link)
	}
	return at
}

// snapshot is what is there: contents, modes and times, git's own files left out.
func snapshot(root string) map[string]string {
	out := map[string]string{}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		rel, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "origin.git" || d.Name() == ".config"), d.Name() == ".viminfo", d.Name() == ".node_repl_history":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			out[rel] = "dir"
		default:
			fi, err := d.Info()
			if err != nil {
				return nil
			}
			link, _ := os.Readlink(path)
			var body []byte
			if link == "" {
				body, _ = os.ReadFile(path)
			}
			out[rel] = fmt.Sprintf("%s %s %s %x", fi.Mode(), fi.ModTime().UTC(), link, sha256.Sum256(body))
		}
		return nil
	})
	return out
}
