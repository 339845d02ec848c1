// Package shellwrites tells which files a command line of a shell would write,
// without running it.
//
// # Guarantee
//
// A command that only reads has no targets. The package runs no program but git, and
// asks git only what changes nothing and needs no other machine. It limits time, memory
// and depth for every command.
//
// # Limit
//
// It is a careful guess. It leaves out what only the running command knows: a
// variable from elsewhere, the output of most programs, the files that a program writes
// without naming them on its command line. testdata/lines.txt lists such commands.
//
// # Failure
//
// Reading ends at the first part that cannot be read; [Result.Unsure] says why.
package shellwrites

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/repo"
)

// A Target is something that is about to be written or removed.
type Target struct {
	Path    string // absolute
	Pattern bool   // Path has wildcards: *, ?, **
	Tree    bool   // with everything below it
	There   bool   // only files that exist already: find -delete
	Gone    bool   // the command removes it, with everything in it: rm -r, mv, git clean -x
}

// Result is what a command line would do.
type Result struct {
	Targets []Target
	Calls   [][]string // the arguments of each tasklock command in it
	Unsure  string     // why a part of it could not be read; empty: all was
}

// A View is what the reader may ask about the world beside the files.
type View struct {
	// Env is a variable of the shell's environment, empty if it has none.
	Env func(name string) string
	// Git runs git in a folder, with arguments that change nothing, and returns
	// what it prints. Its error says [ErrSlow] if git took too long. Nil: there is no git.
	Git func(dir string, args ...string) (string, error)
	// Time limits how long the reader looks for files; 0: 50 ms.
	Time time.Duration
}

// The limits for one command line. Those of texts are bytes.
const (
	maxText    = 128 << 10 // the command line
	maxTargets = 1000
	maxSteps   = 20_000   // commands; one in a loop counts each time
	maxRoom    = 4 << 20  // all text that replaces variables
	maxValue   = 16 << 10 // one variable
	maxFields  = 2000     // words of a command
	maxTurns   = 300      // of a loop
	maxDepth   = 12       // scripts, functions and substitutions inside each other
	maxFile    = 64 << 10 // a file that is read
)

// Read tells what a command line would write if it ran in dir.
func Read(script, dir string, v View) (result Result) {
	if v.Env == nil {
		v.Env = os.Getenv
	}
	if v.Time == 0 {
		v.Time = 50 * time.Millisecond
	}
	r := &reader{view: v, room: maxRoom, seen: map[Target]bool{}, until: time.Now().Add(v.Time)}
	if len(script) > maxText {
		script = script[:maxText]
		r.unsure("the command is longer than 128 KB")
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	s := &shell{r: r, dir: dir, vars: variables{}, funcs: functions{}, in: unknown}
	defer func() {
		if fault := recover(); fault != nil { // in the parser, for example: what was found before it counts
			r.Unsure = fmt.Sprintf("%s%v", faulty, fault)
			result = r.Result
		}
	}()
	s.script(script)
	return r.Result
}

// faulty begins [Result.Unsure] if a command broke the reader.
const faulty = "a fault in reading the command: "

// reader is what all shells of one command line share.
type reader struct {
	Result
	view  View
	steps int
	room  int
	depth int
	seen  map[Target]bool
	procs []string        // the outputs of <(…)
	there map[string]bool // patterns of files that are there
	until time.Time
}

func (r *reader) unsure(why string) {
	if r.Unsure == "" {
		r.Unsure = why
	}
}

// over reports whether a limit is reached.
func (r *reader) over() bool {
	if r.steps > maxSteps || len(r.Targets) >= maxTargets {
		r.unsure("the command does too much to be followed")
		return true
	}
	return false
}

// unknown stands in a text for what only the running shell knows. The other two are
// wildcards, for names that are too many to list.
const (
	unknown = "\uF8FF"
	anyName = "\uF8F1" // *
	anyPath = "\uF8F2" // **
)

func known(s string) bool { return !strings.Contains(s, unknown) }

// add notes a target, given its path as the command names it.
func (s *shell) add(path string, t Target) {
	if path == "" || path == "-" && !t.Gone || !known(path) {
		return
	}
	t.There = t.There || s.r.there[path]
	path = repo.Absolute(s.dir, path)
	if !known(path) || s.r.over() || strings.HasPrefix(path, "/dev/") {
		return
	}
	if strings.Contains(path, anyName) || strings.Contains(path, anyPath) {
		path = strings.NewReplacer("*", "?", anyName, "*", anyPath, "**").Replace(path)
		t.Pattern = true
	}
	if t.Path = path; !s.r.seen[t] {
		s.r.seen[t] = true
		s.r.Targets = append(s.r.Targets, t)
	}
}

// write notes files that are written, and tree whole folders.
func (s *shell) write(paths ...string) {
	for _, p := range paths {
		s.add(p, Target{})
	}
}

func (s *shell) tree(paths ...string) {
	for _, p := range paths {
		s.add(p, Target{Tree: true})
	}
}

// gone notes what is removed. A pattern that matched nothing names no file.
func (s *shell) gone(paths ...string) {
	for _, p := range paths {
		if strings.ContainsAny(p, "*?[") && !repo.Exists(repo.Absolute(s.dir, p)) {
			continue
		}
		s.add(p, Target{Tree: true, Gone: true})
	}
}

// file is the text of a small file, and unknown if it cannot be read.
func (s *shell) file(path string) string {
	if !known(path) || path == "" {
		return unknown
	}
	path = repo.Absolute(s.dir, path)
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxFile || !known(path) {
		return unknown
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	return string(b)
}
