package schedule

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

const (
	maxPruned  = 200  // records that the end of one run deletes
	maxCleaned = 5000 // records that one commit of Cleanup deletes: each reads all
)

// prunesAfter says after which fire times a pod prunes the records of a job: one in
// sixteen, whatever the pace of the job and of the store.
func prunesAfter(job string, at time.Time) bool { return fireHash(job, at)%16 == 0 }

// prune deletes the oldest records of a job beyond what it keeps.
func prune(tx *store.Tx, j Job) error {
	recs, err := tx.Scan(firePrefix(j.Name), 0)
	if err == nil {
		pruneRecords(tx, recs, j, maxPruned)
	}
	return err
}

// pruneRecords deletes at most most of a job's records, the oldest first.
func pruneRecords(tx *store.Tx, recs []driver.Record, j Job, most int) (n int) {
	for i, rec := range recs {
		f, err := store.Decode[Fire](tx, rec)
		if err != nil { // doctor names it; it does no harm
			continue
		}
		old := i < len(recs)-j.Keep || f.Age > j.KeepFor
		if old && f.Value.State != Claimed && n < most {
			tx.Delete(rec.Key)
			n++
		}
	}
	return n
}

// Cleanup prunes the records of all jobs, also of removed ones, and returns how
// many it deleted.
func Cleanup(ctx context.Context, st *store.Store, dry bool) (total int, err error) {
	for {
		n := 0
		err := update(ctx, st, dry, driver.Query{Ranges: []driver.Range{{Prefix: jobKind}, {Prefix: fireKind}}}, func(tx *store.Tx) error {
			n, err = cleanup(tx)
			return err
		})
		if total += n; err != nil || n == 0 || dry {
			return total, err
		}
	}
}

func cleanup(tx *store.Tx) (n int, err error) {
	jobs, err := tx.Scan(jobKind, 0)
	if err != nil {
		return 0, err
	}
	known := map[string]Job{}
	for _, rec := range jobs {
		j, err := store.Decode[Job](tx, rec)
		if err != nil { // nobody knows what it keeps
			j.Value = Job{Keep: math.MaxInt, KeepFor: math.MaxInt64}
		}
		known[strings.TrimPrefix(rec.Key, jobKind)] = j.Value
	}
	recs, err := tx.Scan(fireKind, 0)
	if err != nil {
		return 0, err
	}
	byJob := map[string][]driver.Record{}
	for _, rec := range recs {
		name := jobOf(rec.Key)
		byJob[name] = append(byJob[name], rec)
	}
	for name, recs := range byJob {
		j, ok := known[name]
		if !ok {
			j = Job{Keep: defaultKeep, KeepFor: defaultKeepFor}
		}
		n += pruneRecords(tx, recs, j, maxCleaned-n)
	}
	return n, nil
}
