package sqlitestore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

// Inspect examines a database for a person who wants to know what is wrong
// with it. It changes nothing. The report lists damage that leaves the file
// readable; an error means that there was nothing to examine.
func Inspect(ctx context.Context, path string) (driver.Report, error) {
	r := inspection{driver.Report{Path: path}}
	path, err := filepath.Abs(path)
	if err != nil {
		return r.Report, err
	}
	_, safe, err := host.FileSystem(path)
	if err != nil {
		return r.Report, err
	}
	s := newStore(path, safe, 0)
	defer s.last.close()
	found, err := s.look()
	if err != nil {
		return r.Report, err
	}
	if found == nil {
		return r.Report, fmt.Errorf("%w: no database %s", driver.ErrMissing, path)
	}
	r.Bytes = found.Size()
	if wal, err := os.Lstat(path + "-wal"); err == nil {
		r.LogBytes = wal.Size()
	}
	c, err := connect(path)
	if err != nil {
		return r.Report, explainRead(err, path)
	}
	defer func() { _ = c.Close() }()
	n := s.last.read()
	err = retry(ctx, func() error {
		if err := r.examine(c); err != nil {
			return err
		}
		st, err := c.state(state{})
		if err == nil {
			err = s.behind(n, st)
		}
		return err
	})
	return r.Report, explainRead(err, path)
}

// An inspection fills the report.
type inspection struct{ driver.Report }

func (r *inspection) examine(c conn) error {
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
	journal, err := c.pragma("PRAGMA journal_mode")
	if err != nil {
		return err
	}
	r.Facts = fmt.Sprintf("layout %s, journal %s", version, journal)
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
