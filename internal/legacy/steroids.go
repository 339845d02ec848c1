package legacy

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// Steroids reads the database of steroids: its tasks and sections, and the
// locks on both. path is the database, or the project with .steroids. It reads a
// copy, because a reader of the database itself would leave files next to it.
func Steroids(ctx context.Context, path string, now time.Time) (Source, error) {
	for _, inside := range []string{"steroids.db", filepath.Join(".steroids", "steroids.db")} {
		if fi, err := os.Stat(filepath.Join(path, inside)); err == nil && fi.Mode().IsRegular() {
			path = filepath.Join(path, inside)
			break
		}
	}
	dir, err := os.MkdirTemp("", "tasklock-steroids-")
	if err != nil {
		return Source{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "copy.db")
	if err := copyDatabase(path, file); err != nil {
		return Source{}, err
	}
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite) // the copy: SQLite must replay its logs
	if err != nil {
		return Source{}, damaged(path, err)
	}
	defer func() { _ = conn.Close() }()
	conn.SetInterrupt(ctx.Done())
	r := steroids{conn: conn, now: now, sections: map[string]string{}, depends: map[string][]string{}}
	if err := r.read(); err != nil {
		if ctx.Err() != nil {
			return Source{}, ctx.Err()
		}
		return Source{}, damaged(path, err)
	}
	return r.out, nil
}

func damaged(path string, err error) error {
	return fmt.Errorf("%w: %s is not a database of steroids, or not a whole one: %w", driver.ErrDamaged, path, err)
}

// maxDatabase bounds what is copied.
const maxDatabase = 1 << 30

// logs are the files that SQLite keeps next to a database while it is written
// to. The database is incomplete without them: the first has newer commits, the
// second what an unfinished transaction has overwritten.
var logs = [...]string{"-wal", "-journal"}

// copyDatabase copies a database and its logs, as they were at one moment: if
// somebody wrote meanwhile, it copies again. SQLite replays the logs, or rolls
// the transaction back, when it opens the copy.
func copyDatabase(from, to string) error {
	from, err := filepath.EvalSymlinks(from) // the logs are next to the file, not the link
	if err != nil {
		return missing(err)
	}
	for range 10 {
		before, err := stateOf(from)
		if err != nil {
			return err
		}
		for _, log := range logs {
			if err := copyFile(from+log, to+log); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := copyFile(from, to); err != nil {
			return err
		}
		if after, err := stateOf(from); err == nil && after == before {
			return nil
		}
		for _, log := range logs {
			_ = os.Remove(to + log)
		}
	}
	return fmt.Errorf("%s is written to all the time; stop its runners and try again", from)
}

// fileState distinguishes two states of a database.
type fileState [1 + len(logs)]struct {
	size int64
	time time.Time
}

func stateOf(path string) (s fileState, err error) {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return s, missing(err)
	case !fi.Mode().IsRegular():
		return s, fmt.Errorf("%w: no database at %s", driver.ErrMissing, path)
	}
	for i, suffix := range append([]string{""}, logs[:]...) {
		fi, err := os.Stat(path + suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return s, err
		case fi.Size() > maxDatabase:
			return s, fmt.Errorf("%w: %s has %d bytes", driver.ErrTooLarge, path+suffix, fi.Size())
		}
		s[i].size, s[i].time = fi.Size(), fi.ModTime()
	}
	return s, nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, maxDatabase))
	return errors.Join(err, out.Close())
}

// steroids is one reading of the database.
type steroids struct {
	conn     *sqlite.Conn
	now      time.Time
	sections map[string]string   // id → name
	places   []sectionPlace      // of the sections, one by one
	depends  map[string][]string // of tasks, by id
	out      Source
}

func (r *steroids) read() error {
	tables := map[string]bool{}
	err := sqlitex.ExecuteTransient(r.conn, "SELECT name FROM sqlite_schema WHERE type = 'table'", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { tables[s.ColumnText(0)] = true; return nil },
	})
	if err != nil {
		return err
	}
	if !tables["tasks"] && !tables["task_locks"] && !tables["section_locks"] {
		return errors.New("it has none of the tables tasks, task_locks and section_locks")
	}
	for _, t := range []struct {
		name string
		row  func(row)
	}{
		{"sections", r.section},
		{"section_dependencies", r.sectionDependency},
		{"task_dependencies", r.taskDependency},
		{"tasks", r.task},
		{"section_locks", r.sectionLock},
		{"task_locks", r.taskLock},
	} {
		if tables[t.name] {
			if err := r.each(t.name, t.row); err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
		}
	}
	r.inPlace()
	return nil
}

// A row gives columns by name, as text; a missing column is empty.
type row struct {
	where string
	text  map[string]string
	doubts
}

func (r *steroids) each(table string, f func(row)) error {
	n := 0
	return sqlitex.ExecuteTransient(r.conn, "SELECT * FROM "+table, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			if n++; n > 20*maxFiles {
				return driver.ErrTooLarge
			}
			o := row{where: fmt.Sprintf("%s, row %d", table, n), text: map[string]string{}}
			for i := range s.ColumnCount() {
				blob := s.ColumnType(i) == sqlite.TypeBlob // before it is read as text, which changes it
				text := s.ColumnText(i)
				if blob && !utf8.ValidString(text) {
					text = hex.EncodeToString([]byte(text)) // an id of bytes
				}
				o.text[s.ColumnName(i)] = strings.ToValidUTF8(text, "�")
			}
			f(o)
			return nil
		},
	})
}

func (r *steroids) section(o row) {
	id := o.text["id"]
	name := cmp.Or(sectionName(o.text["name"]), sectionName(id))
	if id == "" {
		r.out.problem(o.where, "has no id")
		return
	}
	if slices.ContainsFunc(r.out.Sections, func(s Section) bool { return s.Name == name }) {
		name = sectionName(within(name, lease.MaxKey/2) + " " + within(id, 60)) // names need not differ there
	}
	if given := oneLine(o.text["name"], maxFile); name != given {
		r.out.warning(o.where, "the section is called %s here, %q there", within(name, 60), within(given, 60))
	}
	place := sectionPlace{priority: 50}
	if p := o.text["priority"]; p != "" {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 || n > 100 {
			r.out.warning(o.where, "section %s: priority %q is not between 0 and 100; it has 50 now", name, within(p, 40))
			n = 50
		}
		place.priority = n
	}
	place.position, _ = strconv.Atoi(o.text["position"])
	r.sections[id] = name
	r.places = append(r.places, place)
	r.out.Sections = append(r.out.Sections, Section{Name: name, Skipped: o.text["skipped"] == "1"})
}

// sectionPlace orders sections: by priority, then by position.
type sectionPlace struct{ priority, position int }

// inPlace gives the sections priorities that keep their order.
func (r *steroids) inPlace() {
	order := make([]int, len(r.places))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.places[a].priority, r.places[b].priority), cmp.Compare(r.places[a].position, r.places[b].position))
	})
	last := 0
	for n, i := range order {
		last = max(last+1, 10*r.places[i].priority)
		last = min(last, 999-(len(order)-1-n)) // room for those behind it
		r.out.Sections[i].Priority = max(last, 1)
	}
}

func (r *steroids) sectionDependency(o row) {
	name, on := r.sections[o.text["section_id"]], r.sections[o.text["depends_on_section_id"]]
	if name == "" || on == "" {
		r.out.problem(o.where, "names a section that is not there")
		return
	}
	for i := range r.out.Sections {
		if r.out.Sections[i].Name == name {
			r.out.Sections[i].DependsOn = append(r.out.Sections[i].DependsOn, on)
		}
	}
}

// taskDependency notes one dependency of a task. The column's name differs by
// version.
func (r *steroids) taskDependency(o row) {
	id, on := o.text["task_id"], cmp.Or(o.text["depends_on_task_id"], o.text["depends_on_id"], o.text["depends_on"])
	if id == "" || on == "" {
		r.out.warning(o.where, "does not say which task depends on which")
		return
	}
	r.depends[id] = append(r.depends[id], on)
}

var steroidsStatus = map[string]task.Status{
	"pending": task.Pending, "in_progress": task.InProgress, "review": task.Review, "completed": task.Completed,
	"failed": task.Failed, "skipped": task.Skipped, "merge_pending": task.Review,
	"disputed": task.Blocked, "blocked": task.Blocked, "partial": task.Blocked, "blocked_error": task.Blocked, "blocked_conflict": task.Blocked,
}

func (r *steroids) task(o row) {
	given := strings.ToLower(o.text["status"])
	status := steroidsStatus[given]
	section := o.text["section_id"]
	t := Task{where: o.where, Past: task.Past{Status: status, New: task.New{
		ID: o.text["id"], Title: o.text["title"], Description: o.text["description"], Section: r.sections[section],
		DependsOn: r.depends[o.text["id"]],
	}}}
	switch {
	case given == "":
		t.Status = task.Pending
	case status == "":
		r.out.warning(o.where, "task %q: status %q is not known; it is blocked now", within(t.ID, 60), within(given, 40))
		t.Status = task.Blocked
	}
	if t.Status == task.Blocked {
		t.BlockedReason = cmp.Or(o.text["blocked_reason"], "its status there was "+within(given, 40))
	}
	if section != "" && t.Section == "" {
		r.out.warning(o.where, "task %q: its section %q is not there; it has none now", within(t.ID, 60), within(section, 60))
	}
	t.Description = strings.TrimSpace(t.Description + "\n\n" + o.rest())
	t.CreatedAt, _ = stamp(o.text["created_at"])
	if !t.Status.Open() {
		t.CompletedAt, _ = stamp(cmp.Or(o.text["completed_at"], o.text["updated_at"]))
	}
	r.out.addTask(t)
}

// rest returns the columns of a task that tasklock has no field for.
func (o row) rest() string {
	known := []string{"id", "title", "description", "status", "section_id", "blocked_reason", "created_at", "updated_at", "completed_at"}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(o.text)) {
		if value := o.text[name]; value != "" && value != "0" && !slices.Contains(known, name) {
			fmt.Fprintf(&out, "%s: %s\n", name, value)
		}
	}
	return out.String()
}

func (r *steroids) taskLock(o row) { r.lock(o, o.text["task_id"]) }

func (r *steroids) sectionLock(o row) {
	name := r.sections[o.text["section_id"]]
	if name == "" {
		name = sectionName(cmp.Or(o.text["section_id"], "unknown"))
		o.doubt("its section %q is not there", within(o.text["section_id"], 60))
	}
	r.lock(o, lease.Section.Key(name))
}

func (r *steroids) lock(o row, key string) {
	l := Lock{Key: key, Owner: o.text["runner_id"], where: o.where, doubts: o.doubts}
	since, err := stamp(o.text["acquired_at"])
	l.Since = l.at("acquired_at", since, err)
	until, err := stamp(o.text["expires_at"])
	if local, err := stampIn(o.text["expires_at"], r.now.Location()); err == nil && local.After(until) {
		until = local // one version writes local time, others UTC: it is over when both are
		const clock = "2006-01-02 15:04:05"
		if again := local.Add(time.Hour); again.In(r.now.Location()).Format(clock) == local.In(r.now.Location()).Format(clock) {
			until = again // this hour comes twice when clocks are set back
		}
	}
	l.Until = l.at("expires_at", until, err)
	if beat, err := stamp(o.text["heartbeat_at"]); err == nil && !l.Until.IsZero() && beat.After(l.Until) {
		l.doubt("it ends at %s, before its last heartbeat", l.Until.Format(time.RFC3339)) // a time of another zone
	}
	r.out.addLock(l, r.now)
}
