package legacy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// Steroids reads the database of steroids: its tasks and sections, and the
// locks on both. path is the database, or the project with .steroids. A copy is
// read, because a reader of the database itself would leave files beside it.
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
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite) // the copy: its logs have to be read back
	if err != nil {
		return Source{}, damaged(path, err)
	}
	defer func() { _ = conn.Close() }()
	conn.SetInterrupt(ctx.Done())
	r := steroids{conn: conn, now: now, sections: map[string]string{}}
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

// logs are the files that SQLite keeps beside a database while it is written
// to. Without them it is not whole: the first has commits that are not yet in
// it, the second what a transaction that did not end has overwritten.
var logs = [...]string{"-wal", "-journal"}

// copyDatabase copies a database and its logs, as they were at one moment: if
// somebody wrote meanwhile, it copies again. SQLite reads the logs back, or
// takes the transaction back, when it opens the copy.
func copyDatabase(from, to string) error {
	from, err := filepath.EvalSymlinks(from) // the logs are beside the file, not beside the link
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

// fileState tells one state of a database from another.
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

// missing says that there is no database where there is no file.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", driver.ErrMissing, err)
	}
	return err
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
	sections map[string]string // id → name
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
	return nil
}

// A row gives columns by name; one that is not there, or no text, is empty.
type row struct {
	where string
	text  map[string]string
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
				if s.ColumnType(i) != sqlite.TypeBlob {
					o.text[s.ColumnName(i)] = s.ColumnText(i)
				}
			}
			f(o)
			return nil
		},
	})
}

func (r *steroids) section(o row) {
	id, name := o.text["id"], sectionName(o.text["name"])
	if id == "" || name == "" {
		r.out.problem(o.where, "has no id or no name")
		return
	}
	for _, other := range r.out.Sections {
		if other.Name == name {
			name = sectionName(name + " " + within(id, 8)) // names need not differ there
		}
	}
	s := Section{Name: name, Skipped: o.text["skipped"] == "1"}
	if p := o.text["priority"]; p != "" {
		var n int
		if _, err := fmt.Sscanf(p, "%d", &n); err != nil || n < 0 || n > 100 {
			r.out.problem(o.where, "priority %q is not between 0 and 100", within(p, 40))
			return
		}
		s.Priority = min(max(n*10, 1), 999)
	}
	r.sections[id] = name
	r.out.Sections = append(r.out.Sections, s)
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

var steroidsStatus = map[string]task.Status{
	"pending": task.Pending, "in_progress": task.InProgress, "review": task.Review, "completed": task.Completed,
	"failed": task.Failed, "skipped": task.Skipped, "disputed": task.Blocked, "blocked": task.Blocked,
}

func (r *steroids) task(o row) {
	status := steroidsStatus[strings.ToLower(o.text["status"])]
	section := o.text["section_id"]
	switch {
	case o.text["status"] == "":
		status = task.Pending
	case status == "":
		r.out.problem(o.where, "task %q: status %q is not known", within(o.text["id"], 60), within(o.text["status"], 40))
		return
	}
	if section != "" && r.sections[section] == "" {
		r.out.problem(o.where, "task %q: its section %q is not there", within(o.text["id"], 60), within(section, 60))
		return
	}
	r.out.addTask(Task{
		ID: o.text["id"], Title: o.text["title"], Description: o.text["description"],
		Section: r.sections[section], Status: status, where: o.where,
	})
}

func (r *steroids) taskLock(o row) { r.lock(o, o.text["task_id"]) }

func (r *steroids) sectionLock(o row) {
	name := r.sections[o.text["section_id"]]
	if name == "" {
		r.out.problem(o.where, "its section %q is not there", within(o.text["section_id"], 60))
		return
	}
	r.lock(o, "section:"+name)
}

func (r *steroids) lock(o row, key string) {
	since, err := stamp(o.text["acquired_at"])
	if err != nil {
		r.out.problem(o.where, "acquired_at: %v", err)
		return
	}
	until, err := stamp(o.text["expires_at"])
	if err != nil {
		r.out.problem(o.where, "expires_at: %v", err)
		return
	}
	r.out.addLock(Lock{Key: key, Owner: o.text["runner_id"], Since: since, Until: until, where: o.where}, r.now)
}
