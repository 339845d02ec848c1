package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasklock/tasklock/store/driver"
)

// steps build the schema. A store at version n has had the first n. Upgrade adds
// the rest to an older one; opening it does not, because that stops everyone who
// still works with an older tasklock. A released step never changes, except that
// a later step that makes the same things again replaces it: the fourth makes the
// views of the second, the sixth the function of the first, the third and the
// fourth, and all that the fifth made. "@" is the schema.
//
// Another role may create functions and operators in a schema of our search_path,
// for example an = or <> that fits our types better than the server's own. So
// everything we run either names pg_catalog, or runs with a search_path that has
// nothing else: see trusted.
//
// One table carries the driver: a row for each record with the server's time of
// its last write. Keys sort by their bytes. One more row, with an empty key, has
// the store's revision and, as its value, the version of the schema, the
// server's timeline, and the revision that last changed a record of each kind.
// It is in the same table because every commit writes it and every read reads
// it: that saves each of them a statement.
//
// commit carries out n independent batches. The i-th of those that are granted gets
// the revision base + i. It gets guards gb, gk, gr (batch, key, revision; of a kind
// -1 - revision), writes wb, wk, wv of which the last is the row of the store,
// deletions db, dk, and for each kind that changes the last batch that changes it
// and the kind as JSON with a comma before it and a colon after it: cb, ck. there
// has all records that the guards want to exist, revision and key, sorted by key. If
// exactly these exist, which is one comparison, every guard holds; otherwise, or if
// there is NULL, commit looks at each guard. It answers with base, the store's
// revision, the time of the writes in microseconds, the server's life, its timeline,
// and the batches whose guards do not hold. Commits take turns by an advisory lock,
// so that a refused commit leaves nothing to sync; what it reads after it has the
// lock is final.
//
// Each expression and each statement of it costs some microseconds in every
// transaction, and what it skips costs nothing: so the usual commit runs few.
//
// Revisions are at least floor. If floor is negative, the caller promises a durable
// statement in a second transaction of the same message. Then the commit does not
// wait for the server's log while it has the turn: others may see it some
// milliseconds before it lasts, the caller gets its answer when it does. A crash
// can take back what others have seen, and no revision may be given out twice. So
// life is an unlogged table with one row, which every crash empties, also one of a
// single process of the server. The commit that finds it empty leaps ahead, and
// waits for the log in its turn, so that nobody sees a leap that can be taken
// back. If somebody has made the table a logged one, which the server would
// publish, it shows no crash, and all commits wait. If floor is -1,
// tasklock.unsynced, a setting of the session, shows the durable statement that
// there is something to sync. It is -2 in the procedure save, which knows that.
//
// Any role that may connect can hold that lock and keep everybody from
// committing. So the wait for it ends before the client's patience: then the
// client knows that nothing was written.
//
// It is a function on the server, so a commit is one statement in one message:
// the server can finish what it has begun without the client. Sessions have it plan
// once, with plans that stay right when the table grows (planOnce): planning each
// call would take longer than all the rest.
//
// Listeners share the other advisory lock; commits notify only while one does.
var steps = []string{
	`
CREATE TABLE @.record (
  key text COLLATE "C" PRIMARY KEY,
  rev bigint NOT NULL,
  time timestamptz NOT NULL,
  value json NOT NULL
) WITH (fillfactor = 70);
INSERT INTO @.record VALUES ('', 0, clock_timestamp(), json_build_object('version', 0, 'line', @timeline, 'kinds', json_build_object()));
`,
	``, ``, `
CREATE OR REPLACE VIEW @.held_locks AS
SELECT substr(k.key, 6) AS key, k.rev AS token, k.value ->> 'owner' AS owner,
  (k.value ->> 'since')::timestamptz AS acquired_at,
  l.time + make_interval(secs => (l.value ->> 'ttlSeconds')::double precision) AS expires_at,
  l.time AS heartbeat_at
FROM @.record k JOIN @.record l ON l.key = 'lease/' || (k.value ->> 'lease')
WHERE k.key > 'lock/' AND k.key < 'lock0';
CREATE OR REPLACE VIEW @.task_locks AS
SELECT key AS task_id, owner AS runner_id, acquired_at, expires_at, heartbeat_at
FROM @.held_locks WHERE key !~ '^(section|job|path):';
CREATE OR REPLACE VIEW @.section_locks AS
SELECT substr(key, 9) AS section_id, owner AS runner_id, acquired_at, expires_at
FROM @.held_locks WHERE key LIKE 'section:%';
CREATE OR REPLACE VIEW @.active_locks AS
SELECT 'task_lock:' || regexp_replace(key, '^job:', '') || ':' || token AS key,
  json_build_object('process_id', owner, 'acquired_at', extract(epoch FROM acquired_at),
    'expires_at', extract(epoch FROM expires_at), 'token', token, 'key', key) AS value
FROM @.held_locks WHERE expires_at > clock_timestamp();
CREATE OR REPLACE VIEW @.runs AS
SELECT 'task_lock:' || (value ->> 'job') || ':' || (value ->> 'fireTime') AS key, value, value ->> 'state' AS state,
  (value ->> 'fireTime')::timestamptz AS fire_time, (value ->> 'claimedAt')::timestamptz AS claimed_at,
  (value ->> 'endedAt')::timestamptz AS ended_at
FROM @.record WHERE key > 'fire/' AND key < 'fire0';
CREATE OR REPLACE VIEW @.last_runs AS
SELECT key, value FROM @.runs ORDER BY coalesce(claimed_at, fire_time) DESC NULLS LAST LIMIT 20;
`, ``, lifeTables + `
DROP FUNCTION IF EXISTS @.commit(bigint[], integer[], text[], bigint[], integer[], text[], bigint[],
  integer[], text[], text[], integer[], text[], integer[], text[], text);
` + commitFunction + saveProcedure + `
DO $do$
DECLARE
  r record;
BEGIN
  FOR r IN SELECT a.privilege_type AS what, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS who
    FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
    WHERE c.oid = '@.record'::regclass AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  LOOP
    EXECUTE format('GRANT %s ON %s TO %s', r.what, '@.life', r.who);
    IF r.what = 'INSERT' THEN
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', '@.commit', r.who);
      EXECUTE format('GRANT EXECUTE ON PROCEDURE %s TO %s', '@.save', r.who);
    END IF;
    IF r.what IN ('SELECT', 'UPDATE') THEN
      EXECUTE format('GRANT %s ON SEQUENCE %s TO %s', r.what, '@.synced', r.who);
    END IF;
  END LOOP;
END $do$;
`,
}

// lifeTables and commitFunction are what a commit of this version needs of the sixth
// step. They can stand in an older schema: see prepare. Only a new store knows its
// life at once. Any other leaps: perhaps the table that is dropped showed a crash.
const lifeTables = `
DROP TABLE IF EXISTS @.life;
CREATE UNLOGGED TABLE @.life (one boolean PRIMARY KEY CHECK (one), id bigint NOT NULL);
DROP SEQUENCE IF EXISTS @.synced;
CREATE SEQUENCE @.synced;
INSERT INTO @.life VALUES (true, @chance);
UPDATE @.record SET value = jsonb_set(value::jsonb, '{life}', to_jsonb((SELECT id FROM @.life))) WHERE key = '' AND rev = 0;
`

const commitFunction = `
CREATE OR REPLACE FUNCTION @.commit(
  n integer, floor bigint, gb integer[], gk text[], gr bigint[], there text[],
  wb integer[], wk text[], wv text[], db integer[], dk text[], cb integer[], ck text[]
) RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '@patience' AS $$
DECLARE
  base bigint;
  state jsonb;
  moment timestamptz;
  alive bigint;
  era bigint := @timeline; -- fails on a standby
  fine boolean;
  bad integer[];
  place integer[];
  changed text := '';
  clock bigint;
  lifted bigint;
  done text;
BEGIN
  fine := pg_advisory_xact_lock(@turn) IS NOT NULL;
  SELECT s.rev, s.value, clock_timestamp(), (SELECT l.id FROM @.life l WHERE l.one),
      there = ARRAY(SELECT t.rev || t.key FROM @.record t WHERE t.key = ANY (gk) ORDER BY t.key)
    INTO STRICT base, state, moment, alive, fine FROM @.record s WHERE s.key = '';
  IF fine IS NOT TRUE THEN -- look at each guard
    SELECT array_agg(DISTINCT g.b) INTO bad FROM unnest(gb, gk, gr) g(b, k, r) WHERE CASE
      WHEN g.r >= 0 THEN g.r <> coalesce((SELECT t.rev FROM @.record t WHERE t.key = g.k), 0)
      ELSE -1 - g.r < (state -> 'kinds' ->> g.k)::bigint END;
  END IF;
  IF bad IS NOT NULL THEN -- the others stay, and close ranks
    SELECT array_agg(CASE WHEN i = ANY (bad) THEN 0 ELSE i - (SELECT count(*) FROM unnest(bad) b WHERE b < i) END ORDER BY i)
      INTO place FROM generate_series(1, n) i;
    n := n - cardinality(bad);
    IF n = 0 THEN
      RETURN ARRAY[base, base, (date_part('epoch', moment) * 1000000)::bigint, coalesce(alive, 0), era] || bad; -- nothing to write, nothing to sync
    END IF;
    SELECT array_agg(c.b), array_agg(c.k) INTO cb, ck FROM (
      SELECT max(place[w.b]) AS b, ',' || to_json(substring(w.k FROM '^[^/]*/')) || ':' AS k
      FROM unnest(wb || db, wk || dk) w(b, k) WHERE w.k > '' GROUP BY 2) c WHERE c.b > 0;
    SELECT array_agg(CASE w.k WHEN '' THEN n ELSE place[w.b] END ORDER BY w.i), array_agg(w.k ORDER BY w.i), array_agg(w.v ORDER BY w.i)
      INTO wb, wk, wv FROM unnest(wb, wk, wv) WITH ORDINALITY w(b, k, v, i) WHERE w.k = '' OR place[w.b] > 0;
    dk := ARRAY(SELECT d.k FROM unnest(db, dk) d(b, k) WHERE place[d.b] > 0);
  END IF;
  fine := coalesce(alive = (state ->> 'life')::bigint AND era = (state ->> 'line')::bigint, false);
  IF NOT fine THEN
    IF era <> (state ->> 'line')::bigint THEN -- another server's history: stay above all it may have had
      clock := least(4503599627370496, greatest(0, (extract(epoch FROM moment) - 1767225600) * 2000000))::bigint;
      lifted := greatest(base + 4294967296, clock) + floor(random() * 268435456)::bigint; -- driver.Lift
      base := CASE WHEN lifted < 9007199254740991 THEN lifted ELSE base + greatest(1, (9007199254740991 - base) / 2) END;
    END IF;
    IF alive IS DISTINCT FROM (state ->> 'life')::bigint OR alive IS NULL THEN -- the server has crashed: stay above all it may have shown
      base := least(base + 1048576, greatest(base, 9007199254740990));
    END IF;
    alive := @chance;
    DELETE FROM @.life l WHERE l.one;
    INSERT INTO @.life VALUES (true, alive);
    state := state || jsonb_build_object('line', era, 'life', alive);
    done := set_config('tasklock.leapt', 'yes', true);
  END IF;
  base := greatest(base, floor - 1);
  FOR i IN 1 .. cardinality(ck) LOOP
    changed := changed || ck[i] || base + cb[i];
  END LOOP;
  wv[cardinality(wv)] := jsonb_set(state, '{kinds}', (state -> 'kinds') || ('{' || substr(changed, 2) || '}')::jsonb);
  IF dk <> '{}' THEN
    DELETE FROM @.record t WHERE t.key = ANY (dk);
  END IF;
  INSERT INTO @.record SELECT w.k, base + w.b, moment, w.v::json FROM unnest(wb, wk, wv) w(b, k, v)
    ON CONFLICT (key) DO UPDATE SET rev = excluded.rev, time = excluded.time, value = excluded.value;
  IF NOT pg_try_advisory_xact_lock(@listen) THEN
    done := to_json(wk[:cardinality(wk) - 1] || dk);
    PERFORM pg_notify(@text, CASE WHEN octet_length(done) <= @told THEN done ELSE '' END);
  END IF;
  IF floor = -1 THEN
    done := set_config('tasklock.unsynced', 'yes', false);
  END IF;
  IF floor < 0 AND current_setting('tasklock.leapt', true) IS DISTINCT FROM 'yes' AND NOT pg_relation_is_publishable('@.life') THEN
    done := set_config('synchronous_commit', 'off', true);
  ELSIF current_setting('synchronous_commit') IN ('off', 'local') THEN
    done := set_config('synchronous_commit', 'on', true);
  END IF;
  RETURN ARRAY[base, base + n, (date_part('epoch', moment) * 1000000)::bigint, alive, era] || bad;
END $$;
`

// saveProcedure commits, which ends its turn, and makes that last in a second
// transaction, all in one statement. A procedure that ends transactions can have no
// search_path of its own, so this one names the schema of everything. It takes the
// parameters of commit, after message: whether the durable statement is a message.
const saveProcedure = `
CREATE OR REPLACE PROCEDURE @.save(
  INOUT answer bigint[], message boolean, n integer, gb integer[], gk text[], gr bigint[], there text[],
  wb integer[], wk text[], wv text[], db integer[], dk text[], cb integer[], ck text[]
) LANGUAGE plpgsql AS $$
DECLARE
  done pg_catalog.text NOT NULL := '';
BEGIN
  answer := @.commit(n, (-2)::bigint, gb, gk, gr, there, wb, wk, wv, db, dk, cb, ck);
  COMMIT; -- of a refusal too: the end of the message may never come, and nobody else would get the turn
  IF answer[1] OPERATOR(pg_catalog.<) answer[2] THEN -- else nothing was written
    done := CASE WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) ANY ('{off,local}'::pg_catalog.text[])
      THEN pg_catalog.set_config('synchronous_commit', 'on', true) ELSE '' END;
    done := CASE WHEN message THEN @message::pg_catalog.text ELSE @sequence::pg_catalog.text END
      OPERATOR(pg_catalog.||) pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text; -- NULL is an error: see sqlDurable
  END IF;
END $$;
`

// chance is the id of a life.
const chance = `floor(random() * 9007199254740991)::bigint`

// timeline is the number of the server's history. It changes when a standby
// takes over and when a backup is restored.
const timeline = `('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer`

// trusted makes the rest of a message find only what the server itself has, and
// only during the message or its transaction: a pooler gives the session to
// others. Temporary objects come last.
const trusted = "SET LOCAL search_path = pg_catalog, pg_temp; "

// sqlGreet is the first question on every connection. If it is really ours, and no
// pooler's, it keeps our settings: $pid is its process number.
const sqlGreet = trusted + `SELECT value ->> 'version', pg_backend_pid(),
  json_typeof(value -> 'kinds') = 'object' AND value ->> 'line' ~ '^[0-9]+$',
  CASE WHEN has_sequence_privilege(to_regclass('@.synced'), 'UPDATE')
      AND (SELECT relpersistence FROM pg_class WHERE oid = to_regclass('@.synced')) = 'p' THEN 'sequence'
    WHEN (SELECT bool_and(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc
      WHERE proname = 'pg_logical_emit_message' AND pronamespace = 'pg_catalog'::regnamespace) THEN 'message' END,
  has_function_privilege(to_regprocedure('@.save(bigint[],boolean,integer,integer[],text[],bigint[],text[],integer[],text[],text[],integer[],text[],integer[],text[])'), 'EXECUTE'),
  CASE WHEN pg_backend_pid() = $pid THEN @settings END
FROM @.record WHERE key = ''`

// build is the SQL of the steps from a version on.
func (n names) build(from int) string {
	sql := strings.Join(steps[from:], "")
	sql = n.fill(sql)
	return sql + fmt.Sprintf("UPDATE %s.record SET value = jsonb_set(value::jsonb, '{version}', '%d') WHERE key = '';", n.quoted, len(steps))
}

// fill puts the names of the schema into the SQL of a step.
func (n names) fill(sql string) string {
	return strings.NewReplacer("@turn", fmt.Sprint(n.turn), "@listen", fmt.Sprint(n.listen), "@text", n.text, "@patience", turnPatience.String(), "@told", fmt.Sprint(maxTold), "@timeline", timeline, "@chance", chance, "@message", sqlMessage, "@sequence", n.sql(sqlSequence), "@", n.quoted).Replace(sql)
}

// prepare lets this version commit to an older schema, once: an upgrade closes the
// store for older versions before it changes the schema. They go on with their own
// function, which has other parameters, until the store is closed. If the upgrade is
// refused after that, what was made stays. It does no harm: older versions do not
// use it, commits of this one wait for the log there, and the next upgrade makes it anew.
func (s *Store) prepare(ctx context.Context) error {
	s.mu.Lock()
	needed := s.outdated && !s.prepared
	s.mu.Unlock()
	if !needed {
		return nil
	}
	ctx, stop := s.limited(ctx, writing)
	defer stop()
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer s.pool.drop(c)
	begin := fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; %sSET LOCAL lock_timeout = '%v'; SELECT pg_advisory_xact_lock(%d); SELECT pg_advisory_xact_lock(%d)",
		trusted, turnPatience, s.names.create, s.names.turn)
	if _, err := c.exec(ctx, begin); tired(err) {
		_, _ = c.exec(ctx, "ROLLBACK")
		return s.noTurn(ctx, c, s.names.turn)
	} else if err != nil {
		return s.explain(err)
	}
	version, err := s.version(ctx, c)
	if err != nil {
		return err
	}
	sql := ""
	if version > noTables && version < len(steps) {
		sql = s.names.fill(lifeTables + commitFunction)
	}
	_, err = c.exec(ctx, sql+"COMMIT")
	if code(err) == "42501" {
		return s.mayNotCreate(err, version)
	}
	if err == nil {
		s.mu.Lock()
		s.prepared = true
		s.mu.Unlock()
	}
	return s.explain(err)
}

// create makes the schema, or with upgrade its missing parts. Others that want
// the same wait, and find it done.
func (s *Store) create(ctx context.Context, upgrade bool) error {
	ctx, stop := s.limited(ctx, writing)
	defer stop()
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer s.pool.drop(c)
	if encoding := c.pg.ParameterStatus("server_encoding"); encoding != "UTF8" {
		return s.wrongEncoding(encoding)
	}
	begin := fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; %sSET LOCAL lock_timeout = '%v'; SELECT pg_advisory_xact_lock(%d)", trusted, turnPatience, s.names.create)
	if _, err := c.exec(ctx, begin); tired(err) {
		_, _ = c.exec(ctx, "ROLLBACK")
		return s.noTurn(ctx, c, s.names.create)
	} else if err != nil {
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
	case version > noTables && !upgrade:
		return s.older(version)
	}
	sql := s.names.build(max(version, 0))
	switch {
	case version == noSchema:
		sql = "CREATE SCHEMA " + s.names.quoted + ";" + sql
	case version > noTables: // a running commit would write back the version that it has read
		sql = fmt.Sprintf("SELECT pg_advisory_xact_lock(%d);", s.names.turn) + sql
	}
	_, err = c.exec(ctx, sql+"COMMIT")
	if tired(err) {
		_, _ = c.exec(ctx, "ROLLBACK")
		return s.noTurn(ctx, c, s.names.turn)
	}
	switch code(err) {
	case "42501":
		return s.mayNotCreate(err, version)
	case "42883", "0A000": // a server that speaks the protocol but lacks features
		return fmt.Errorf("%w: the server at %s is not the PostgreSQL that tasklock needs: %s", driver.ErrUnsafe, s.cfg.Host, words(err))
	}
	return s.explain(err)
}

// Answers of version besides the number of completed steps.
const (
	noTables = 0
	noSchema = -1
)

// version returns how many steps the schema has.
func (s *Store) version(ctx context.Context, c *conn) (int, error) {
	rows, err := c.exec(ctx, fmt.Sprintf(trusted+`SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = %[1]s),
		(SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = %[1]s AND relname = 'record'),
		(SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE nspname = %[1]s AND proname = 'commit')`, s.names.text))
	if err != nil {
		return 0, s.explain(err)
	}
	if len(rows) != 1 {
		return 0, errors.New("the server gave no answer")
	}
	switch schema, table, function := number(rows[0][0]), number(rows[0][1]), number(rows[0][2]); {
	case schema == 0:
		return noSchema, nil
	case table == 0 && function == 0:
		return noTables, nil
	case table == 0 || function == 0:
		return 0, s.damaged("the table record or the function commit is missing")
	}
	rows, err = c.greet(ctx, s.names.greet)
	switch {
	case err != nil:
		return 0, s.explain(err)
	case len(rows) != 1:
		return 0, s.damaged("the row with the empty key is missing")
	}
	return int(number(rows[0][0])), nil
}

func (s *Store) newer(version int) error {
	return driver.Newer(s.where, version, len(steps))
}

func (s *Store) wrongEncoding(encoding string) error {
	return fmt.Errorf("%w: database %s has the encoding %s and must have UTF8: make another with createdb -E UTF8 -T template0 NAME",
		driver.ErrUnsafe, s.cfg.Database, encoding)
}

// mayNotCreate says what a role without rights must ask its administrator for.
func (s *Store) mayNotCreate(err error, version int) error {
	what, command := "make", "init"
	if version > noTables {
		what, command = "upgrade", "init --upgrade"
	}
	return fmt.Errorf("%w: user %s may not %s %s (%s); an administrator can, once: tasklock --store '%s' %s, and then as in docs/backends/postgres.md: %s",
		driver.ErrDenied, s.cfg.User, what, s.where, words(err), administration(s.cfg, s.names.schema), command, s.grants())
}

// grants is the SQL that lets a role use the schema.
func (s *Store) grants() string {
	user := `"` + strings.ReplaceAll(s.cfg.User, `"`, `""`) + `"`
	return fmt.Sprintf("GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO %[2]s; GRANT UPDATE ON ALL SEQUENCES IN SCHEMA %[1]s TO %[2]s; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA %[1]s TO %[2]s",
		s.names.quoted, user)
}

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
