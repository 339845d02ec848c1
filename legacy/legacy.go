// Package legacy reads the lists and locks of the systems that tasklock
// replaces, so that a team can change over in the middle of its work.
//
// # Guarantee
//
// The source is read and never written, not even by SQLite. A record that is
// damaged, or that no task or lock here could stand for, is a [Problem] of its
// own, and everything else is read.
//
// # Limit
//
// Those systems have no fencing tokens, and most of their locks have no end.
// What is in force there is taken over as a lease with the time it has left, or
// with the default ttl where it has none; nobody renews it. Times without a zone
// are taken for UTC.
//
// # Failure
//
// A place where there is nothing to read is driver.ErrMissing, one that is not
// what it should be driver.ErrDamaged.
package legacy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// A Source is what was found.
type Source struct {
	Sections []Section
	Tasks    []Task
	Locks    []Lock // in force
	Expired  int    // locks that are not
	Problems []Problem

	tasks, locks map[string]bool // by id and key
}

// A Task is one of theirs in our words. One in progress is pending unless its
// lock is in force.
type Task struct {
	ID          string      `json:"id"`
	Title       string      `json:"title"`
	Description string      `json:"description,omitempty"`
	Section     string      `json:"section,omitempty"`
	Priority    int         `json:"priority,omitempty"`
	DependsOn   []string    `json:"dependsOn,omitempty"`
	Labels      []string    `json:"labels,omitempty"`
	Status      task.Status `json:"status,omitempty"`

	where string
}

// A Section groups tasks.
type Section struct {
	Name      string   `json:"name"`
	Priority  int      `json:"priority,omitempty"`
	Skipped   bool     `json:"skipped,omitempty"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// A Lock is held by someone who works there.
type Lock struct {
	Key      string
	Owner    string
	Since    time.Time
	Until    time.Time // zero: it has no end
	Host     string
	Worktree string

	where string
}

// A Problem is a record that was left out.
type Problem struct {
	Where string `json:"where"` // the file or row
	Why   string `json:"why"`
}

func (s *Source) problem(where, format string, args ...any) {
	s.Problems = append(s.Problems, Problem{where, fmt.Sprintf(format, args...)})
}

// addLock keeps a lock that is in force and makes sense here.
func (s *Source) addLock(l Lock, now time.Time) {
	key, err := lock.CheckKey(l.Key)
	if err == nil {
		err = lock.CheckOwner(l.Owner)
	}
	switch {
	case err != nil:
		s.problem(l.where, "%v", err)
	case !l.Until.IsZero() && !l.Until.After(now):
		s.Expired++
	case l.Until.After(now.Add(lock.MaxTTL)):
		s.problem(l.where, "lasts until %s, which cannot be meant", l.Until.Format(time.RFC3339))
	case s.locks[key]:
		s.problem(l.where, "a second lock on %s", key)
	default:
		l.Key, s.locks = key, with(s.locks, key)
		s.Locks = append(s.Locks, l)
	}
}

// addTask keeps a task with an id of its own.
func (s *Source) addTask(t Task) {
	id, err := lock.CheckKey(t.ID)
	if kind, _ := lock.KindOf(id); err == nil && kind != lock.Task {
		err = errors.New("is not the name of a task")
	}
	switch {
	case err != nil:
		s.problem(t.where, "id %s: %v", strconv.Quote(t.ID), err)
		return
	case s.tasks[id]:
		s.problem(t.where, "a second task %s", id)
		return
	}
	s.tasks = with(s.tasks, id)
	t.ID, t.Title = id, oneLine(t.Title, task.MaxTitle)
	t.Description = within(t.Description, task.MaxDescription)
	if t.Title == "" {
		t.Title = id
	}
	s.Tasks = append(s.Tasks, t)
}

func with(set map[string]bool, name string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[name] = true
	return set
}

// oneLine makes a title of whatever stands there.
func oneLine(s string, most int) string {
	return within(strings.Join(strings.Fields(strings.ReplaceAll(s, "\x00", " ")), " "), most)
}

// within cuts a text to a number of bytes, between characters.
func within(s string, most int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "�")
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// sectionName fits a name to our rules: a slash would be a folder.
func sectionName(s string) string {
	return strings.TrimLeft(strings.ReplaceAll(oneLine(s, lock.MaxKey-len("section:")), "/", "-"), "-")
}

// Bounds of what is read in a folder.
const (
	maxFile  = 1 << 20
	maxFiles = 50_000
)

// A folder is a place with the files of another system.
type folder struct{ fs.FS }

// list returns the names of the files in a folder that end so; nothing where
// there is no such folder.
func (f folder) list(dir, suffix string) ([]string, error) {
	entries, err := fs.ReadDir(f.FS, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case len(entries) > maxFiles:
		return nil, fmt.Errorf("%w: more than %d files in %s", driver.ErrTooLarge, maxFiles, dir)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// has reports a folder.
func (f folder) has(dir string) bool {
	fi, err := fs.Stat(f.FS, dir)
	return err == nil && fi.IsDir()
}

// read returns a regular file of a sensible size.
func (f folder) read(name string) ([]byte, error) {
	fi, err := fs.Stat(f.FS, name)
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, errors.New("is not a file")
	case fi.Size() > maxFile:
		return nil, fmt.Errorf("has %d bytes, at most %d are read", fi.Size(), maxFile)
	}
	in, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, maxFile))
	if err == nil && !utf8.Valid(text) {
		err = errors.New("is not text")
	}
	return text, err
}

// openFolder opens a folder for reading; links do not lead out of it.
func openFolder(dir string) (folder, func(), error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", driver.ErrMissing, err)
		}
		return folder{}, nil, err
	}
	return folder{root.FS()}, func() { _ = root.Close() }, nil
}

// unix reads seconds or milliseconds since 1970, within the years that a lock
// can be from.
func unix(text string, unit time.Duration) (time.Time, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if most := int64(253402300799); err != nil || n <= 0 || n > most*int64(time.Second/unit) {
		return time.Time{}, fmt.Errorf("%q is not a time", within(text, 40))
	}
	if unit == time.Millisecond {
		return time.UnixMilli(n).UTC(), nil
	}
	return time.Unix(n, 0).UTC(), nil
}

// stamp reads a time as people and databases write it.
func stamp(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
		"2006-01-02 15:04:05Z07:00", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
	} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() > 1970 {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time", within(text, 40))
}
