package pgstore_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

// planted is what a role that may create in public can put in our way: operators
// and functions that fit our types better than the server's own. Each says that
// it was called; <> also says that there are no guards.
const planted = `
CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO mallory; SET ROLE mallory;
CREATE TABLE public.seen (what text, who text);
GRANT ALL ON public.seen TO PUBLIC;
DO $do$
DECLARE
  t text;
  note text := 'INSERT INTO public.seen VALUES (%1$L, current_user);';
BEGIN
  FOREACH t IN ARRAY '{integer[],bigint[],text[]}'::text[] LOOP
    EXECUTE format('CREATE FUNCTION public.bad_ne(%2$s, %2$s) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN ' || note || ' RETURN false; END $f$', '<> ' || t, t);
    EXECUTE format('CREATE OPERATOR public.<> (LEFTARG = %1$s, RIGHTARG = %1$s, FUNCTION = public.bad_ne)', t);
    EXECUTE format('CREATE FUNCTION public.bad_cat(%2$s, %2$s) RETURNS %2$s LANGUAGE plpgsql AS $f$ BEGIN ' || note || ' RETURN array_cat($1, $2); END $f$', '|| ' || t, t);
    EXECUTE format('CREATE OPERATOR public.|| (LEFTARG = %1$s, RIGHTARG = %1$s, FUNCTION = public.bad_cat)', t);
    EXECUTE format('CREATE FUNCTION public.cardinality(%2$s) RETURNS integer LANGUAGE plpgsql AS $f$ BEGIN ' || note || ' RETURN pg_catalog.cardinality($1); END $f$', 'cardinality ' || t, t);
    EXECUTE format('CREATE FUNCTION public.unnest(%2$s) RETURNS SETOF %3$s LANGUAGE plpgsql AS $f$ BEGIN ' || note || ' RETURN QUERY SELECT pg_catalog.unnest($1); END $f$',
      'unnest ' || t, t, replace(t, '[]', ''));
  END LOOP;
  EXECUTE format('CREATE FUNCTION public.bad_text(text, bigint) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN ' || note || ' RETURN $1 || $2::text; END $f$', '|| text');
  CREATE OPERATOR public.|| (LEFTARG = text, RIGHTARG = bigint, FUNCTION = public.bad_text);
  EXECUTE format('CREATE FUNCTION public.jsonb_set(jsonb, text[], jsonb) RETURNS jsonb LANGUAGE plpgsql AS $f$ BEGIN ' || note || ' RETURN pg_catalog.jsonb_set($1, $2, $3, true); END $f$', 'jsonb_set');
  EXECUTE format('CREATE FUNCTION public.jsonb_build_object(text, integer) RETURNS jsonb LANGUAGE plpgsql AS $f$ BEGIN ' || note || ' RETURN pg_catalog.jsonb_build_object($1, $2); END $f$', 'jsonb_build_object');
  EXECUTE format('CREATE FUNCTION public.bad_add(integer[], integer) RETURNS integer[] LANGUAGE plpgsql AS $f$ BEGIN ' || note || ' RETURN pg_catalog.array_append($1, $2); END $f$', 'array_agg');
  CREATE AGGREGATE public.array_agg(integer) (SFUNC = public.bad_add, STYPE = integer[]);
  EXECUTE format('CREATE FUNCTION public.commit(' || rtrim(repeat('text,', 13), ',') || ') RETURNS bigint[] LANGUAGE plpgsql AS $f$ BEGIN ' || note || $$ RETURN '{1,1}'; END $f$ $$, 'commit');
  EXECUTE format('CREATE FUNCTION public.commit(integer, integer, integer[], text[], bigint[], text[], integer[], text[], text[], integer[], text[], integer[], text[]) RETURNS bigint[] LANGUAGE plpgsql AS $f$ BEGIN ' || note || $$ RETURN '{1,2,3,4,5}'; END $f$ $$, 'commit of the procedure');
  EXECUTE format('CREATE PROCEDURE public.save(INOUT bigint[], ' || rtrim(repeat('text,', 13), ',') || ') LANGUAGE plpgsql AS $f$ BEGIN ' || note || $$ $1 := '{1,2,3,4,5}'; END $f$ $$, 'save');
  FOREACH t IN ARRAY '{bigint,text,boolean}'::text[] LOOP
    EXECUTE format('CREATE FUNCTION public.bad_less(%2$s, %2$s) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN ' || note || ' RETURN false; END $f$', '< ' || t, t);
    EXECUTE format('CREATE OPERATOR public.< (LEFTARG = %1$s, RIGHTARG = %1$s, FUNCTION = public.bad_less)', t);
    EXECUTE format('CREATE OPERATOR public.= (LEFTARG = %1$s, RIGHTARG = %1$s, FUNCTION = public.bad_less)', t);
  END LOOP;
END $do$;
`

// plantedLater stops an unguarded command before it can do harm.
const plantedLater = `
SET ROLE mallory;
DO $do$
DECLARE
  t text;
  note text := 'INSERT INTO public.seen VALUES (%1$L, current_user);';
BEGIN
  FOREACH t IN ARRAY '{json,jsonb}'::text[] LOOP
    EXECUTE format('CREATE FUNCTION public.bad_get(%2$s, %2$s) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN ' || note || ' RETURN NULL; END $f$', '->> ' || t, t);
    EXECUTE format('CREATE OPERATOR public.->> (LEFTARG = %1$s, RIGHTARG = %1$s, FUNCTION = public.bad_get)', t);
    EXECUTE format('CREATE FUNCTION public.bad_part(%2$s, %2$s) RETURNS %2$s LANGUAGE plpgsql AS $f$ BEGIN ' || note || ' RETURN NULL; END $f$', '-> ' || t, t);
    EXECUTE format('CREATE OPERATOR public.-> (LEFTARG = %1$s, RIGHTARG = %1$s, FUNCTION = public.bad_part)', t);
  END LOOP;
END $do$;
`

// A role that may create in public, and nothing in our schema, neither takes part
// in what we decide nor gets its code run by others.
func TestPlantedOperators(t *testing.T) {
	server := pgtest.Shared(t)
	server.SQL(t, "CREATE DATABASE hijack")
	places := []string{server.URL("hijack", "made_before"), server.URL("hijack", "public")}
	for _, place := range places {
		open(t, place)
	}
	sql := func(text string) string {
		t.Helper()
		out, err := server.Query("hijack", text)
		must(t, err)
		return out
	}
	sql(planted)
	for _, place := range places {
		raceForOne(t, place)
	}
	sql(plantedLater)
	raceForOne(t, server.URL("hijack", "made_after"))
	for _, place := range append(places, server.URL("hijack", "made_after")) {
		usedInEveryWay(t, open(t, place), place)
		for _, view := range []string{"held_locks", "task_locks", "section_locks", "active_locks", "runs", "last_runs"} {
			sql("SELECT * FROM " + schemaOf(place) + "." + view)
		}
		if got := sql("SELECT DISTINCT what, who FROM public.seen"); got != "" {
			t.Fatalf("%s: another's code was run:\n%s", schemaOf(place), got)
		}
	}
}

// raceForOne lets 12 take what only one can have.
func raceForOne(t *testing.T, place string) {
	t.Helper()
	var won atomic.Int32
	var racers sync.WaitGroup
	for range 12 {
		s := open(t, place)
		racers.Go(func() {
			b := put("lock/one", `{"key":"one","lease":"a/1","owner":"a","since":"2026-01-15T10:30:00Z"}`)
			b.Guards = []driver.Guard{{Key: "lock/one"}}
			switch _, err := s.Commit(t.Context(), b); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, driver.ErrConflict):
				t.Error(err)
			}
		})
	}
	racers.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%s: %d of 12 believe that they have it", schemaOf(place), n)
	}
}

// usedInEveryWay runs every statement that there is.
func usedInEveryWay(t *testing.T, s *pgstore.Store, place string) {
	t.Helper()
	warm(t, s)
	rev, err := s.Commit(t.Context(), put("lease/a/1", `{"ttlSeconds":60}`))
	must(t, err)
	_, err = s.Commit(t.Context(), put("fire/job/1", `{"job":"job","fireTime":"2026-01-15T10:30:00Z","state":"done"}`))
	must(t, err)
	for range 4 { // also prepared
		snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/one"}, Ranges: []driver.Range{{Prefix: "lease/"}, {Prefix: "fire/", Limit: -1}}})
		if err != nil || len(snap.Records) != 3 {
			t.Fatalf("%d records, %v", len(snap.Records), err)
		}
	}
	woken := make(chan error, 1)
	go func() {
		woken <- s.Wait(t.Context(), []driver.Guard{{Key: "lease/a/1", Rev: rev}, {Key: "lease/", Rev: rev}})
	}()
	other := openWith(t, place, pgstore.Options{Poll: 50 * time.Millisecond})
	b := driver.Batch{
		Guards: []driver.Guard{{Key: "lease/", Rev: rev}},
		Writes: []driver.Write{{Key: "lease/a/1", Value: []byte(`{"ttlSeconds":61}`)}, {Key: "fire/job/1"}},
	}
	_, err = other.Commit(t.Context(), b)
	must(t, err)
	must(t, <-woken)
	if _, err = other.Commit(t.Context(), b); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("a guard of a kind that changed: %v", err)
	}
	if r, err := pgstore.Inspect(t.Context(), place); err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	must(t, s.Upgrade(t.Context()))
}

// What an older version of tasklock made while such an operator was there is made
// anew by the upgrade.
func TestUpgradeReplacesPlanted(t *testing.T) {
	server := pgtest.Shared(t)
	place := server.Place()
	open(t, place)
	server.SQL(t, strings.ReplaceAll(`
		CREATE OR REPLACE VIEW @.last_runs AS SELECT key, value FROM @.runs WHERE false;
		ALTER FUNCTION @.commit RESET ALL;
		UPDATE @.record SET value = jsonb_set(value::jsonb, '{version}', '3') WHERE key = ''`, "@", schemaOf(place)))
	_, err := pgstore.Open(t.Context(), place, &pgstore.Options{Create: true})
	refused(t, "an older schema", err, driver.ErrOlder, "version 3 of", "init --upgrade")
	must(t, openWith(t, place, pgstore.Options{Upgrade: true}).Upgrade(t.Context()))
	_, err = open(t, place).Commit(t.Context(), put("fire/job/1", `{"job":"job"}`))
	must(t, err)
	if got := server.SQL(t, "SELECT count(*) FROM "+schemaOf(place)+".last_runs"); got != "1" {
		t.Errorf("the view shows %s runs of 1", got)
	}
	// Whatever the schema has of functions finds nothing but the server's own. The
	// procedure ends a transaction, so it can have no search_path: see TestPlantedOperators.
	if got := server.SQL(t, `SELECT proname FROM pg_proc WHERE pronamespace = '`+schemaOf(place)+`'::regnamespace
		AND prokind = 'f' AND NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(proconfig, '{}'))`); got != "" {
		t.Errorf("without a search_path of its own: %s", got)
	}
}
