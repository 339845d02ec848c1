package gitstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

// Bounds of what Files returns.
const (
	maxFiles = 50_000
	maxFile  = 1 << 20
)

// Files returns the files of a branch that is not a store, by path: those whose
// path begins with under. An empty branch is the remote's default. Links,
// submodules and files above 1 MiB have no content. It leaves nothing behind,
// here or at the remote.
func Files(ctx context.Context, remote, branch, under string, o *Options) (map[string][]byte, error) {
	ref := "HEAD"
	if branch != "" {
		ref = "refs/heads/" + branch
	}
	var options Options
	if o != nil {
		options = *o
	}
	dir, err := os.MkdirTemp("", "tasklock-files-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	options.Cache = dir
	s, err := newStore(ctx, remote, &options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	s.server.ref = ref
	files, err := s.files(ctx, under)
	if errors.Is(err, errAbsent) {
		err = fmt.Errorf("%w: no branch %s of %s", driver.ErrMissing, branch, s.server.place.show)
	}
	return files, s.life.Ended(ctx, err)
}

func (s *Store) files(ctx context.Context, under string) (map[string][]byte, error) {
	tip, err := s.server.tip(ctx)
	if err != nil {
		return nil, err
	}
	s.objects.setFormat(tip)
	if err := s.cache.ready(len(tip)); err != nil {
		return nil, err
	}
	id, err := s.server.fetch(ctx, true)
	if err != nil {
		return nil, err
	}
	body, err := s.objects.get(id, "commit", maxFile)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(body), "\n")
	tree, ok := parseOID(strings.TrimPrefix(line, "tree "))
	if !ok {
		return nil, fmt.Errorf("%w: commit %s has no tree", errCache, id)
	}
	found := map[string][]byte{}
	return found, s.walk(ctx, tree, "", under, found)
}

// walk reads a foreign tree, which may contain anything.
func (s *Store) walk(ctx context.Context, id oid, path, under string, found map[string][]byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	body, err := s.objects.get(id, "tree", maxTree)
	if err != nil {
		return err
	}
	for size := len(id) / 2; len(body) > 0; {
		head, rest, ok := bytes.Cut(body, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		if !ok || !named || len(rest) < size {
			return fmt.Errorf("%w: tree %s", errCache, id)
		}
		child := oid(hex.EncodeToString(rest[:size]))
		body = rest[size:]
		full := filepath.ToSlash(filepath.Join(path, name))
		wanted := strings.HasPrefix(full, under)
		switch {
		case mode == "40000" && (wanted || strings.HasPrefix(under, full+"/")):
			if err := s.walk(ctx, child, full, under, found); err != nil {
				return err
			}
		case wanted && mode != "40000":
			if len(found) == maxFiles {
				return fmt.Errorf("%w: more than %d files", driver.ErrTooLarge, maxFiles)
			}
			if found[full] = nil; !strings.HasPrefix(mode, "100") {
				continue
			}
			text, err := s.objects.get(child, "blob", maxFile)
			if err != nil && !errors.Is(err, errHuge) {
				return err
			}
			found[full] = text
		}
	}
	return nil
}
