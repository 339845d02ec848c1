package gitstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// A server that answers reads from a mirror may show the branch as it was some
// time ago. That is not damage, and it passes: so we ask again this often, with
// pauses that begin here and double.
const (
	maxStale   = 3
	stalePause = 100 * time.Millisecond
)

// A laggard is the error for an answer that a lagging mirror could give.
type laggard struct{ error }

func (e *laggard) Unwrap() error { return e.error }

// lags reports whether err is a laggard.
func lags(err error) bool {
	_, ok := errors.AsType[*laggard](err)
	return ok
}

// behind says what it means that the branch is at a lower revision than was seen
// here. A commit of the history that led to what was seen, or a known one from
// before it, is an old answer: not the newest state, and not damage. If that
// history has another commit in its place, the branch is not the one that was
// seen.
func (s *Store) behind(k *known, v *view) error {
	for id := k.Tip; ; {
		c, err := s.objects.commit(id, s.where)
		switch {
		case err != nil && !errors.Is(err, errCache):
			return err
		case err == nil && c.rev <= v.rev && c.id != v.id && c.tree != v.tree:
			return s.movedBack(k, v)
		case err != nil, c.rev <= v.rev, c.parent == "":
			return &laggard{fmt.Errorf("%s: the server answers with revision %d, and was at %d (commit %.12s): a mirror that lags behind; "+
				"if the branch was moved back on purpose, go on from what is there with: tasklock init --raise", s.where, v.rev, k.Rev, k.Tip)}
		}
		id = c.parent
	}
}

func (s *Store) movedBack(k *known, v *view) error {
	return fmt.Errorf("%w: %s was moved back: it is at revision %d and was at %d (commit %.12s); "+
		"put that commit back, or go on from what is there with: tasklock init --raise", driver.ErrDamaged, s.where, v.rev, k.Rev, k.Tip)
}

// absent says what a missing branch means.
func (s *Store) absent() error {
	k, err := s.cache.load()
	switch {
	case err != nil:
		return err
	case k.Rev == 0:
		return fmt.Errorf("%w: no %s", driver.ErrMissing, s.where)
	}
	return &laggard{fmt.Errorf("%w: %s was deleted; it was at revision %d (commit %.12s); "+
		"put that commit back, or bring back what was last seen here with: tasklock init --raise", driver.ErrDamaged, s.where, k.Rev, k.Tip)}
}
