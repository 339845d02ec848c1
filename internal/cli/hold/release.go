package hold

import (
	"context"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// ReleaseAll repeats the release of everything until nothing is left: one commit
// has room for some hundred leases.
func ReleaseAll(ctx context.Context, st *store.Store, r lease.ReleaseRequest) (out lease.ReleaseResult, err error) {
	for {
		some, err := lease.Release(ctx, st, r)
		if err != nil {
			return out, err
		}
		out.Released = append(out.Released, some.Released...)
		out.Free = append(out.Free, some.Free...)
		out.Left, out.Never = some.Left, some.Never
		if !r.All || r.DryRun || len(some.Released) == 0 {
			return out, nil
		}
	}
}
