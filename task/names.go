package task

import (
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// wantNames reads at once the records of all names of tasks.
func wantNames(tx *store.Tx, found []Task) error {
	var keys []string
	for _, t := range found {
		keys = append(keys, lease.NeedNames(t.ID, t.names())...)
	}
	return tx.Want(keys...)
}

// IndexNames returns the writes that index the names of all tasks in a store from
// before there was an index. It skips an unreadable task, which has no name until
// it is repaired.
func IndexNames(records []driver.Record) ([]driver.Write, error) {
	var all []lease.NamedTask
	for _, rec := range records {
		if !strings.HasPrefix(rec.Key, taskKind) {
			continue
		}
		e, err := store.DecodeAt[Task](time.Time{}, rec)
		if t := e.Value; err == nil && taskKind+t.ID == rec.Key {
			all = append(all, lease.NamedTask{ID: t.ID, Names: t.names()})
		}
	}
	return lease.IndexNames(all, records)
}
