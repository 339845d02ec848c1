package legacy

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// catStale is how long a session may be silent.
const catStale = 5 * time.Minute

// CAT reads the locks of CAT: one file for each task in .claude/cat/locks, with
// lines name=value. dir is the project, or the folder of the locks. CAT keeps
// its tasks in documents for people; those are not read.
func CAT(dir string, now time.Time) (Source, error) {
	f, done, err := openFolder(dir)
	if err != nil {
		return Source{}, err
	}
	defer done()
	return readCAT(f, now)
}

func readCAT(f folder, now time.Time) (s Source, err error) {
	place := "."
	for _, p := range []string{".claude/cat/locks", "locks"} {
		if place == "." && f.has(p) {
			place = p
		}
	}
	names, err := f.list(place, ".lock")
	if err != nil {
		return s, err
	}
	if len(names) == 0 && place == "." {
		return s, fmt.Errorf("%w: neither .claude/cat/locks nor files that end in .lock", driver.ErrMissing)
	}
	for _, name := range names {
		text, err := f.read(name)
		if err != nil {
			s.problem(name, "%v", err)
			continue
		}
		l, err := parseCAT(string(text))
		if err != nil {
			s.problem(name, "%v", err)
			continue
		}
		l.Key, l.where = strings.TrimSuffix(path.Base(name), ".lock"), name
		s.addLock(l, now)
	}
	return s, nil
}

// parseCAT reads a lock file. A worktree may hold an equals sign itself.
func parseCAT(text string) (l Lock, err error) {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if _, twice := fields[name]; !ok || twice {
			return l, fmt.Errorf("line %q is not name=value, or stands there twice", within(line, 60))
		}
		fields[name] = value
	}
	if fields["session_id"] == "" {
		return l, errors.New("has no session_id")
	}
	l.Owner, l.Worktree = fields["session_id"], fields["worktree"]
	if l.Since, err = unix(fields["created_at"], time.Second); err != nil {
		return l, fmt.Errorf("created_at: %w", err)
	}
	seen, err := unix(fields["heartbeat"], time.Second)
	if err != nil {
		return l, fmt.Errorf("heartbeat: %w", err)
	}
	l.Until = seen.Add(catStale)
	return l, nil
}
