/* The raw limit: the commits of a pair through the C library, WAL, synchronous=FULL.
 * Usage: pairs FILE STATEMENTS. STATEMENTS has one SQL statement a line; all of them
 * together are a pair. ?1 is the number of the pair. For each number of seconds on
 * standard input it makes pairs for that long, and prints how long each took, as a
 * JSON list of nanoseconds. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { most = 64 };

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void must(int code, sqlite3 *db)
{
	if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW) {
		fprintf(stderr, "%s\n", sqlite3_errmsg(db));
		exit(1);
	}
}

int main(int argc, char **argv)
{
	sqlite3 *db;
	sqlite3_stmt *steps[most];
	int count = 0;
	long long pair = 0;
	static char line[1 << 16];
	double seconds;
	FILE *f;
	if (argc != 3 || !(f = fopen(argv[2], "r")))
		return 2;
	must(sqlite3_open(argv[1], &db), db);
	must(sqlite3_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA busy_timeout=10000;"
		"CREATE TABLE IF NOT EXISTS record (key TEXT PRIMARY KEY NOT NULL, rev INTEGER NOT NULL, wall INTEGER NOT NULL,"
		"awake INTEGER NOT NULL, domain TEXT NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID", 0, 0, 0), db);
	while (count < most && fgets(line, sizeof line, f))
		must(sqlite3_prepare_v2(db, line, -1, &steps[count++], 0), db);
	while (scanf("%lf", &seconds) == 1) {
		long long start = now();
		char *comma = "[";
		while (now() - start < seconds * 1e9) {
			long long before = now();
			pair++;
			for (int i = 0; i < count; i++) {
				if (sqlite3_bind_parameter_count(steps[i]))
					must(sqlite3_bind_int64(steps[i], 1, pair), db);
				must(sqlite3_step(steps[i]), db);
				must(sqlite3_reset(steps[i]), db);
			}
			printf("%s%lld", comma, now() - before);
			comma = ",";
		}
		printf("]\n");
		fflush(stdout);
	}
	return 0;
}
