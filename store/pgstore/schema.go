package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasklock/tasklock/fault"
	"github.com/tasklock/tasklock/store/driver"
)

// steps build the schema. A store at version n has had the first n; older ones
// get the rest from whoever opens them first. A released step is never changed.
// "@" stands for the schema.
//
// One table carries the driver: a row for each record with the server's time of
// its last write. Keys sort by their bytes. The table state has one row: the
// revision, the revision that last changed a record of each kind, and the
// server's timeline. Every commit locks and rewrites it.
//
// commit carries out batches that have nothing to do with each other: guards
// gb, gk, gr (batch, key, revision), guards of kinds kb, kk, kr, writes wb, wk,
// wv, deletions db, dk, and for each batch the kinds it changes cb, ck. It
// answers with the revision of each batch, 0 for one whose guards do not hold. It
// is a function on the server, because then a commit is one statement in one
// message: what the server has begun to do, it can finish without the client.
//
// Who listens holds the advisory lock shared; only then is anybody told.
var steps = []string{
	`
CREATE TABLE @.record (
  key text COLLATE "C" PRIMARY KEY,
  rev bigint NOT NULL,
  time timestamptz NOT NULL,
  value json NOT NULL
) WITH (fillfactor = 70);
CREATE TABLE @.state (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  version integer NOT NULL,
  rev bigint NOT NULL,
  line integer NOT NULL,
  kinds jsonb NOT NULL
) WITH (fillfactor = 10);
CREATE FUNCTION @.timeline() RETURNS integer LANGUAGE sql
RETURN ('x' || substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::bit(32)::integer;
CREATE FUNCTION @.commit(
  floors bigint[], gb integer[], gk text[], gr bigint[], kb integer[], kk text[], kr bigint[],
  wb integer[], wk text[], wv text[], db integer[], dk text[], cb integer[], ck text[], told text
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  st @.state;
  bad integer[];
  revs bigint[] := floors;
  last bigint;
  era integer := @.timeline();
BEGIN
  SELECT * INTO STRICT st FROM @.state FOR UPDATE;
  last := st.rev;
  IF era <> st.line THEN -- another server's history: stay above all it may have had
    last := last + 4294967296;
  END IF;
  SELECT array_agg(g.b) INTO bad FROM unnest(gb, gk, gr) g(b, k, r)
    WHERE g.r <> coalesce((SELECT rec.rev FROM @.record rec WHERE rec.key = g.k COLLATE "C"), 0);
  IF cardinality(kb) > 0 THEN
    SELECT bad || array_agg(g.b) INTO bad FROM unnest(kb, kk, kr) g(b, k, r)
      WHERE g.r < (st.kinds ->> g.k)::bigint;
  END IF;
  FOR i IN 1 .. cardinality(revs) LOOP
    IF i = ANY (bad) THEN
      revs[i] := 0;
    ELSE
      last := greatest(last + 1, floors[i]);
      revs[i] := last;
    END IF;
  END LOOP;
  IF cardinality(bad) > 0 AND NOT EXISTS (SELECT FROM unnest(revs) r WHERE r > 0) THEN
    RETURN revs;
  END IF;
  IF cardinality(db) > 0 THEN
    DELETE FROM @.record rec USING unnest(db, dk) d(b, k) WHERE rec.key = d.k COLLATE "C" AND revs[d.b] > 0;
  END IF;
  IF cardinality(wb) > 0 THEN
    INSERT INTO @.record AS rec SELECT w.k, revs[w.b], clock_timestamp(), w.v::json
      FROM unnest(wb, wk, wv) w(b, k, v) WHERE revs[w.b] > 0
      ON CONFLICT (key) DO UPDATE SET rev = excluded.rev, time = excluded.time, value = excluded.value;
  END IF;
  UPDATE @.state s SET rev = last, line = era, kinds = s.kinds ||
    (SELECT jsonb_object_agg(c.k, revs[c.b]) FROM unnest(cb, ck) c(b, k) WHERE revs[c.b] > 0);
  IF NOT pg_try_advisory_xact_lock(@listen) THEN
    PERFORM pg_notify(@text, told);
  END IF;
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  RETURN revs;
END $$;
INSERT INTO @.state (version, rev, line, kinds) VALUES (0, 0, @.timeline(), '{}');
`,
	`
CREATE VIEW @.held_locks AS
SELECT substr(k.key, 6) AS key, k.rev AS token, k.value ->> 'owner' AS owner,
  (k.value ->> 'since')::timestamptz AS acquired_at,
  l.time + make_interval(secs => (l.value ->> 'ttlSeconds')::double precision) AS expires_at,
  l.time AS heartbeat_at
FROM @.record k JOIN @.record l ON l.key = 'lease/' || (k.value ->> 'lease')
WHERE k.key > 'lock/' AND k.key < 'lock0';
CREATE VIEW @.task_locks AS
SELECT key AS task_id, owner AS runner_id, acquired_at, expires_at, heartbeat_at
FROM @.held_locks WHERE key !~ '^(section|job|path):';
CREATE VIEW @.section_locks AS
SELECT substr(key, 9) AS section_id, owner AS runner_id, acquired_at, expires_at
FROM @.held_locks WHERE key LIKE 'section:%';
CREATE VIEW @.active_locks AS
SELECT 'task_lock:' || regexp_replace(key, '^job:', '') || ':' || token AS key,
  json_build_object('process_id', owner, 'acquired_at', extract(epoch FROM acquired_at),
    'expires_at', extract(epoch FROM expires_at), 'token', token, 'key', key) AS value
FROM @.held_locks WHERE expires_at > clock_timestamp();
CREATE VIEW @.runs AS
SELECT 'task_lock:' || substr(key, 6) AS key, value, time
FROM @.record WHERE key > 'fire/' AND key < 'fire0';
`,
}

// sqlGreet is the first thing that is asked on every connection.
const sqlGreet = `SELECT version, pg_backend_pid() FROM @.state`

// build is the SQL of the steps from a version on.
func (n names) build(from int) string {
	sql := strings.Join(steps[from:], "")
	if fault.Bug("pg_now") {
		sql = strings.ReplaceAll(sql, "clock_timestamp()", "now()")
	}
	if fault.Bug("sequence_revision") { // numbers are drawn before the turn has come
		sql = strings.Replace(sql, "CREATE FUNCTION @.commit", "CREATE SEQUENCE @.revision;\nCREATE FUNCTION @.commit", 1)
		sql = strings.Replace(sql, "last bigint;", "last bigint; mine bigint := nextval('@.revision') + (0 * length(pg_sleep(0.002 * random())::text));", 1)
		sql = strings.Replace(sql, "last := st.rev;", "last := mine * 1000;", 1)
	}
	sql = strings.NewReplacer("@listen", fmt.Sprint(n.listen), "@text", n.text, "@", n.quoted).Replace(sql)
	return sql + fmt.Sprintf("UPDATE %s.state SET version = %d;", n.quoted, len(steps))
}

// create makes the schema, or what is missing of it. Others who come for the
// same wait, and find it done.
func (s *Store) create(ctx context.Context) error {
	ctx, stop := s.limited(ctx)
	defer stop()
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer s.pool.drop(c)
	if encoding := c.pg.ParameterStatus("server_encoding"); encoding != "UTF8" {
		return s.wrongEncoding(encoding)
	}
	if _, err := c.exec(ctx, fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(%d)", s.names.create)); err != nil {
		return s.explain(err)
	}
	version, err := s.version(ctx, c)
	switch {
	case err != nil:
		return err
	case version > len(steps):
		return s.newer(version)
	case version == len(steps):
		return nil
	}
	sql := s.names.build(max(version, 0))
	if version == noSchema {
		sql = "CREATE SCHEMA " + s.names.quoted + ";" + sql
	}
	if _, err = c.exec(ctx, sql+"COMMIT"); code(err) == "42501" {
		return s.mayNotCreate(err, version)
	}
	return s.explain(err)
}

// What version answers besides the number of steps that were made.
const (
	noTables = 0
	noSchema = -1
)

// version asks how far the schema is built.
func (s *Store) version(ctx context.Context, c *conn) (int, error) {
	rows, err := c.exec(ctx, fmt.Sprintf(`SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = %[1]s),
		(SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = %[1]s AND relname = 'state'),
		(SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = %[1]s AND relname = 'record')`, s.names.text))
	if err != nil {
		return 0, s.explain(err)
	}
	if len(rows) != 1 {
		return 0, errors.New("the server gave no answer")
	}
	switch schema, state, record := number(rows[0][0]), number(rows[0][1]), number(rows[0][2]); {
	case schema == 0:
		return noSchema, nil
	case state == 0 && record == 0:
		return noTables, nil
	case state == 0 || record == 0:
		return 0, fmt.Errorf("%w: %s has lost one of its tables record and state; restore it from a backup", driver.ErrDamaged, s.where)
	}
	rows, err = c.exec(ctx, "SELECT version FROM "+s.names.quoted+".state")
	switch {
	case err != nil:
		return 0, s.explain(err)
	case len(rows) != 1:
		return 0, fmt.Errorf("%w: the table state in %s has %d rows, not one; restore it from a backup", driver.ErrDamaged, s.where, len(rows))
	}
	return int(number(rows[0][0])), nil
}

func (s *Store) newer(version int) error {
	return fmt.Errorf("%w: %s has version %d, this tasklock knows up to %d: upgrade it", driver.ErrNewer, s.where, version, len(steps))
}

func (s *Store) wrongEncoding(encoding string) error {
	return fmt.Errorf("%w: database %s has the encoding %s and must have UTF8: make another with createdb -E UTF8 -T template0 NAME",
		driver.ErrUnsafe, s.cfg.Database, encoding)
}

// mayNotCreate tells a role without rights what to ask its administrator for.
func (s *Store) mayNotCreate(err error, version int) error {
	what := "make"
	if version > 0 {
		what = "upgrade"
	}
	return fmt.Errorf("%w: user %s may not %s %s (%s); an administrator can, once: tasklock --store 'postgres://ADMIN@%s/%s?schema=%s' init, and then as in docs/backends/postgres.md: %s",
		driver.ErrDenied, s.cfg.User, what, s.where, words(err), s.cfg.Host, s.cfg.Database, s.names.schema, s.grants())
}

// grants is what a role needs to use the schema.
func (s *Store) grants() string {
	user := `"` + strings.ReplaceAll(s.cfg.User, `"`, `""`) + `"`
	return fmt.Sprintf("GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO %[2]s",
		s.names.quoted, user)
}

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
