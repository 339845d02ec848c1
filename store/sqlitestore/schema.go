package sqlitestore

// The header of our files: "tlck" and the version of what follows.
const (
	applicationID = 0x746c636b
	schemaVersion = 1
	pageSize      = 4096
)

// schema is the whole database. One table carries the driver: a row for each
// record, with the clocks of its last write. One more row, with an empty key,
// has the store's revision and, as its value, the revision that last changed or
// deleted a record of each kind, and the id of the database. It is in the same
// table because every commit writes it: in a small store it shares a page with
// the records, and a commit writes one page.
//
// The views are for people with a sqlite3 shell. They show the records; tasklock
// itself decides by its own clock whether a lock counts.
const schema = `
CREATE TABLE record (
  key TEXT PRIMARY KEY NOT NULL,
  rev INTEGER NOT NULL,
  wall INTEGER NOT NULL,
  awake INTEGER NOT NULL,
  domain TEXT NOT NULL,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE VIEW held_locks AS
SELECT substr(k.key, 6) AS key, k.value ->> 'owner' AS owner,
  strftime('%Y-%m-%dT%H:%M:%SZ', k.value ->> 'since') AS acquired_at,
  strftime('%Y-%m-%dT%H:%M:%SZ', l.wall / 1e9 + (l.value ->> 'ttlSeconds'), 'unixepoch') AS expires_at,
  strftime('%Y-%m-%dT%H:%M:%SZ', l.wall / 1e9, 'unixepoch') AS heartbeat_at
FROM record k JOIN record l ON l.key = 'lease/' || (k.value ->> 'lease')
WHERE k.key > 'lock/' AND k.key < 'lock0';
CREATE VIEW task_locks AS
SELECT key AS task_id, owner AS runner_id, acquired_at, expires_at, heartbeat_at
FROM held_locks WHERE key NOT GLOB 'section:*' AND key NOT GLOB 'job:*' AND key NOT GLOB 'path:*';
CREATE VIEW section_locks AS
SELECT substr(key, 9) AS section_id, owner AS runner_id, acquired_at, expires_at
FROM held_locks WHERE key GLOB 'section:*';
`

// The statements of the hot paths, prepared once for each connection.
const (
	sqlRevision = `SELECT rev FROM record WHERE key = ''`
	sqlState    = `SELECT rev, value FROM record WHERE key = ''`
	sqlRecord   = `SELECT key, rev, wall, awake, domain, value FROM record WHERE key = ?1`

	// Not a bare ?3: the planner looks at that, so SQLite would prepare the statement
	// again for each other value.
	sqlFirst = `SELECT key, rev, wall, awake, domain, value FROM record WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3 + 0`
	sqlSince = `SELECT key, rev, wall, awake, domain, value FROM record WHERE key >= ?1 AND key < ?2 AND rev > ?3 ORDER BY key`
	sqlLast  = `SELECT key, rev, wall, awake, domain, value FROM record WHERE key >= ?1 AND key < ?2 ORDER BY key DESC LIMIT ?3 + 0`
	sqlTail  = `SELECT key, rev, wall, awake, domain, value FROM record WHERE key >= ?1 ORDER BY key LIMIT ?3 + 0`
	sqlEnd   = `SELECT key, rev, wall, awake, domain, value FROM record WHERE key >= ?1 ORDER BY key DESC LIMIT ?3 + 0`

	sqlPut    = `REPLACE INTO record (key, rev, wall, awake, domain, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`
	sqlAdd    = `INSERT OR IGNORE INTO record (key, rev, wall, awake, domain, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`
	sqlDelete = `DELETE FROM record WHERE key = ?1`
)
