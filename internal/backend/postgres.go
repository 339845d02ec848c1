package backend

import (
	"context"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/internal/cli"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

// postgres examines a store in PostgreSQL, and what of its surroundings makes
// it slow or less durable than people think.
func postgres(ctx context.Context, url string) (cli.InspectReport, error) {
	r, err := pgstore.Inspect(ctx, url)
	report := cli.InspectReport{
		Path: r.Place, SafeFS: true, Version: r.Version, Bytes: r.Bytes, Problems: r.Problems,
		Facts: fmt.Sprintf("PostgreSQL %s, format %d, revision %d, %d records", r.Server, r.Version, r.Revision, r.Records),
	}
	if err != nil {
		return report, err
	}
	warn := func(remedy, text string, args ...any) {
		report.Warnings = append(report.Warnings, cli.Warning{Text: fmt.Sprintf(text, args...), Remedy: remedy})
	}
	switch {
	case r.ReadOnly:
		return report, fmt.Errorf("%w: %s can only be read: it is a standby, or read-only by its settings", driver.ErrDenied, r.Place)
	case !r.MayWrite:
		return report, fmt.Errorf("%w: the role may look at %s and not change it; the rights are in docs/backends/postgres.md", driver.ErrDenied, r.Place)
	}
	if r.Pooled {
		warn("psql -c 'SELECT 1' # with a URL that names the server itself",
			"a pooler stands between us and the server: it works, but waiters ask once a second instead of being woken")
	}
	if r.NotDurable {
		warn("psql -c 'ALTER SYSTEM SET fsync = on'", "fsync or full_page_writes is off at the server: a crash may lose what was acknowledged")
	}
	if old := time.Duration(r.OldestSeconds) * time.Second; old > time.Hour {
		warn("psql -c 'SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start'",
			"a transaction has been open for %v: while it is, every commit gets slower", old)
	}
	return report, nil
}
