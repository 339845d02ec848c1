package sqlitestore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

// A Report is what [Inspect] found.
type Report struct {
	Path        string
	FileSystem  string // its kind, as the system names it
	SafeFS      bool   // its locks can be trusted
	JournalMode string // "wal", or "delete" where memory is not shared
	Version     int    // of the schema
	Bytes       int64  // of the database
	LogBytes    int64  // of the log beside it
	Problems    []string
}

// Inspect examines a database for a person who wants to know what is wrong
// with it. It changes nothing. The report lists damage that leaves the file
// readable; an error means that there was nothing to examine.
func Inspect(ctx context.Context, path string) (Report, error) {
	r := Report{Path: path}
	path, err := filepath.Abs(path)
	if err != nil {
		return r, err
	}
	if r.FileSystem, r.SafeFS, err = host.FileSystem(path); err != nil {
		return r, err
	}
	s := newStore(path, r.SafeFS, 0)
	defer s.last.close()
	found, err := s.look()
	if err != nil {
		return r, err
	}
	if found == nil {
		return r, fmt.Errorf("%w: no database %s", driver.ErrMissing, path)
	}
	r.Bytes = found.Size()
	if wal, err := os.Lstat(path + "-wal"); err == nil {
		r.LogBytes = wal.Size()
	}
	c, err := connect(path)
	if err != nil {
		return r, explainRead(err, path)
	}
	defer func() { _ = c.Close() }()
	n := s.last.read()
	return r, explainRead(retry(ctx, func() error {
		if err := r.examine(c); err != nil {
			return err
		}
		st, err := c.state(state{})
		if err == nil {
			err = s.behind(n, st)
		}
		return err
	}), path)
}

func (r *Report) examine(c conn) error {
	if err := c.settings(false); err != nil {
		return err
	}
	if err := c.verify(r.Path); err != nil {
		return err
	}
	version, err := c.pragma("PRAGMA user_version")
	if err != nil {
		return err
	}
	r.Version, _ = strconv.Atoi(version)
	if r.JournalMode, err = c.pragma("PRAGMA journal_mode"); err != nil {
		return err
	}
	r.Problems = nil
	if err := c.problems("PRAGMA integrity_check", &r.Problems); err != nil {
		return err
	}
	return c.problems(`SELECT 'value of ' || key || ' is not a JSON object' FROM record
		WHERE NOT json_valid(value) OR substr(value, 1, 1) <> '{'`, &r.Problems)
}

// problems adds the rows of a query, other than "ok".
func (c conn) problems(sql string, list *[]string) error {
	stmt, _, err := c.PrepareTransient(sql)
	if err != nil {
		return err
	}
	defer func() { _ = stmt.Finalize() }()
	for {
		row, err := stmt.Step()
		if err != nil || !row {
			return err
		}
		if text := stmt.ColumnText(0); text != "ok" {
			*list = append(*list, text)
		}
	}
}
