package gitstore

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

// A Report is what [Inspect] found.
type Report struct {
	Remote     string // without credentials
	Branch     string
	GitVersion string
	Cache      string // the folder of the cache
	CacheBytes int64
	Tip        string // the branch's newest commit
	Revision   int64
	Commits    int64 // of its history
	Records    int
	Problems   []string
}

// Inspect examines a branch for a person who wants to know what is wrong with
// it. It changes nothing at the server. The report lists damage file by file; an
// error means that there was nothing to examine.
func Inspect(ctx context.Context, remote string, o *Options) (Report, error) {
	s, err := newStore(ctx, remote, o)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = s.Close() }()
	ctx, cancel := s.server.git.limited(ctx)
	defer cancel()
	r, err := s.inspect(ctx)
	return r, s.told(ctx, err)
}

func (s *Store) inspect(ctx context.Context) (_ Report, err error) {
	r := Report{Remote: s.server.place.show, Branch: s.server.ref[len("refs/heads/"):], Cache: s.cache.dir}
	if r.GitVersion, err = s.server.git.run(ctx, "version"); err != nil {
		return r, err
	}
	r.GitVersion = strings.TrimPrefix(strings.TrimSpace(r.GitVersion), "git version ")
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
	r.CacheBytes = bytesIn(s.cache.dir)
	v, tip, err := s.found(ctx)
	if err != nil || tip == "" {
		if errors.Is(err, driver.ErrDamaged) {
			err = nil // already reported
		}
		return r, err
	}
	r.Tip, r.Revision, r.Commits = string(v.id), v.rev, v.history
	r.examine(v)
	return r, nil
}

// examine reads every file, each by itself.
func (r *Report) examine(v *view) {
	problem := func(err error) {
		if err != nil {
			r.Problems = append(r.Problems, err.Error())
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
			r.Records++
		}
	}
}

func bytesIn(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if fi, err := d.Info(); err == nil {
				n += fi.Size()
			}
		}
		return nil
	})
	return n
}
