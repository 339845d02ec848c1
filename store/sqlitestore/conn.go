package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

// How long SQLite itself waits for a lock before we look at the context and
// let it try again.
const busyTimeout = 200 * time.Millisecond

// A conn is one connection, with its statements.
type conn struct{ *sqlite.Conn }

// connect opens the file, which must exist, and reads nothing yet. The path is
// taken as it is: it is absolute, so SQLite never reads it as a URI.
func connect(path string) (conn, error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return conn{}, err
	}
	c.SetBusyTimeout(busyTimeout)
	return conn{c}, nil
}

// connectFrozen opens a file in a folder where we may write nothing, not even
// the shared memory that readers share with writers. See conns.readFrozen.
func connectFrozen(path string) (conn, error) {
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: "immutable=1"}
	c, err := sqlite.OpenConn(u.String(), sqlite.OpenReadOnly, sqlite.OpenURI)
	if err != nil {
		return conn{}, err
	}
	return conn{c}, nil
}

// exec runs a statement without a result.
func (c conn) exec(sql string) error {
	stmt, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	if _, err := stmt.Step(); err != nil {
		return err
	}
	return stmt.Reset()
}

// pragma runs a statement without keeping it, and returns the first column of
// its first row.
func (c conn) pragma(sql string) (string, error) {
	stmt, _, err := c.PrepareTransient(sql)
	if err != nil {
		return "", err
	}
	defer func() { _ = stmt.Finalize() }()
	row, err := stmt.Step()
	if err != nil || !row {
		return "", err
	}
	return stmt.ColumnText(0), nil
}

// revision returns the store's revision.
func (c conn) revision() (int64, error) {
	rev, ok, err := c.number(sqlRevision)
	if err == nil && !ok {
		err = errNoState
	}
	return rev, err
}

// number returns the number that a query finds, if it finds one.
func (c conn) number(sql string) (n int64, ok bool, err error) {
	stmt, err := c.Prepare(sql)
	if err != nil {
		return 0, false, err
	}
	if ok, err = stmt.Step(); err != nil || !ok {
		return 0, false, err
	}
	n = stmt.ColumnInt64(0)
	return n, true, stmt.Reset()
}

// record returns a record, without a revision if there is none.
func (c conn) record(key string) (*sighting, error) {
	stmt, err := c.Prepare(sqlRecord)
	if err != nil {
		return nil, err
	}
	stmt.BindText(1, key)
	if row, err := stmt.Step(); err != nil || !row {
		return absent, err
	}
	return sightingOf(stmt), stmt.Reset()
}

// version returns another number whenever another connection has committed
// something since the last call.
func (c conn) version() (int64, error) {
	n, _, err := c.number("PRAGMA data_version")
	return n, err
}

// A state is the row that every commit writes.
type state struct {
	rev   int64
	kinds map[string]int64
}

// errNoState: every store of ours has this row.
var errNoState = errors.New("the row with the store's revision is missing or unreadable")

// state reads the row. If its revision is that of known, it returns known.
func (c conn) state(known state) (state, error) {
	stmt, err := c.Prepare(sqlState)
	if err != nil {
		return state{}, err
	}
	row, err := stmt.Step()
	if err != nil {
		return state{}, err
	}
	if !row {
		return state{}, errNoState
	}
	st := state{rev: stmt.ColumnInt64(0), kinds: known.kinds}
	if known.kinds == nil || st.rev != known.rev {
		st.kinds = make(map[string]int64)
		if err := json.Unmarshal([]byte(stmt.ColumnText(1)), &st.kinds); err != nil {
			_ = stmt.Reset()
			return state{}, errNoState
		}
	}
	return st, stmt.Reset()
}

// verify reads the header and prepares what every call needs, which shows
// whether the tables and columns exist.
func (c conn) verify(path string) error {
	id, err := c.pragma("PRAGMA application_id")
	if err != nil {
		return err
	}
	version, err := c.pragma("PRAGMA user_version")
	if err != nil {
		return err
	}
	if id != fmt.Sprint(applicationID) {
		return fmt.Errorf("%w: %s is not a tasklock database; move it away, or name another file", driver.ErrDamaged, path)
	}
	if version != fmt.Sprint(schemaVersion) {
		n, _ := strconv.Atoi(version)
		return driver.Newer(path, n, schemaVersion)
	}
	_, err = c.Prepare(sqlRecord)
	return err
}

// journal sets how the database survives a crash: by a log in shared memory, or,
// if memory is not shared, by a rollback journal.
func (c conn) journal(safeFS bool) error {
	if !safeFS {
		// With this, even a database that has a log is opened without shared memory.
		if _, err := c.pragma("PRAGMA locking_mode=EXCLUSIVE"); err != nil {
			return err
		}
		if _, err := c.pragma("PRAGMA journal_mode=DELETE"); err != nil {
			return err
		}
		if _, err := c.pragma("PRAGMA locking_mode=NORMAL"); err != nil {
			return err
		}
		return c.exec("SELECT 1 FROM sqlite_schema") // lets go of the file
	}
	mode, err := c.pragma("PRAGMA journal_mode")
	if err != nil || mode == "wal" {
		return err
	}
	_, err = c.pragma("PRAGMA journal_mode=WAL")
	return err
}

// settings are those that SQLite keeps for a connection.
func (c conn) settings(writer bool) error {
	if !writer {
		_, err := c.pragma("PRAGMA query_only=ON")
		return err
	}
	_, err := c.pragma("PRAGMA synchronous=FULL")
	return err
}

// logFrames returns how many pages the log holds.
func (c conn) logFrames() (int, error) {
	stmt, _, err := c.PrepareTransient("PRAGMA wal_checkpoint(NOOP)")
	if err != nil {
		return 0, err
	}
	defer func() { _ = stmt.Finalize() }()
	if _, err := stmt.Step(); err != nil {
		return 0, err
	}
	return stmt.ColumnInt(1), nil
}

// snapshot runs fn on one view of the database.
func (c conn) snapshot(fn func() error) error {
	if err := c.exec("BEGIN"); err != nil {
		return err
	}
	err := fn()
	if end := c.rollback(); err == nil {
		err = end
	}
	return err
}

// rollback ends whatever transaction is open.
func (c conn) rollback() error {
	if c.AutocommitEnabled() {
		return nil
	}
	return c.exec("ROLLBACK")
}

// initialise makes a whole database in a file that does not exist.
func initialise(path string, safeFS bool, first note) (err error) {
	raw, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		return err
	}
	c := conn{raw}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.pragma(fmt.Sprintf("PRAGMA page_size=%d", pageSize)); err != nil {
		return err
	}
	if _, err := c.pragma("PRAGMA application_id"); err != nil { // makes the file
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil { // its log gets the same
		return err
	}
	script := fmt.Sprintf("BEGIN IMMEDIATE; %s INSERT INTO record VALUES ('', %d, 0, 0, '', '{\"%s\":%d}'); PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT",
		schema, first.rev, idKey, first.id, applicationID, schemaVersion)
	if err := c.script(script); err != nil || !safeFS {
		return err
	}
	// Last, so that the log is empty: Close does not tell when moving it into
	// the database fails, and only the database is moved into place.
	_, err = c.pragma("PRAGMA journal_mode=WAL")
	return err
}

func (c conn) script(sql string) error {
	for sql != "" {
		stmt, rest, err := c.PrepareTransient(sql)
		if err != nil {
			return err
		}
		if _, err := stmt.Step(); err != nil {
			_ = stmt.Finalize()
			return err
		}
		if err := stmt.Finalize(); err != nil {
			return err
		}
		sql = sql[len(sql)-rest:]
	}
	return nil
}

// syncDir makes a rename in the folder survive loss of power.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return host.SyncFolder(d)
}

// retry runs fn until SQLite is no longer busy or ctx has ended.
func retry(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		if err == nil || !busy(err) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
