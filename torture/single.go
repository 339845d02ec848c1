//go:build linux

package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

const (
	opEnv    = "TORTURE_OP"
	childEnv = "TORTURE_CHILD"
)

// A single is one operation in a process of its own: what is killed at each
// of its system calls, or made to fail at one of them.
type single struct {
	URL   string
	Do    string // acquire, renew, release, or dump: all records, as JSON
	Keys  []string
	Owner string
	ID    string        // of the request; also the lease's
	TTL   time.Duration // of an acquire
	Wait  time.Duration
}

func opMain(open Open) error {
	var s single
	if err := json.Unmarshal([]byte(os.Getenv(opEnv)), &s); err != nil {
		return err
	}
	ctx := context.Background()
	d, err := open(ctx, s.URL)
	if err != nil {
		return err
	}
	// No Close: a command just goes.
	out, err := s.run(ctx, d)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func (s single) run(ctx context.Context, d driver.Store) (any, error) {
	st := store.New(d)
	switch s.Do {
	case "acquire":
		return lock.Acquire(ctx, st, lock.AcquireRequest{Keys: s.Keys, Owner: s.Owner, ID: s.ID, TTL: s.TTL, Wait: s.Wait})
	case "renew":
		return lock.Renew(ctx, st, lock.RenewRequest{Owner: s.Owner, Lease: s.ID})
	case "release":
		return lock.Release(ctx, st, lock.ReleaseRequest{Owner: s.Owner, Lease: s.ID})
	case "dump":
		return dump(ctx, d)
	}
	return nil, fmt.Errorf("no operation %q", s.Do)
}

// A dump is all that a store holds, in a form that two runs of one operation
// give alike: without times and without random names.
type dumped map[string]record

type record struct {
	Rev   int64
	Value map[string]any
}

func dump(ctx context.Context, d driver.Store) (dumped, error) {
	snap, err := d.Read(ctx, driver.Query{Ranges: []driver.Range{{}}})
	if err != nil {
		return nil, err
	}
	all := dumped{}
	for _, r := range snap.Records {
		key := r.Key
		if strings.HasPrefix(key, "event/") {
			key = fmt.Sprintf("event/%d", r.Rev)
			for all[key].Value != nil { // several of one commit
				key += "+"
			}
		}
		var v map[string]any
		if err := json.Unmarshal(r.Value, &v); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Key, err)
		}
		for _, f := range []string{"since", "renewedAt", "time", "lapsed", "id"} {
			delete(v, f)
		}
		all[key] = record{Rev: r.Rev, Value: v}
	}
	return all, nil
}

// exitCode tells the classes of errors apart as the command does.
func exitCode(err error) int {
	var held *lock.HeldError
	switch {
	case errors.As(err, &held):
		return 6
	case errors.Is(err, lock.ErrLost):
		return 7
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrUnreachable):
		return 8
	case errors.Is(err, driver.ErrDamaged):
		return 9
	case errors.Is(err, driver.ErrUnsafe), errors.Is(err, driver.ErrDenied):
		return 10
	}
	return 1
}

func childMain() error { return errors.New("not yet") }
