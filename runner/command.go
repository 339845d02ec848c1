package runner

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tasklock/tasklock/internal/lease"
)

// The codes that shells give to a command that did not run.
const (
	notExecutable = 126
	notFound      = 127
)

// Check validates the options and looks for the program, as Run does first.
func (o *Options) Check() error {
	_, err := o.check()
	return err
}

// check validates the options and finds the program, so that a command that
// cannot run does not take the lock first.
func (o *Options) check() (path string, err error) {
	switch {
	case o.Grace < 0:
		return "", &lease.InvalidError{What: "grace " + o.Grace.String(), Rule: "must not be negative"}
	case o.Acquire.DryRun:
		return "", &lease.InvalidError{What: "dry run", Rule: "cannot run a command"}
	case o.Command == nil && o.Claim != nil:
		return "", nil
	}
	return o.find()
}

// find looks for the program.
func (o *Options) find() (path string, err error) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return "", &lease.InvalidError{What: "command", Rule: "must not be empty"}
	}
	name := o.Command[0]
	if o.Dir != "" {
		if fi, err := os.Stat(o.Dir); err != nil {
			return "", &StartError{Command: name, ExitCode: notExecutable, Err: err}
		} else if !fi.IsDir() {
			return "", &StartError{Command: name, ExitCode: notExecutable, Err: &fs.PathError{Op: "chdir", Path: o.Dir, Err: syscall.ENOTDIR}}
		}
		if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
			name = filepath.Join(o.Dir, name)
		}
	}
	path, err = exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", startError(o.Command[0], err)
	}
	return path, nil
}

func startError(command string, err error) *StartError {
	code := notExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = notFound
	}
	return &StartError{Command: command, ExitCode: code, Err: err}
}

// reason is the error without the names of the calls and paths around it.
func reason(err error) string {
	if in, ok := errors.AsType[*exec.Error](err); ok {
		err = in.Err
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "command not found"
	}
	return err.Error()
}

// environment is what the command sees: what it was given, and its lease.
// Of the keys only those it was started for: the section of a task is taken
// with it, but nobody asked. What a claim adds wins.
func environment(base, asked []string, g lease.Grant, more []string) []string {
	if base == nil {
		base = os.Environ()
	}
	var keys, names, leases []string
	token := int64(0)
	for _, k := range g.Keys {
		name := cmp.Or(k.Name, k.Key)
		if slices.ContainsFunc(asked, func(a string) bool { key, _ := lease.CheckKey(a); return key == name }) {
			keys, leases, token = append(keys, k.Key), append(leases, k.Lease), max(token, k.Token)
			names = append(names, name)
		}
	}
	switch one := slices.Compact(slices.Clone(leases)); len(one) { // what a parent holds is in another lease
	case 0:
		leases = []string{g.LeaseID}
	case 1:
		leases = one
	}
	env := slices.Concat(base, []string{
		"TASKLOCK_KEY=" + strings.Join(keys, "\n"),
		"TASKLOCK_NAME=" + strings.Join(names, "\n"),
		"TASKLOCK_TOKEN=" + strconv.FormatInt(token, 10),
		"TASKLOCK_LEASE=" + strings.Join(leases, "\n"),
		"TASKLOCK_OWNER=" + g.Owner + "/cmd",
	}, slotVariable(g), more)
	last := map[string]int{} // of each name only the last counts
	for i, v := range env {
		name, _, _ := strings.Cut(v, "=")
		last[name] = i
	}
	var out []string
	for i, v := range env {
		if name, _, _ := strings.Cut(v, "="); last[name] == i {
			out = append(out, v)
		}
	}
	return out
}

// slotVariable names the slots of a grant. A command under keys of other kinds keeps
// the variable of the command around it, which holds the slot.
func slotVariable(g lease.Grant) []string {
	var numbers []string
	for _, n := range g.Slots() {
		numbers = append(numbers, strconv.Itoa(n))
	}
	if numbers == nil {
		return nil
	}
	return []string{"TASKLOCK_SLOT=" + strings.Join(numbers, " ")}
}
