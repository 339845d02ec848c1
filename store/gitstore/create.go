package gitstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// create makes the branch. If someone else makes it at the same time, it uses
// theirs.
func (s *Store) create(ctx context.Context) error {
	err := s.first(ctx)
	if said, ok := errors.AsType[*gitError](err); ok && strings.Contains(said.text, "hash algorithm") && s.objects.format() == 40 {
		s.objects.setFormat(oid(strings.Repeat("0", 64))) // an empty repository of the newer kind
		err = s.first(ctx)
	}
	return err
}

// first pushes the first commit of a new branch.
func (s *Store) first(ctx context.Context) error {
	if err := s.cache.ready(s.objects.format()); err != nil {
		return err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	readme, err := s.objects.put("blob", []byte(readmeText))
	if err != nil {
		return err
	}
	empty := &view{objects: s.objects, where: s.where, root: newFolder([]entry{{name: readmeFile, id: readme}})}
	empty.state = state{id: hex.EncodeToString(id), rev: 1, kinds: map[string]int64{}}
	d := empty.draft()
	d.notes = []string{"a new store"}
	_, err = s.install(ctx, d, "")
	return err
}

// install pushes a commit without history over the branch as it was at from.
// If someone else was faster, ours is false and their commit stays.
func (s *Store) install(ctx context.Context, d *draft, from oid) (ours bool, err error) {
	c, err := d.write(ctx, true)
	if err != nil {
		return false, err
	}
	result, cause := s.server.push(ctx, from, c)
	if result == done {
		return true, s.adopt(ctx, c)
	}
	tip, err := s.server.tip(ctx)
	switch {
	case errors.Is(err, errAbsent), err == nil && tip == from:
		return false, cause
	case err != nil:
		return false, errors.Join(cause, err)
	}
	v, err := s.look(ctx)
	return err == nil && v.id == c.id, err
}

// Compact replaces the history of the branch by its last commit. Records and
// revision stay. The server must allow a forced push.
func (s *Store) Compact(ctx context.Context) error {
	return s.call(ctx, func(ctx context.Context) error { return s.inTurn(ctx, s.compacted) })
}

func (s *Store) compacted(ctx context.Context) error {
	w := &work{store: s}
	for {
		v, err := s.look(ctx)
		if err != nil {
			return err
		}
		if v.history == 1 {
			return nil
		}
		w.began = time.Now()
		note := message([]string{fmt.Sprintf("compact: %d commits become one", v.history)})
		c, err := s.objects.putCommit(commit{tree: v.tree, rev: v.rev, history: 1}, time.Now(), note)
		if err != nil {
			return err
		}
		result, cause := s.server.push(ctx, v.id, c)
		if result == refused || driver.Refusal(cause) {
			return cause
		}
		now, err := s.fetch(ctx, "", false)
		switch {
		case err != nil:
			return after(ctx, cause, err)
		case now.id == v.id:
			if w.failures++; w.failures == maxFailures {
				return cause
			}
		default:
			patienceOf(ctx).renew()
		}
		if err := w.pause(ctx); err != nil && now.history > 1 {
			return err
		}
	}
}

// Raise accepts the branch as it is now, although this machine saw a later
// revision before: after a rewind, a restore, a rewritten history. It lifts the
// revision above everything that was ever given out, so no fencing token is
// repeated. If the branch is gone, it writes the records as they were last seen
// here.
func (s *Store) Raise(ctx context.Context) (rev int64, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		return s.inTurn(ctx, func(ctx context.Context) error {
			rev, err = s.raise(ctx)
			return err
		})
	})
	return rev, err
}

func (s *Store) raise(ctx context.Context) (int64, error) {
	v, from, err := s.found(ctx)
	if err != nil {
		return 0, err
	}
	k, err := s.cache.load()
	if err != nil {
		return 0, err
	}
	d := v.draft()
	d.state.rev = driver.Lift(max(k.Rev, v.rev))
	d.notes = []string{fmt.Sprintf("raise the revision from %d", v.rev)}
	ours, err := s.install(ctx, d, from)
	if err == nil && !ours {
		err = errors.New("the branch moved meanwhile; look at it and try again")
	}
	if err != nil {
		return 0, err
	}
	return d.state.rev, nil
}

// found returns the branch as it is, whatever we knew of it, and its real tip;
// without a branch, what the cache has.
func (s *Store) found(ctx context.Context) (v *view, tip oid, err error) {
	tip, err = s.server.tip(ctx)
	if errors.Is(err, errAbsent) {
		v, err = s.latest()
		if err == nil && v == nil {
			err = s.absent()
		}
		return v, "", err
	}
	if err != nil {
		return nil, "", err
	}
	v, err = s.gated(ctx, func(k *known) (*view, error) { return s.bring(ctx, k, tip, false) })
	if err != nil {
		return nil, "", err
	}
	return v, v.id, nil
}
