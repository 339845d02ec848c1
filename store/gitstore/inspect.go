package gitstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

// Inspect examines a branch for a person who wants to know what is wrong with
// it. It changes nothing at the server. The report lists damage file by file; an
// error means that there was nothing to examine.
func Inspect(ctx context.Context, remote string, o *Options) (driver.Report, error) {
	s, err := newStore(ctx, remote, o)
	if err != nil {
		return driver.Report{}, err
	}
	defer func() { _ = s.Close() }()
	ctx, cancel := s.server.git.limited(ctx)
	defer cancel()
	r, err := s.inspect(ctx)
	return r, s.told(ctx, err)
}

func (s *Store) inspect(ctx context.Context) (r driver.Report, err error) {
	version, err := s.server.git.run(ctx, "version")
	if err != nil {
		return r, err
	}
	version = strings.TrimPrefix(strings.TrimSpace(version), "git version ")
	if _, err := s.begin(ctx); err != nil {
		return r, err
	}
	_, err = s.look(ctx)
	if err != nil && !errors.Is(err, driver.ErrDamaged) { // also after an old answer: there is nothing newer to examine
		return r, err
	}
	if err != nil { // the branch contradicts what we knew
		r.Problems = append(r.Problems, err.Error())
	}
	v, tip, err := s.found(ctx)
	if err != nil || tip == "" {
		if errors.Is(err, driver.ErrDamaged) {
			err = nil // already reported
		}
		return r, err
	}
	records, problems := examine(v)
	r.Problems = append(r.Problems, problems...)
	r.Facts = fmt.Sprintf("git %s, revision %d, %d records, history of %d commits", version, v.rev, records, v.history)
	return r, nil
}

// examine reads every file, each by itself.
func examine(v *view) (records int, problems []string) {
	problem := func(err error) {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	for _, e := range v.root.list {
		if !e.dir {
			continue
		}
		files, err := v.files(e)
		problem(err)
		for i := range files {
			if err := v.fill(files[i : i+1]); err != nil {
				problem(err)
				continue
			}
			records++
		}
	}
	return records, problems
}
