//go:build linux

package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// now reads the clock that all processes of the machine share.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// never is the return of an operation whose end nobody saw.
const never = int64(1) << 62

// The kinds of operations.
const (
	opAcquire = "acquire"
	opRenew   = "renew"
	opRelease = "release"
	opPushed  = "pushed" // found someone else in the register
)

// What an operation answers.
const (
	isOK      = "ok"
	isHeld    = "held"    // somebody else holds it
	isLost    = "lost"    // not ours any more, nothing was changed
	isError   = "error"   // anything that is not an answer
	isUnknown = "unknown" // the worker died first
	isRefused = "refused" // the pool has another size
	isDenied  = "denied"  // a probe learned that the lease is another's: in force or not, nothing changed
)

// An op is one call of a worker. Times are readings of now.
type op struct {
	ID    int      `json:"id"` // within its worker
	Row   int      `json:"row"`
	Kind  string   `json:"kind"`
	Keys  []string `json:"keys"`
	Owner string   `json:"owner,omitempty"`
	Call  int64    `json:"call"`

	Began   int64            `json:"began,omitempty"` // the successful attempt began no earlier
	Return  int64            `json:"return,omitempty"`
	Result  string           `json:"result,omitempty"`
	Tokens  map[string]int64 `json:"tokens,omitempty"`
	Took    map[string]taken `json:"took,omitempty"`    // whom a grant replaced
	Untold  bool             `json:"untold,omitempty"`  // "run" got it: it is not known whom, and the worker reads of it later
	Holder  string           `json:"holder,omitempty"`  // who was in the way; empty: a queue
	HeldKey string           `json:"heldKey,omitempty"` // of which key
	Err     string           `json:"err,omitempty"`

	Take   int   `json:"take,omitempty"`   // slots of the pool; all: lease.TakeAll
	Slots  int   `json:"slots,omitempty"`  // the size that the request names
	Joined int64 `json:"joined,omitempty"` // it was in the queue
	Idle   int64 `json:"idle,omitempty"`   // the longest time between two looks of the wait
	Until  int64 `json:"until,omitempty"`  // the holder trusted its lease then

	Waits     bool          `json:"waits,omitempty"`     // told to wait for its turn
	Probe     bool          `json:"probe,omitempty"`     // meant to be refused
	Attached  bool          `json:"attached,omitempty"`  // lost to its own deadline, the record may still be its own
	TTL       time.Duration `json:"ttl,omitempty"`       // of an acquire
	Process   bool          `json:"process,omitempty"`   // the lease names the worker's process
	Unreached bool          `json:"unreached,omitempty"` // the server was away: nobody knows what it did
	Trusted   bool          `json:"trusted,omitempty"`   // pushed aside within its time of trust
	Found     string        `json:"found,omitempty"`     // in the register
}

type taken struct {
	Owner string `json:"owner"`
	Why   string `json:"why"`
}

// token is that of a key, or of the key of all for a slot that the pool does not have.
func (o *op) token(key string) int64 {
	if t, ok := o.Tokens[key]; ok {
		return t
	}
	return o.Tokens[allKey]
}

// A journal is the history of one worker, appended line by line. A killed
// worker's lines are all there, save perhaps the last: the kernel has them once
// they are written.
type journal struct {
	f    *os.File
	row  int
	next int
}

func historyFile(dir string, row int) string {
	return filepath.Join(dir, fmt.Sprintf("history-%05d.jsonl", row))
}

func openJournal(dir string, row int) (*journal, error) {
	f, err := os.OpenFile(historyFile(dir, row), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &journal{f: f, row: row}, err
}

// call notes that the operation begins.
func (j *journal) call(o op) op {
	j.next++
	o.ID, o.Row, o.Call = j.next, j.row, now()
	j.append(o)
	return o
}

// done notes how it ended.
func (j *journal) done(o op) {
	o.Return = now()
	if o.Began == 0 {
		o.Began = o.Call
	}
	j.append(o)
}

func (j *journal) append(o op) {
	b, err := json.Marshal(o)
	if err == nil {
		_, err = j.f.Write(append(b, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// readHistory collects the operations of all workers in the order of their
// calls. Those without an end are unknown and return never.
func readHistory(dir string) ([]op, error) {
	files, err := filepath.Glob(filepath.Join(dir, "history-*.jsonl"))
	if err != nil {
		return nil, err
	}
	var all []op
	for _, name := range files {
		ops, err := readJournal(name)
		if err != nil {
			return nil, err
		}
		all = append(all, ops...)
	}
	slices.SortStableFunc(all, func(a, b op) int { return int(a.Call - b.Call) })
	return all, nil
}

func readJournal(name string) ([]op, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var ops []op
	at := map[int]int{} // by id
	for line := range bytes.Lines(raw) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // killed in the middle of writing it
		}
		o := op{Result: isUnknown}
		if err := json.Unmarshal(line, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if o.Result == isUnknown {
			o.Began, o.Return = o.Call, never
		}
		if i, ok := at[o.ID]; ok {
			ops[i] = o
			continue
		}
		at[o.ID] = len(ops)
		ops = append(ops, o)
	}
	return ops, nil
}
