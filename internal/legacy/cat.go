package legacy

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
)

// catStale is how long a session may be silent, if its lock has a heartbeat.
const catStale = 5 * time.Minute

// CAT reads the locks of CAT: one file for each task in .claude/cat/locks. Its
// versions write three forms: lines name=value with a heartbeat, the same without
// one, and an object in JSON. Those without a heartbeat never expire. dir is the
// project, or the folder of the locks. CAT keeps its tasks in documents for
// people, which it does not read.
func CAT(dir string, now time.Time) (Source, error) {
	return inFolder(dir, func(f *folder) (Source, error) { return readCAT(f, filepath.Base(dir), now) })
}

// readCAT reads the locks in a folder of that name. If the name does not show
// that they are CAT's, one of the files must: other programs write *.lock too.
func readCAT(f *folder, base string, now time.Time) (s Source, err error) {
	place, theirs := ".", base == "locks"
	switch {
	case f.has(".claude/cat/locks"):
		place, theirs = ".claude/cat/locks", true
	case f.has("locks"):
		place, theirs = "locks", base == "cat"
	}
	names := f.list(place, ".lock")
	if f.err != nil {
		return s, f.err
	}
	if len(names) == 0 && place == ".claude/cat/locks" {
		return s, nil
	}
	for _, name := range names {
		var l Lock
		if text, err := f.read(name); err != nil {
			if f.gone(name) {
				continue
			}
			l.doubt("%v", err)
		} else {
			l, theirs = parseCAT(text), theirs || strings.Contains(text, "session_id")
		}
		l.Key, l.where = strings.TrimSuffix(path.Base(name), ".lock"), name
		l.Aliases = slashed(l.Key)
		s.addLock(l, now)
	}
	if len(names) == 0 || !theirs {
		return Source{}, fmt.Errorf("%w: neither .claude/cat/locks nor files of CAT that end in .lock", driver.ErrMissing)
	}
	return s, nil
}

// slashed returns the ids of tasks that have their lock in that file: CAT writes
// '-' for each '/' of an id.
func slashed(name string) (ids []string) {
	const most = 12
	parts := strings.Split(name, "-")
	join := func(left, right []string) {
		id := strings.Join(left, "/") + "/" + strings.Join(right, "-")
		if key, err := lease.CheckKey(id); err == nil && key == id && len(ids) < most && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for i := 1; i < len(parts); i++ {
		join([]string{strings.Join(parts[:i], "-")}, parts[i:])
		join(parts[:i], parts[i:])
	}
	return ids
}

// parseCAT reads as much of a lock file as it can.
func parseCAT(text string) (l Lock) {
	fields := map[string]string{}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		fields = l.object(text)
	} else {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line == "" {
				continue
			}
			name, value, ok := strings.Cut(line, "=") // a worktree may hold an equals sign itself
			if _, twice := fields[name]; !ok || twice {
				l.doubt("line %q is not name=value, or stands there twice", within(line, 60))
				continue
			}
			fields[name] = value
		}
	}
	l.Owner, l.Worktree = fields["session_id"], fields["worktree"]
	since, err := unix(fields["created_at"], time.Second)
	if err != nil {
		since, err = stamp(fields["created_iso"])
	}
	l.Since = l.at("created_at", since, err)
	if beat, there := fields["heartbeat"]; there {
		seen, err := unix(beat, time.Second)
		if l.at("heartbeat", seen, err); err == nil {
			l.Until = seen.Add(catStale)
		}
	}
	return l
}
