package pgstore

import "fmt"

// sqlDurable is the durable statement. A transaction that has a number and writes
// to the server's log waits, when it commits, until the log is synced and a
// synchronous standby has it: everything that was committed before lasts then.
// Nothing less does: not a SELECT, and not a number alone. The last column is that
// number: there is none if somebody has made the sequence an unlogged one.
//
// It runs without a search_path of its own: see trusted.
const sqlDurable = `SELECT %s, pg_catalog.set_config('tasklock.unsynced', 'no', false),
  CASE WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) ANY ('{off,local}'::pg_catalog.text[])
    THEN pg_catalog.set_config('synchronous_commit', 'on', true) END, pg_catalog.pg_current_xact_id_if_assigned()
WHERE pg_catalog.current_setting('tasklock.unsynced', true) OPERATOR(pg_catalog.=) 'yes'`

// What writes to the log. Readers of the log for logical replication see messages
// and no sequences, so a message is for roles that may not change the sequence.
const (
	sqlSequence = `pg_catalog.setval('@.synced'::pg_catalog.regclass, 1)`
	sqlMessage  = `pg_catalog.pg_logical_emit_message(true, 'tasklock', ''::pg_catalog.text)`
)

// An undurableError is an error after the commit itself. Others may see the
// commit, and nobody knows whether it lasts. It hides the server's error: whatever
// that says of the durable statement is not true of the commit.
type undurableError struct {
	where string
	err   error
}

func (e *undurableError) Error() string {
	return fmt.Sprintf("%s: it is not known whether the commit lasts: %v", e.where, e.err)
}
