package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

// Inspect examines a store for a person who wants to know what is wrong with
// it. It changes nothing and takes no lock. Each problem names a file and says
// how to repair it; an error means that there was nothing to examine.
func Inspect(ctx context.Context, dir string) (driver.Report, error) {
	r := inspection{driver.Report{Path: dir, Facts: fmt.Sprintf("layout %d, journal files", format)}}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return r.Report, err
	}
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return r.Report, fmt.Errorf("%w: no folder %s", driver.ErrMissing, dir)
	}
	s, err := newStore(dir, 0)
	if err != nil {
		return r.Report, err
	}
	defer func() { _ = s.Close() }()
	s.frozen = true // only look
	found, err := s.look()
	if err != nil {
		return r.Report, err
	}
	if found == nil {
		return r.Report, fmt.Errorf("%w: no store in %s", driver.ErrMissing, dir)
	}
	r.LogBytes = found.Size()
	if err := s.openJournal(); err != nil {
		return r.Report, err
	}
	err = r.examine(ctx, s)
	return r.Report, err
}

// An inspection fills the report.
type inspection struct{ driver.Report }

func (r *inspection) examine(ctx context.Context, s *Store) error {
	t := s.tree()
	defer t.close()
	seen, err := r.records(ctx, t)
	if err != nil {
		return err
	}
	// Scanned after the records were read: it is not older than they are.
	_, j, err := s.scan()
	if err != nil {
		r.add(err)
	} else {
		r.compare(s, j, seen)
	}
	if _, err := s.readState(); err != nil && err != errNoState {
		r.add(err)
	}
	slices.Sort(r.Problems)
	return nil
}

func (r *inspection) add(err error) {
	r.Problems = append(r.Problems, strings.TrimPrefix(err.Error(), driver.ErrDamaged.Error()+": "))
}

// A sighting is a record file as Inspect found it.
type sighting struct {
	record record
	err    error
}

// records reads every file of every kind; problems that have no key go into
// the report.
func (r *inspection) records(ctx context.Context, t *tree) (map[string]sighting, error) {
	seen := make(map[string]sighting)
	folders, err := t.folders()
	if err != nil {
		r.add(err)
		return seen, nil
	}
	for _, folder := range folders {
		if _, cut, ok := decodeName(folder); !ok && !cut {
			r.add(t.s.foreign(recordsDir + "/" + folder))
			continue
		}
		files, err := t.files(folder)
		if err != nil {
			r.add(err)
		}
		for _, name := range files {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			r.file(t, folder, name, seen)
		}
	}
	return seen, nil
}

func (r *inspection) file(t *tree, folder, name string, seen map[string]sighting) {
	path := recordPath(folder, name)
	if _, cut, ok := decodeName(name); !ok && !cut {
		r.add(t.s.foreign(path))
		return
	}
	rec, ok, err := t.readFile(folder, name)
	if !ok && err == nil {
		return // removed just now
	}
	if err == nil && fileOf(rec.key) != path {
		err = fmt.Errorf("%w: %s holds the record %q; %s", driver.ErrDamaged, t.s.path(path), rec.key, mendRecord)
	}
	if fi, statErr := os.Lstat(t.s.path(path)); statErr == nil {
		r.Bytes += fi.Size()
	}
	seen[path] = sighting{rec, err}
}

// compare reports the damaged files, with better advice if the journal still has
// their content, and the files that are newer than the journal.
func (r *inspection) compare(s *Store, j journal, seen map[string]sighting) {
	last, err := j.last(0)
	if err != nil {
		r.add(s.explain(err, journalFile))
		return
	}
	kept := make(map[string]bool)
	for key, rec := range last {
		kept[fileOf(key)] = rec.value != nil
	}
	for path, found := range seen {
		switch {
		case found.err != nil && kept[path] && !errors.Is(found.err, driver.ErrUnsafe):
			r.add(fmt.Errorf("%w (the journal still has it: after removing %s and %s, the next command writes it again)",
				found.err, s.path(path), s.path(stateFile)))
		case found.err != nil:
			r.add(found.err)
		default:
			if err := s.notAhead(found.record, j.rev); err != nil {
				r.add(err)
			}
		}
	}
}
