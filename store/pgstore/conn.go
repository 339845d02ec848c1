package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasklock/tasklock/store/driver"
)

// How long we wait for a server that answered before, and for one that says it
// is starting.
const (
	patience      = 10 * time.Second
	startPatience = 5 * time.Second
)

// prepareAfter is how often a statement is sent whole before the server prepares
// it: most commands ask once and end.
const prepareAfter = 2

// planOnce are settings that keep the server from planning a prepared statement, and
// those of the function commit, again each time for the number of keys, and from
// keeping plans that are good only while the table is small. Our sessions have them
// from the first question on; behind a pooler our transactions have them.
var planOnce = [][2]string{{"plan_cache_mode", "force_generic_plan"}, {"enable_seqscan", "off"}, {"enable_bitmapscan", "off"}, {"enable_hashjoin", "off"}, {"enable_mergejoin", "off"}}

// A conn is one connection. It is used by one call at a time.
type conn struct {
	pg        *pgconn.PgConn
	made      atomic.Bool // pg is there
	committed bool        // a COMMIT of the last exec was carried out
	doubt     string      // a warning of the server: what it committed may be lost
	commits   int         // that were tried
	spent     bool        // use it no more
	pooled    bool
	saves     bool                                    // the procedure save can be used
	procedure *pgconn.StatementDescription            // once the server remembers it
	message   bool                                    // the durable statement is a message
	durable   string                                  // the statement that makes commits last; empty: they do when they end
	rested    bool                                    // it was used before
	used      time.Time                               // when it was
	asked     map[string]int                          // statements, and how often
	known     map[string]*pgconn.StatementDescription // those that the server remembers
}

// newConn makes a connection that never asks the server to cancel anything.
// pgconn does that for an abandoned call: it would end the wait of a commit for
// its synchronous standby, and others would see a commit that may be lost.
func newConn(ctx context.Context, cfg *pgconn.Config) (*conn, error) {
	c := &conn{used: time.Now(), asked: map[string]int{}, known: map[string]*pgconn.StatementDescription{}}
	cfg = cfg.Copy()
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if c.made.Load() {
			return nil, errors.New("nothing is cancelled")
		}
		return dial(ctx, network, addr)
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.Routine == "SyncRepWaitForLSN" || c.committed && n.SeverityUnlocalized == "WARNING" {
			c.doubt = n.Message
		}
	}
	var err error
	if c.pg, err = pgconn.ConnectConfig(ctx, cfg); err != nil {
		return nil, err
	}
	c.made.Store(true)
	return c, nil
}

// A doubtError is a warning of the server that what it committed may be lost: it
// ended its wait for a standby, say.
type doubtError string

func (e doubtError) Error() string { return "what the server committed may be lost: " + string(e) }

// connect makes a connection and checks that our schema exists. It waits for a
// server that answered before.
func (s *Store) connect(ctx context.Context) (*conn, error) {
	began := time.Now()
	for n := 0; ; n++ {
		c, err := s.attempt(ctx)
		if err == nil || driver.Refusal(err) || ctx.Err() != nil {
			s.heard(err == nil)
			return c, err
		}
		soon := starting(err) && time.Since(began) < startPatience
		if !soon && !s.patient() {
			return nil, err
		}
		if err := pause(ctx, 20*time.Millisecond, n); err != nil {
			return nil, err
		}
	}
}

func (s *Store) attempt(ctx context.Context) (*conn, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.greet(ctx, c); err != nil {
		s.pool.drop(c)
		return nil, err
	}
	return c, nil
}

// dial makes a connection.
func (s *Store) dial(ctx context.Context) (*conn, error) {
	c, err := newConn(ctx, s.cfg)
	return c, s.explain(err)
}

// greet checks that the schema exists and that we may use it. A pooler shows
// itself by another process number than the server's.
func (s *Store) greet(ctx context.Context, c *conn) error {
	rows, err := c.greet(ctx, s.names.greet)
	if absent(err) {
		var version int
		if version, err = s.version(ctx, c); err != nil {
			return err
		}
		if version <= noTables {
			return fmt.Errorf("%w: there is no %s", driver.ErrMissing, s.where)
		}
		rows, err = c.greet(ctx, s.names.greet) // another process has just made it
	}
	switch {
	case err != nil:
		return s.explain(err)
	case len(rows) != 1:
		return s.damaged("the row with the empty key is missing")
	}
	switch version := int(number(rows[0][0])); {
	case version > len(steps):
		return s.newer(version)
	case version < 1 || rows[0][2] != "t":
		return s.damaged("the row with the empty key is not as tasklock writes it")
	case version < len(steps) && !s.anyVersion:
		return s.older(version)
	}
	if c.pg.ParameterStatus("standard_conforming_strings") == "off" { // our literals would mean something else
		return fmt.Errorf("%w: what stands between us and %s keeps standard_conforming_strings off", driver.ErrUnsafe, s.where)
	}
	if encoding := c.pg.ParameterStatus("server_encoding"); encoding != "" && encoding != "UTF8" {
		return s.wrongEncoding(encoding)
	}
	c.pooled = number(rows[0][1]) != int64(c.pg.PID())
	if int(number(rows[0][0])) == len(steps) {
		c.durable, c.message, c.saves = s.names.durable[rows[0][3]], rows[0][3] == "message", !c.pooled && rows[0][4] == "t"
	}
	s.mu.Lock()
	s.pooled, s.outdated = c.pooled, int(number(rows[0][0])) < len(steps)
	s.mu.Unlock()
	return nil
}

// greet asks the first question, which also makes the settings of the session.
func (c *conn) greet(ctx context.Context, sql string) ([][]string, error) {
	return c.exec(ctx, strings.ReplaceAll(sql, "$pid", strconv.Itoa(int(c.pg.PID()))))
}

// absent reports that there is no such table, or no such schema.
func absent(err error) bool { return code(err) == "3F000" || code(err) == "42P01" }

// heard notes whether the server answers.
func (s *Store) heard(up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if up {
		s.met, s.down = true, time.Time{}
	}
}

// patient reports whether to wait for an unreachable server. All calls share one
// patience, so that a server that stays away is reported.
func (s *Store) patient() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down.IsZero() {
		s.down = time.Now()
	}
	return s.met && time.Since(s.down) < patience
}

// watch lets the end of ctx break off what the connection does, without the
// goroutine that pgconn would start for each call.
func (c *conn) watch(ctx context.Context) (done func()) {
	broken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.pg.Conn().SetDeadline(time.Unix(1, 0))
		close(broken)
	})
	return func() {
		if stop() {
			return
		}
		<-broken
		if !c.pg.IsClosed() { // it broke nothing off: clear the deadline
			_ = c.pg.Conn().SetDeadline(time.Time{})
		}
	}
}

// exec sends SQL as one message and returns the rows of all its results, as
// text.
func (c *conn) exec(ctx context.Context, sql string) ([][]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer c.watch(ctx)()
	c.committed, c.doubt = false, ""
	results := c.pg.Exec(context.Background(), sql)
	var rows [][]string
	for results.NextResult() {
		r := results.ResultReader()
		for r.NextRow() {
			var row []string
			for _, v := range r.Values() {
				row = append(row, string(v))
			}
			rows = append(rows, row)
		}
		tag, _ := r.Close() // its error is that of all
		c.committed = c.committed || tag.String() == "COMMIT"
	}
	if err := results.Close(); err != nil {
		return nil, ended(ctx, err)
	}
	if c.doubt != "" {
		return nil, doubtError(c.doubt)
	}
	return rows, nil
}

// ended returns the end of ctx in place of the error that it caused, unless the
// server has answered.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && code(err) == "" {
		return ctx.Err()
	}
	return err
}

// binary asks for every column in the server's format.
var binary = []int16{1}

// query runs one statement and gives each row to f, which must copy what it
// keeps.
func (c *conn) query(ctx context.Context, sql string, params [][]byte, f func(row [][]byte) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	known, err := c.prepared(ctx, sql)
	if err != nil {
		return err
	}
	defer c.watch(ctx)()
	var r *pgconn.ResultReader
	if known == nil {
		r = c.pg.ExecParams(context.Background(), sql, params, nil, nil, binary)
	} else {
		r = c.pg.ExecStatement(context.Background(), known, params, nil, binary)
	}
	for r.NextRow() && err == nil {
		err = f(r.Values())
	}
	if _, closed := r.Close(); closed != nil {
		return ended(ctx, closed)
	}
	return err
}

// prepared returns a statement that the server remembers, or none.
func (c *conn) prepared(ctx context.Context, sql string) (*pgconn.StatementDescription, error) {
	c.asked[sql]++
	if c.pooled || c.asked[sql] <= prepareAfter || c.known[sql] != nil {
		return c.known[sql], nil
	}
	d, err := c.pg.Prepare(ctx, "tasklock"+strconv.Itoa(len(c.known)), sql, nil)
	if err == nil {
		c.known[sql] = d
	}
	return d, err
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// pause waits with full jitter before the n-th repetition.
func pause(ctx context.Context, unit time.Duration, n int) error {
	return driver.Sleep(ctx, rand.N(min(unit<<min(n, 10), 500*time.Millisecond))+1)
}

// settings makes the settings of our sessions, as an expression. A warning may say
// that a commit is on no standby. What the server's files say later does not count.
func settings() string {
	calls := []string{"set_config('default_transaction_isolation', 'read committed', false)", "set_config('client_min_messages', 'warning', false)"}
	for _, set := range planOnce {
		calls = append(calls, fmt.Sprintf("set_config('%s', '%s', false)", set[0], set[1]))
	}
	return "concat(" + strings.Join(calls, ", ") + ")"
}
