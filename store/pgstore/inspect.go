package pgstore

import (
	"context"
)

// A Report is what [Inspect] found.
type Report struct {
	Place         string // without credentials
	Server        string // its version
	Version       int    // of the schema
	Revision      int64
	Records       int64
	Bytes         int64 // of the tables and their indexes
	Pooled        bool  // a pooler stands in between: waiters ask instead of listening
	ReadOnly      bool  // a standby, or a session that may not write
	NotDurable    bool  // fsync or full_page_writes is off: a crash may lose commits
	MayWrite      bool  // the role's rights suffice
	OldestSeconds int64 // age of the oldest transaction that keeps dead rows from being removed
	Problems      []string
}

const sqlInspect = trusted + `SELECT current_setting('server_version'), s.value ->> 'version', s.rev,
  (SELECT count(*) FROM @.record WHERE key > ''), pg_total_relation_size('@.record'),
  pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
  current_setting('fsync') = 'off' OR current_setting('full_page_writes') = 'off',
  (SELECT bool_and(has_table_privilege('@.record', p)) FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p)
    AND (SELECT bool_and(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc WHERE pronamespace = '@'::regnamespace AND proname = 'commit'),
  (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::bigint FROM pg_stat_activity WHERE backend_xmin IS NOT NULL)
FROM @.record s WHERE s.key = ''`

const sqlProblems = trusted + `SELECT 'record ' || key || ' is not a JSON object' FROM @.record WHERE json_typeof(value) <> 'object'
UNION ALL SELECT 'record ' || r.key || ' is at revision ' || r.rev || ' and the store at ' || s.rev
  FROM @.record r, @.record s WHERE s.key = '' AND r.key > '' AND (r.rev > s.rev OR r.rev < 1)
UNION ALL SELECT 'the row with the empty key says ' || k.value || ' of the kind ' || k.key || ', which is no revision'
  FROM @.record r, json_each_text(r.value -> 'kinds') k WHERE r.key = '' AND k.value !~ '^[0-9]{1,18}$'
UNION ALL SELECT 'record ' || key || ' is dated ' || time || ', which is to come' FROM @.record WHERE time > clock_timestamp() + interval '1 minute'
LIMIT 100`

// Inspect examines a store for a person who wants to know what is wrong with
// it. It changes nothing. The report lists damage that leaves the tables
// readable; an error means that there was nothing to examine.
func Inspect(ctx context.Context, url string) (Report, error) {
	s, err := newStore(url, &Options{})
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = s.Close() }()
	r := Report{Place: s.where}
	ctx, stop := s.limited(ctx, reading)
	defer stop()
	c, err := s.connect(ctx)
	if err != nil {
		return r, err
	}
	defer s.pool.drop(c)
	r.Pooled = c.pooled
	rows, err := c.exec(ctx, s.names.sql(sqlInspect))
	if err != nil {
		return r, s.explain(err)
	}
	if len(rows) != 1 {
		return r, s.damaged("the row with the empty key is missing")
	}
	row := rows[0]
	r.Server, r.Version, r.Revision = row[0], int(number(row[1])), number(row[2])
	r.Records, r.Bytes = number(row[3]), number(row[4])
	r.ReadOnly, r.NotDurable, r.MayWrite, r.OldestSeconds = row[5] == "t", row[6] == "t", row[7] == "t", number(row[8])
	rows, err = c.exec(ctx, s.names.sql(sqlProblems))
	for _, row := range rows {
		r.Problems = append(r.Problems, row[0])
	}
	return r, s.explain(err)
}
