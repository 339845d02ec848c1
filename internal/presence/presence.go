// Package presence keeps the records of programs that work for others, runners
// and schedulers: one that is idle holds no lease that would show it.
package presence

import (
	"context"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Record is what every such record says. Each kind adds its own fields.
type Record struct {
	Name         string    `json:"name"`
	Host         string    `json:"host,omitempty"`
	host.Process           // whose death ends it
	Since        time.Time `json:"since"`
	TTL          float64   `json:"ttlSeconds"`
}

// Here is the record of this process.
func Here(name string, since time.Time, ttl time.Duration) Record {
	return Record{Name: name, Host: host.Name(), Process: host.Self(), Since: since, TTL: ttl.Seconds()}
}

// Over reports whether the program behind a record of that age is gone.
func (r Record) Over(age time.Duration) bool { return r.State(age) != "" }

// State is "dead" if the process has provably died, "silent" after the ttl, else
// empty.
func (r Record) State(age time.Duration) string {
	switch {
	case r.Life() == host.Dead:
		return "dead"
	case age.Seconds() > r.TTL:
		return "silent"
	}
	return ""
}

// Mine reports whether this process wrote the record.
func (r Record) Mine() bool { return r.Process == host.Self() }

// Put writes a record of a kind: whole is r with the fields that the kind adds.
func Put(tx *store.Tx, kind string, r Record, whole any) error {
	return tx.PutTTL(kind+r.Name, whole, time.Duration(r.TTL*float64(time.Second)))
}

// Sweep deletes the records of programs that are gone, and looks at no more than
// most records (0: all). It leaves a record that it cannot read.
func Sweep(tx *store.Tx, kind string, most int) error {
	recs, err := tx.Scan(kind, most)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		if e, err := store.Get[Record](tx, rec.Key); err == nil && e.Value.Over(e.Age) {
			tx.Delete(rec.Key)
		}
	}
	return nil
}

// Remove deletes the record of this process, unless another program has replaced
// it. If the store does not answer, the record expires.
func Remove(ctx context.Context, st *store.Store, kind, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_, _ = st.Update(ctx, driver.Query{Keys: []string{kind + name}}, func(tx *store.Tx) error {
		e, err := store.Get[Record](tx, kind+name)
		if err == nil && e.Value.Mine() {
			tx.Delete(e.Key)
		}
		return err
	})
}
