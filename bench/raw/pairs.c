/* The raw limit: pairs of commits through the C library, WAL, synchronous=FULL.
 * Usage: raw FILE SECONDS; prints pairs a second. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void must(int code, sqlite3 *db)
{
	if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW) {
		fprintf(stderr, "%s\n", sqlite3_errmsg(db));
		exit(1);
	}
}

static void step(sqlite3_stmt *s, sqlite3 *db)
{
	must(sqlite3_step(s), db);
	must(sqlite3_reset(s), db);
}

int main(int argc, char **argv)
{
	sqlite3 *db;
	sqlite3_stmt *begin, *commit, *put, *del;
	if (argc != 3)
		return 2;
	must(sqlite3_open(argv[1], &db), db);
	must(sqlite3_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA busy_timeout=10000;"
		"CREATE TABLE IF NOT EXISTS record (key TEXT PRIMARY KEY, rev INTEGER, value TEXT) WITHOUT ROWID", 0, 0, 0), db);
	must(sqlite3_prepare_v2(db, "BEGIN IMMEDIATE", -1, &begin, 0), db);
	must(sqlite3_prepare_v2(db, "COMMIT", -1, &commit, 0), db);
	must(sqlite3_prepare_v2(db, "INSERT INTO record VALUES ('lock/a', 1, '{\"owner\":\"me\"}')", -1, &put, 0), db);
	must(sqlite3_prepare_v2(db, "DELETE FROM record WHERE key = 'lock/a'", -1, &del, 0), db);
	double start = now(), length = atof(argv[2]);
	long pairs = 0;
	for (; now() - start < length; pairs++) {
		step(begin, db), step(put, db), step(commit, db);
		step(begin, db), step(del, db), step(commit, db);
	}
	printf("%.1f\n", pairs / (now() - start));
	return 0;
}
