package guard

import (
	"context"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// A TouchedFile is a file that somebody else has locked.
type TouchedFile struct {
	File      string       `json:"file"`
	Key       string       `json:"key"`
	Owner     string       `json:"owner"`
	ExpiresAt lease.Expiry `json:"expiresAt"`
	Reason    string       `json:"reason,omitempty"` // in the holder's words
}

// Touched compares files, by their names in the repository, with the locks of
// others.
func Touched(ctx context.Context, st *store.Store, owners, files []string) ([]TouchedFile, error) {
	globs := make([]lease.Glob, len(files))
	for i, f := range files {
		globs[i] = lease.File(f)
	}
	found, err := lease.Touching(ctx, st, lease.TouchingRequest{Owners: owners, Places: globs})
	if err != nil {
		return nil, err
	}
	out := []TouchedFile{}
	for _, l := range found {
		_, name := lease.KindOf(l.Key)
		g, err := lease.ParseGlob(name)
		if err != nil {
			return nil, err
		}
		for i, f := range files {
			if g.Overlaps(globs[i]) {
				out = append(out, TouchedFile{f, l.Key, l.Owner, l.ExpiresAt, l.Reason})
			}
		}
	}
	return out, nil
}
