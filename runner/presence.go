package runner

import (
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
)

// Presence is what the record of a program says that is there for others: a
// runner, a scheduler. One that is idle holds nothing that would show it.
type Presence struct {
	Name         string    `json:"name"`
	Host         string    `json:"host,omitempty"`
	host.Process           // whose death ends it
	Since        time.Time `json:"since"`
	TTL          float64   `json:"ttlSeconds"`
}

// Here is the presence of this process.
func Here(name string, since time.Time, ttl time.Duration) Presence {
	return Presence{Name: name, Host: host.Name(), Process: host.Self(), Since: since, TTL: ttl.Seconds()}
}

// Over reports whether nobody is behind a record of that age any more.
func (p Presence) Over(age time.Duration) bool {
	return age.Seconds() > p.TTL || p.Life() == host.Dead
}

// State is "dead" where that is proved, "silent" past the ttl, else empty.
func (p Presence) State(age time.Duration) string {
	switch {
	case p.Life() == host.Dead:
		return "dead"
	case p.Over(age):
		return "silent"
	}
	return ""
}

// Mine reports whether it is this process's own.
func (p Presence) Mine() bool { return p.Process == host.Self() }

// PutPresence writes the record of a presence under a kind.
func PutPresence(tx *store.Tx, kind string, p Presence, record any) error {
	return tx.PutTTL(kind+p.Name, record, time.Duration(p.TTL*float64(time.Second)))
}
