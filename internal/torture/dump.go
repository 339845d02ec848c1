//go:build linux

package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

// dumpEnv names the store that a process of its own is to read.
const dumpEnv = "TORTURE_DUMP"

// A Dump is all that a store holds, in a form that two runs of one operation
// give alike: without times and random names.
type Dump map[string]Entry

// An Entry is one record of it.
type Entry struct {
	Rev   int64
	Value map[string]any
}

// MaxRev is the highest revision of any record.
func (d Dump) MaxRev() (rev int64) {
	for _, e := range d {
		rev = max(rev, e.Rev)
	}
	return rev
}

// ReadFresh reads a store in a new process, which has seen nothing of it yet.
// A store that does not exist is made, and is empty.
func ReadFresh(worker, url string) (Dump, error) {
	cmd := exec.Command(worker, "-test.run=^$")
	cmd.Env = append(cleanEnv(), dumpEnv+"="+url)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("a new process cannot read %s: %w: %s", url, err, &stderr)
	}
	var d Dump
	return d, json.Unmarshal(out, &d)
}

func dumpMain(open Open) error {
	ctx := context.Background()
	st, err := open(ctx, os.Getenv(dumpEnv))
	if err != nil {
		return err
	}
	d, err := dump(ctx, st)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(d) // no Close: a command just goes
}

func dump(ctx context.Context, st driver.Store) (Dump, error) {
	snap, err := st.Read(ctx, driver.Query{Ranges: []driver.Range{{}}})
	if err != nil {
		return nil, err
	}
	all := Dump{}
	for _, r := range snap.Records {
		var v map[string]any
		if err := json.Unmarshal(r.Value, &v); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Key, err)
		}
		if v["void"] == true {
			continue // in place of a commit that was repeated
		}
		key := r.Key
		if strings.HasPrefix(key, "event/") {
			key = fmt.Sprintf("event/%d", r.Rev)
			for all[key].Value != nil { // several of one commit
				key += "+"
			}
		}
		for _, f := range []string{"since", "renewedAt", "time", "at", "lapsed", "id", "call", "storeId", "createdAt", "claimedAt", "updatedAt", "completedAt"} {
			delete(v, f)
		}
		all[key] = Entry{Rev: r.Rev, Value: v}
	}
	return all, nil
}
