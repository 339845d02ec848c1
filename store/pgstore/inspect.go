package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

const sqlInspect = trusted + `SELECT current_setting('server_version'), s.value ->> 'version', s.rev,
  (SELECT count(*) FROM @.record WHERE key > ''),
  pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
  current_setting('fsync') = 'off' OR current_setting('full_page_writes') = 'off',
  (SELECT bool_and(has_table_privilege('@.record', p) AND has_table_privilege('@.life', p)) FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p)
    AND (SELECT bool_and(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc WHERE pronamespace = '@'::regnamespace AND proname = 'commit'),
  (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::bigint FROM pg_stat_activity WHERE backend_xmin IS NOT NULL)
FROM @.record s WHERE s.key = ''`

const sqlProblems = trusted + `SELECT 'record ' || key || ' is not a JSON object' FROM @.record WHERE json_typeof(value) <> 'object'
UNION ALL SELECT 'record ' || r.key || ' is at revision ' || r.rev || ' and the store at ' || s.rev
  FROM @.record r, @.record s WHERE s.key = '' AND r.key > '' AND (r.rev > s.rev OR r.rev < 1)
UNION ALL SELECT 'the row with the empty key says ' || k.value || ' of the kind ' || k.key || ', which is not a revision'
  FROM @.record r, json_each_text(r.value -> 'kinds') k WHERE r.key = '' AND k.value !~ '^[0-9]{1,18}$'
UNION ALL SELECT 'record ' || key || ' is dated ' || time || ', which is to come' FROM @.record WHERE time > clock_timestamp() + interval '1 minute'
LIMIT 100`

// Inspect examines a store for a person who wants to know what is wrong with
// it. It changes nothing. The report lists damage that leaves the tables readable,
// and what makes the server slow or less durable than people think. An error means
// that there was nothing to examine, or that this role may only look.
func Inspect(ctx context.Context, url string) (driver.Report, error) {
	var r driver.Report
	s, err := newStore(url, &Options{})
	if err != nil {
		return r, err
	}
	defer func() { _ = s.Close() }()
	ctx, stop := s.limited(ctx, reading)
	defer stop()
	c, err := s.connect(ctx)
	if err != nil {
		return r, err
	}
	defer s.pool.drop(c)
	rows, err := c.exec(ctx, s.names.sql(sqlInspect))
	if err != nil {
		return r, s.explain(err)
	}
	if len(rows) != 1 {
		return r, s.damaged("the row with the empty key is missing")
	}
	row := rows[0]
	r.Facts = fmt.Sprintf("PostgreSQL %s, format %s, revision %s, %s records", row[0], row[1], row[2], row[3])
	if c.pooled {
		r.Warn("psql -c 'SELECT 1' # with a URL that names the server itself",
			"a pooler stands between us and the server: it works, but waiters ask once a second instead of being woken")
	}
	if c.durable == "" && row[4] == "f" {
		r.Warn("psql -c '"+s.grants()+"'", "this role may not use the sequence synced: its commits keep all others waiting while the server syncs its log")
	}
	surroundings(&r, row[5] == "t", time.Duration(number(row[7]))*time.Second)
	rows, err = c.exec(ctx, s.names.sql(sqlProblems))
	for _, row := range rows {
		r.Problems = append(r.Problems, row[0])
	}
	if err != nil {
		return r, s.explain(err)
	}
	return r, s.writable(row[4] == "t", row[6] == "t")
}

// surroundings warns of what the server's operators can mend.
func surroundings(r *driver.Report, notDurable bool, oldest time.Duration) {
	if notDurable {
		r.Warn("psql -c 'ALTER SYSTEM SET fsync = on'", "fsync or full_page_writes is off at the server: a crash may lose what was acknowledged")
	}
	if oldest > time.Hour {
		r.Warn("psql -c 'SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start'",
			"a transaction has been open for %v: while it is, every commit gets slower", oldest)
	}
}

// writable refuses a server, or a role, by which locks can be seen and not taken.
func (s *Store) writable(readOnly, mayWrite bool) error {
	switch {
	case readOnly:
		return fmt.Errorf("%w: %s can only be read: it is a standby, or read-only by its settings", driver.ErrDenied, s.where)
	case !mayWrite:
		return fmt.Errorf("%w: the role may look at %s and not change it; the rights are in docs/backends/postgres.md", driver.ErrDenied, s.where)
	}
	return nil
}
