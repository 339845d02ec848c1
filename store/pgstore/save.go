package pgstore

import (
	"context"
	enc "encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasklock/tasklock/internal/host"
)

// sqlSave calls the procedure save. Its first parameter says whether the durable
// statement is a message; the others are those of commit without the floor.
func sqlSave() string {
	types := slices.Clone(commitTypes)
	types[0], types[1] = "pg_catalog.bool", types[0]
	params := []string{"NULL::" + longs}
	for i, t := range types { // no other procedure of that name fits better
		params = append(params, fmt.Sprintf("$%d::%s", i+1, t))
	}
	return "CALL @.save(" + strings.Join(params, ",") + ")"
}

// save carries out a call with the procedure save. The server neither parses nor
// plans anything, and sends one answer after the sync. Once it has begun it needs
// nothing more of us: the turn ends within the statement.
func (s *Store) save(ctx context.Context, c *conn, one *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.procedure == nil {
		var err error
		if c.procedure, err = c.pg.Prepare(ctx, "tasklock_save", s.names.save, nil); err != nil {
			return err
		}
	}
	args := one.arguments(true)
	params := [][]byte{{0}, asBinary(args[0])}
	if c.message {
		params[0][0] = 1
	}
	for _, arg := range args[2:] {
		params = append(params, asBinary(arg))
	}
	asked := host.Now()
	answer, err := c.saved(ctx, params)
	if err == nil {
		err = s.answers([]*call{one}, [][]string{{answer}}, false, asked)
	}
	if err == nil || early(err) || code(err) == "" && c.pg.IsClosed() {
		return err
	}
	c.spent = true // perhaps the role may not run the durable statement any more
	return &undurableError{s.where, err}
}

// saved returns the answer of the procedure save.
func (c *conn) saved(ctx context.Context, params [][]byte) (answer string, err error) {
	defer c.watch(ctx)()
	c.committed, c.doubt = true, "" // a warning may be about the commit
	r := c.pg.ExecStatement(context.Background(), c.procedure, params, binary, nil)
	for r.NextRow() {
		answer = string(r.Values()[0])
	}
	if _, err := r.Close(); err != nil {
		return "", ended(ctx, err)
	}
	if c.doubt != "" {
		return "", doubtError(c.doubt)
	}
	return answer, nil
}

// early reports whether an error of the procedure save is from before its COMMIT:
// the function commit has raised it, or the procedure was not found or not
// allowed. After any other error nobody knows.
func early(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (strings.Contains(e.Where, "commit(integer,bigint,") || e.Where == "" && strings.HasPrefix(e.Code, "42"))
}

// The server's numbers of types.
const (
	oidLong = 20
	oidInt  = 23
	oidText = 25
)

// asBinary writes an argument as the server keeps it.
func asBinary(arg any) []byte {
	switch arg := arg.(type) {
	case nil:
		return nil
	case int:
		return enc.BigEndian.AppendUint32(nil, uint32(arg))
	case []int:
		return binaryArray(oidInt, len(arg), func(b []byte, i int) []byte { return enc.BigEndian.AppendUint32(b, uint32(arg[i])) })
	case []int64:
		return binaryArray(oidLong, len(arg), func(b []byte, i int) []byte { return enc.BigEndian.AppendUint64(b, uint64(arg[i])) })
	case []string:
		return binaryArray(oidText, len(arg), func(b []byte, i int) []byte { return append(b, arg[i]...) })
	}
	values := arg.([][]byte)
	return binaryArray(oidText, len(values), func(b []byte, i int) []byte { return append(b, values[i]...) })
}

// binaryArray writes n elements, each after its length.
func binaryArray(oid uint32, n int, element func(b []byte, i int) []byte) []byte {
	b := make([]byte, 0, 20+16*n)
	for _, word := range []uint32{uint32(min(n, 1)), 0, oid, uint32(n), 1} { // dimensions, no NULL, type, length, first index
		b = enc.BigEndian.AppendUint32(b, word)
	}
	if n == 0 {
		return b[:12]
	}
	for i := range n {
		at := len(b)
		b = element(append(b, 0, 0, 0, 0), i)
		enc.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	}
	return b
}
