package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// turnPatience is how long a commit waits for its turn: less than DefaultTimeout,
// so that the server says that nothing was written before we stop listening.
const turnPatience = 8 * time.Second

// tired reports whether the server gave up waiting for a lock that another
// session has, and did nothing.
func tired(err error) bool { return code(err) == "55P03" }

// sqlHolders finds the sessions that have an advisory lock of ours, or our whole
// table. Those that wait for nobody come first.
const sqlHolders = trusted + `SELECT l.pid, a.usename, a.application_name, a.wait_event = 'SyncRep'
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND l.pid <> pg_backend_pid()
  AND (l.locktype = 'advisory' AND l.classid = '%d' AND l.objid = '%d' AND l.objsubid = 1
    OR l.relation = to_regclass('@.record') AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))
ORDER BY pg_blocking_pids(l.pid) <> '{}' LIMIT 1`

// noTurn names the session that blocks us. Anyone who may connect can do that.
func (s *Store) noTurn(ctx context.Context, c *conn, lock int64) error {
	const wait = "%w: %s: another session has kept us waiting for %v: "
	high, low := uint32(lock>>32), uint32(lock)
	rows, err := c.exec(ctx, s.names.sql(fmt.Sprintf(sqlHolders, high, low)))
	switch {
	case err != nil || len(rows) == 0:
		return fmt.Errorf(wait+"try again; who holds it: SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = '%d' AND objid = '%d'",
			driver.ErrNoTurn, s.where, turnPatience, high, low)
	case rows[0][3] == "t":
		return fmt.Errorf(wait+"process %s of user %s (%s), which waits for a synchronous standby that does not answer: look at pg_stat_replication",
			driver.ErrNoTurn, s.where, turnPatience, rows[0][0], rows[0][1], rows[0][2])
	}
	return fmt.Errorf(wait+"process %[4]s of user %[5]s (%[6]s); look at it: SELECT * FROM pg_stat_activity WHERE pid = %[4]s; an administrator can end it: SELECT pg_terminate_backend(%[4]s)",
		driver.ErrNoTurn, s.where, turnPatience, rows[0][0], rows[0][1], rows[0][2])
}
