// Package legacy reads the lists and locks of the systems that tasklock
// replaces, so that a team can change over in the middle of its work.
//
// # Guarantee
//
// The source is read and never written, not even by SQLite. No possible lock is
// dropped: a lock that cannot be read in full keeps what can be read, and a
// [Problem] among the warnings says what changed; a lock that names nobody is
// held by unknown:<file>. A lock is over only if it was read in full and says so
// itself. A task or section that has no equivalent here is left out, with a
// [Problem].
//
// # Limit
//
// Those systems have no fencing tokens, and most of their locks do not expire. A
// lock in force becomes a lease with the time it has left, and one that does not
// expire becomes a lease that does not either; nobody renews it. Times without a
// zone are UTC, or this machine's if that system writes them so.
//
// # Failure
//
// A place with nothing of that system is driver.ErrMissing, one in another form
// driver.ErrDamaged.
package legacy

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// A Source is what was found.
type Source struct {
	Sections []Section
	Tasks    []Task
	Locks    []Lock // in force
	Jobs     []Job
	Next     int64     // the next task number there; 0: it has no counter
	Expired  int       // locks that are not in force
	Problems []Problem // what was left out
	Warnings []Problem // what was taken over with changes

	tasks, locks map[string]bool // by id and key
	seconds      []Task          // of aitasks: left out, because another has their id
}

// A Task is one of theirs in our form. A task in progress is pending unless its
// lock is in force.
type Task struct {
	task.Past

	where   string
	was     string    // its id there, if that differs
	by      string    // who works on it, if no lock says so
	doubt   string    // why somebody may work on it
	touched time.Time // when it was last changed
}

// A Section groups tasks.
type Section struct {
	Name      string
	Priority  int
	Skipped   bool
	DependsOn []string
}

// A Job is a schedule.
type Job struct {
	Name     string
	Cron     string
	ID       string // there
	Spec     string // what it ran there, for people
	Disabled bool   // there

	where string
}

// A Problem is a record that was left out or changed.
type Problem struct {
	Where string `json:"where"` // the file or row
	Why   string `json:"why"`
}

// doubts are what could not be read of a record.
type doubts []string

func (d *doubts) doubt(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

func (s *Source) problem(where, format string, args ...any) {
	s.Problems = append(s.Problems, Problem{where, fmt.Sprintf(format, args...)})
}

func (s *Source) warning(where, format string, args ...any) {
	s.Warnings = append(s.Warnings, Problem{where, fmt.Sprintf(format, args...)})
}

// empty reports whether nothing was found.
func (s *Source) empty() bool {
	return len(s.Sections)+len(s.Tasks)+len(s.Locks)+len(s.Jobs)+len(s.Problems)+s.Expired == 0 && s.Next == 0
}

// addTask adds a task, with an id of its own.
func (s *Source) addTask(t Task) {
	id, err := lease.CheckKey(t.ID)
	if kind, _ := lease.KindOf(id); err == nil && kind != lease.Task {
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
	t.ID = id
	if t.Archived && t.Status.Open() {
		t.Status = task.Completed
	}
	s.fit(&t)
	if t.Title == "" {
		t.Title = id
	}
	s.Tasks = append(s.Tasks, t)
}

// fit cuts the texts of a task to our limits.
func (s *Source) fit(t *Task) {
	shorten := func(text *string, most int) {
		short := within(*text, most)
		if len(short) < len(*text) {
			s.warning(t.where, "%s: cut to %d bytes: %s", t.ID, len(short), within(*text, 40))
		}
		*text = short
	}
	t.Title = oneLine(t.Title, len(t.Title))
	shorten(&t.Title, task.MaxTitle)
	shorten(&t.Description, task.MaxDescription)
	left := lease.MaxText
	cut := func(text *string) {
		shorten(text, left)
		left -= len(*text)
	}
	cut(&t.BlockedReason)
	cut(&t.Progress)
	if r := t.Result; r != nil {
		cut(&r.Summary)
		for i := range r.Commits {
			cut(&r.Commits[i])
		}
		for i := range r.Tests {
			cut(&r.Tests[i])
		}
	}
	shorten(&t.CompletedBy, lease.MaxOwner)
	var labels []string
	for _, l := range t.Labels {
		if l = oneLine(strings.ReplaceAll(l, ",", " "), 100); l != "" && len(labels) < task.MaxLabels {
			labels = append(labels, l)
		}
	}
	if !slices.Equal(labels, t.Labels) {
		s.warning(t.where, "%s: labels changed to %q", t.ID, labels)
	}
	t.Labels = labels
}

func with(set map[string]bool, name string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[name] = true
	return set
}

// oneLine makes a title of any text.
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

// sectionName fits a name to our rules.
func sectionName(s string) string {
	name := oneLine(s, lease.MaxKey-len("section:"))
	if key, err := lease.CheckKey(lease.Section.Key(name)); name == "" || err == nil && !strings.HasPrefix(name, "-") {
		return strings.TrimPrefix(key, "section:") // normalised, so that its lock is found
	}
	return mended(strings.Trim(name, "/-"))
}

// Limits for reading a folder.
const (
	maxFile  = 1 << 20
	maxLog   = 256 << 20 // of the log of a session
	maxFiles = 50_000
)

// A folder holds the files of another system. It keeps the first error of [folder.list],
// so that a reader checks it once: what could not be listed may hold locks.
type folder struct {
	fs.FS
	err error
}

// list returns the names in a folder that have one of the endings, ending by ending;
// nothing without such a folder.
func (f *folder) list(dir string, suffixes ...string) (names []string) {
	entries, err := fs.ReadDir(f.FS, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && len(entries) > maxFiles:
		err = fmt.Errorf("%w: more than %d files in %s", driver.ErrTooLarge, maxFiles, dir)
	}
	if f.err = cmp.Or(f.err, err); err != nil {
		return nil
	}
	for _, suffix := range suffixes {
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), suffix) {
				names = append(names, path.Join(dir, e.Name()))
			}
		}
	}
	return names
}

// has reports whether the folder exists.
func (f *folder) has(dir string) bool {
	fi, err := fs.Stat(f.FS, dir)
	return err == nil && fi.IsDir()
}

// read returns a regular file of a sensible size, as text. It replaces bytes that
// are not text.
func (f *folder) read(name string) (string, error) { return f.readUpTo(name, maxFile) }

func (f *folder) readUpTo(name string, most int64) (string, error) {
	fi, err := fs.Stat(f.FS, name)
	switch {
	case err != nil:
		return "", err
	case !fi.Mode().IsRegular():
		return "", errors.New("is not a file")
	case fi.Size() > most:
		return "", fmt.Errorf("has %d bytes, at most %d are read", fi.Size(), most)
	}
	in, err := f.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, most))
	return asText(text), err
}

// asText reads bytes as text, without a byte order mark.
func asText(text []byte) string {
	return strings.TrimPrefix(strings.ToValidUTF8(string(text), "�"), "\ufeff")
}

// gone reports whether a listed file no longer exists: its holder has released
// that lock meanwhile.
func (f *folder) gone(name string) bool {
	_, err := fs.Lstat(f.FS, name)
	return errors.Is(err, fs.ErrNotExist)
}

// inFolder reads a folder; links do not lead out of it.
func inFolder(dir string, read func(*folder) (Source, error)) (Source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Source{}, missing(err)
	}
	defer func() { _ = root.Close() }()
	return read(&folder{FS: root.FS()})
}

// missing turns "no such file" into [driver.ErrMissing].
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", driver.ErrMissing, err)
	}
	return err
}

// unix reads seconds or milliseconds since 1970, within the years that a lock
// can be from: since 2001, when seconds have ten digits. A number that lacks a
// digit, because the file was cut, is refused.
func unix(text string, unit time.Duration) (time.Time, error) {
	text = strings.TrimSpace(text)
	n, err := strconv.ParseFloat(text, 64)
	if most := 253402300799.0; err != nil || strings.Trim(text, "0123456789.") != "" || n < 1e9*float64(time.Second/unit) || n > most*float64(time.Second/unit) {
		return time.Time{}, fmt.Errorf("%q is not a time", within(text, 40))
	}
	whole := int64(n)
	if unit == time.Millisecond {
		return time.UnixMilli(whole).UTC(), nil
	}
	return time.Unix(whole, int64((n-float64(whole))*1e9)).UTC(), nil
}

// stamp reads a time as people and databases write it.
func stamp(text string) (time.Time, error) { return stampIn(text, time.UTC) }

// stampIn is stamp with the zone of a time that names none.
func stampIn(text string, zone *time.Location) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
		"2006-01-02 15:04:05Z07:00", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
	} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil && t.Year() > 1970 {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time", within(text, 40))
}
