package pgstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// maxTold is how much NOTIFY carries. In place of a longer list of keys it says
// nothing, which means "anything".
const maxTold = 7000

// Commit implements driver.Store.
func (s *Store) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	done, err := s.life.Use()
	if err != nil {
		return 0, err
	}
	defer done()
	if len(b.Writes) == 0 {
		rev, err := local.Holding(s.holding).Check(ctx, b)
		return rev, s.life.Ended(ctx, err)
	}
	for _, w := range b.Writes {
		if bytes.IndexByte(w.Value, 0) >= 0 || !utf8.Valid(w.Value) { // would end the message, or fail with those of others
			return 0, fmt.Errorf("%w: the value of record %q is not JSON", driver.ErrInvalid, w.Key)
		}
	}
	if err := s.prepare(ctx); err != nil {
		return 0, s.life.Ended(ctx, err)
	}
	return s.group.Commit(ctx, b)
}

// apply carries out the batches of a group in one transaction.
func (s *Store) apply(group []*driver.Pending) {
	joint, cancel := driver.Joint(group)
	defer cancel()
	err := s.write(joint, group)
	if err != nil && len(group) > 1 && errors.Is(err, driver.ErrInvalid) { // one of them fails all others
		for _, p := range group {
			s.apply([]*driver.Pending{p})
		}
		return
	}
	if err != nil {
		for _, p := range group {
			p.Rev, p.Err = 0, s.life.Ended(p.Ctx, err)
		}
	}
}

func (s *Store) write(ctx context.Context, group []*driver.Pending) error {
	ctx, stop := s.limited(ctx, writing)
	defer stop()
	fault.Point("pg.connect")
	for n := 0; ; n++ {
		c, err := s.pool.get(ctx, true)
		if err != nil {
			return s.explain(err)
		}
		fault.Point("pg.commit")
		err = s.send(ctx, c, group)
		if !c.pg.IsClosed() && c.pg.TxStatus() != 'I' { // the server waits for ROLLBACK
			_, _ = c.exec(ctx, "ROLLBACK")
		}
		if tired(err) {
			err = s.noTurn(ctx, c, s.names.turn)
		}
		s.pool.put(c)
		s.acknowledged(group, err)
		if !passing(err) {
			return s.explain(err)
		}
		if err := pause(ctx, time.Millisecond, n); err != nil {
			return s.explain(err)
		}
	}
}

// acknowledged notes the last revision that the server acknowledged. Of what was
// refused, or is unknown, nothing is remembered.
func (s *Store) acknowledged(group []*driver.Pending, err error) {
	for _, p := range group {
		if err != nil || p.Err != nil {
			s.memory.forget(p.Batch)
			continue
		}
		for last := s.acked.Load(); p.Err == nil && p.Rev > last && !s.acked.CompareAndSwap(last, p.Rev); last = s.acked.Load() {
		}
	}
}

// send sends all batches as one message, so that the server begins nothing
// that it cannot finish, and reads the one answer; a session that commits again and
// again calls the procedure save. After the commit comes the
// durable statement, in a transaction of its own: the next commit need not wait
// for it.
func (s *Store) send(ctx context.Context, c *conn, group []*driver.Pending) error {
	calls := plan(group)
	if len(calls) == 0 {
		return nil
	}
	follows := c.durable != "" && !raised(group)
	if c.commits++; follows && c.saves && len(calls) == 1 && c.commits > prepareAfter {
		return s.save(ctx, c, calls[0])
	}
	var sql strings.Builder
	sql.WriteString(c.begin())
	for _, call := range calls {
		sql.WriteString("SELECT " + s.names.quoted + ".commit")
		call.write(&sql, follows)
	}
	sql.WriteString("COMMIT;")
	switch {
	case follows && !c.pooled: // the rest of the message is a transaction
		sql.WriteString(c.durable)
	case follows:
		sql.WriteString(c.begin() + c.durable + ";COMMIT")
	}
	asked := host.Now()
	rows, err := c.exec(ctx, sql.String())
	if err == nil {
		err = s.answers(calls, rows, follows, asked)
	}
	if err != nil && c.committed {
		c.spent = true // perhaps the role may not run the durable statement any more
		err = &undurableError{s.where, err}
	}
	return err
}

// begin begins a transaction.
func (c *conn) begin() string {
	if !c.pooled {
		return "BEGIN;"
	}
	// A pooler gives the session to others, so what is set ends with the transaction.
	sql := "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL client_min_messages = warning;"
	for _, set := range planOnce {
		sql += "SET LOCAL " + set[0] + " = " + set[1] + ";"
	}
	return sql
}

// raised reports whether a batch has a floor. Such a commit waits for the log in
// its turn: nobody may see a revision far ahead that is taken back.
func raised(group []*driver.Pending) bool {
	return slices.ContainsFunc(group, func(p *driver.Pending) bool { return p.Batch.Floor > 0 })
}

// answers gives the batches their revisions. If the durable statement follows, it
// must have had its effect, unless nothing was written.
func (s *Store) answers(calls []*call, rows [][]string, follows bool, asked host.Moment) error {
	if len(rows) < len(calls) || len(rows) > len(calls)+1 {
		return fmt.Errorf("the server gave %d answers to %d questions", len(rows), len(calls))
	}
	wrote := false
	for i, call := range calls {
		if err := call.answer(rows[i][0]); err != nil {
			return err
		}
		wrote = wrote || call.granted()
	}
	if follows && wrote && (len(rows) == len(calls) || rows[len(calls)][3] == "") {
		return errors.New("the server has not synced it")
	}
	for _, call := range calls {
		call.view.asked = asked
		call.remember(&s.memory)
	}
	return nil
}

// plan divides a group into calls. The server decides the batches of one call
// together, so none may touch what an earlier one of the call writes; such a batch
// opens the next call. So does a batch with a floor, which is that of a call.
func plan(group []*driver.Pending) []*call {
	var calls []*call
	now := newCall()
	for _, p := range group {
		if p.Err = p.Ctx.Err(); p.Err != nil {
			continue
		}
		if len(now.batches) > 0 && (now.touches(p.Batch) || now.floor != p.Batch.Floor || now.floor > 0) {
			calls = append(calls, now)
			now = newCall()
		}
		now.add(p)
	}
	if len(now.batches) > 0 {
		calls = append(calls, now)
	}
	return calls
}

// A call is batches that are independent of each other.
type call struct {
	batches []*driver.Pending
	wrote   map[string]bool // keys and kinds
	view    *view           // of the answer

	floor              int64
	guards             guards
	kinds              bool  // some guards are of kinds
	writes, deletes    []int // batch of each
	writeKeys, delKeys []string
	values             [][]byte
	changing           map[string]int // by kind: the last batch that changes it
}

func newCall() *call { return &call{wrote: map[string]bool{}, changing: map[string]int{}} }

type guards struct {
	batch []int
	key   []string
	rev   []int64
}

func (c *call) touches(b driver.Batch) bool {
	for _, g := range b.Guards {
		if c.wrote[g.Key] {
			return true
		}
	}
	for _, w := range b.Writes {
		if c.wrote[w.Key] {
			return true
		}
	}
	return false
}

func (c *call) add(p *driver.Pending) {
	c.batches = append(c.batches, p)
	c.floor = p.Batch.Floor
	n := len(c.batches)
	for _, g := range p.Batch.Guards {
		rev := g.Rev
		if g.IsKind() {
			rev = -1 - rev
		}
		c.guards.batch, c.guards.key, c.guards.rev = append(c.guards.batch, n), append(c.guards.key, g.Key), append(c.guards.rev, rev)
	}
	for _, w := range p.Batch.Writes {
		if w.Value == nil {
			c.deletes, c.delKeys = append(c.deletes, n), append(c.delKeys, w.Key)
		} else {
			c.writes, c.writeKeys, c.values = append(c.writes, n), append(c.writeKeys, w.Key), append(c.values, w.Value)
		}
		kind := driver.Kind(w.Key)
		c.wrote[w.Key], c.wrote[kind], c.changing[kind] = true, true, n
	}
}

// there has the records that the guards want to exist, as commit compares them. It
// is NULL if that does not decide: a guard is of a kind, two do not agree, or a key
// begins like a number, which nobody could tell from the end of a revision.
func (g *guards) there() any {
	at := make([]int, len(g.key))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(i, j int) int { return strings.Compare(g.key[i], g.key[j]) })
	out := []string{}
	for n, i := range at {
		again := n > 0 && g.key[at[n-1]] == g.key[i]
		switch {
		case g.rev[i] < 0 || again && g.rev[at[n-1]] != g.rev[i] || '0' <= g.key[i][0] && g.key[i][0] <= '9':
			return nil
		case g.rev[i] > 0 && !again:
			out = append(out, strconv.FormatInt(g.rev[i], 10)+g.key[i])
		}
	}
	return out
}

// arguments are those of commit. A floor of -1 promises that the durable statement
// follows.
func (c *call) arguments(follows bool) []any {
	floor, n := c.floor, len(c.batches)
	if follows {
		floor = -1
	}
	var changing []int
	var changed []string
	for kind, batch := range c.changing {
		changing, changed = append(changing, batch), append(changed, ","+jsonText(kind)+":")
	}
	return []any{
		n, floor,
		c.guards.batch, c.guards.key, c.guards.rev, c.guards.there(),
		append(c.writes, n), append(c.writeKeys, ""), append(c.values, []byte("{}")),
		c.deletes, c.delKeys,
		changing, changed,
	}
}

// write appends the arguments of the call as SQL, each with its type, so that no
// other function of that name can fit better.
func (c *call) write(sql *strings.Builder, follows bool) {
	for i, arg := range c.arguments(follows) {
		sql.WriteByte("(,"[min(i, 1)])
		if arg == nil {
			sql.WriteString("NULL")
		} else {
			writeLiteral(sql, asText(arg))
		}
		sql.WriteString("::" + commitTypes[i])
	}
	sql.WriteString(");")
}

// commitTypes are those of the arguments of commit.
var commitTypes = []string{
	"pg_catalog.int4", "pg_catalog.int8",
	ints, texts, longs, texts,
	ints, texts, texts,
	ints, texts,
	ints, texts,
}

const (
	longs = "pg_catalog.int8[]"
	ints  = "pg_catalog.int4[]"
	texts = "pg_catalog.text[]"
)

// answer gives each batch its revision.
func (c *call) answer(text string) error {
	var numbers []int64
	for _, t := range strings.Split(strings.Trim(text, "{}"), ",") {
		n, err := strconv.ParseInt(t, 10, 64)
		if err != nil { // a missing answer does not mean "refused"
			return fmt.Errorf("the server gave %q for revisions", text)
		}
		numbers = append(numbers, n)
	}
	if len(numbers) < 5 {
		return fmt.Errorf("the server gave %q for revisions", text)
	}
	rev, bad := numbers[0], numbers[5:]
	for i, p := range c.batches {
		if slices.Contains(bad, int64(i+1)) {
			p.Rev, p.Err = 0, driver.ErrConflict
			continue
		}
		rev++
		p.Rev = rev
	}
	if rev != numbers[1] && len(bad) < len(c.batches) {
		return fmt.Errorf("the server gave %q for the revisions of %d commits", text, len(c.batches))
	}
	c.view = &view{rev: numbers[1], now: time.UnixMicro(numbers[2]).UTC(), life: numbers[3], line: numbers[4]}
	return nil
}

// remember notes what the batches of an acknowledged call have shown.
func (c *call) remember(m *memory) {
	m.heard(*c.view)
	for _, p := range c.batches {
		if p.Rev > 0 {
			m.committed(p.Batch, p.Rev, *c.view)
		}
	}
}

// granted reports whether a batch was applied.
func (c *call) granted() bool {
	return slices.ContainsFunc(c.batches, func(p *driver.Pending) bool { return p.Rev > 0 })
}

func jsonText(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// asText writes an argument as PostgreSQL reads it.
func asText(arg any) []byte {
	switch arg := arg.(type) {
	case int:
		return strconv.AppendInt(nil, int64(arg), 10)
	case int64:
		return strconv.AppendInt(nil, arg, 10)
	case []int:
		return numberArray(arg)
	case []int64:
		return numberArray(arg)
	case []string:
		return textArray(arg)
	}
	return textArray(arg.([][]byte))
}

func writeLiteral(sql *strings.Builder, b []byte) {
	sql.WriteByte('\'')
	for {
		i := bytes.IndexByte(b, '\'')
		if i < 0 {
			break
		}
		sql.Write(b[:i+1])
		sql.WriteByte('\'')
		b = b[i+1:]
	}
	sql.Write(b)
	sql.WriteByte('\'')
}
