package lease

import (
	"maps"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// maxQueue bounds the waiters of one key: the queue is one record.
const maxQueue = 1000

// lapses are tickets whose waiters were silent for too long, and since when.
type lapses map[string]time.Time

// queueRecord lists the waiters for a key, first come first. A lapsed ticket gets a
// date, and is dropped when that is long ago.
type queueRecord struct {
	Tickets []string `json:"tickets"` // lease names
	Lapsed  lapses   `json:"lapsed,omitempty"`
	Batches []string `json:"batches,omitempty"` // tickets that wait for other keys besides, or for several slots
}

// full reports whether the queue has no room for another waiter: the record is
// limited in waiters and in bytes.
func (q queueRecord) full() bool {
	size := 0
	for _, t := range q.Tickets {
		size += len(t) + 4
	}
	for _, t := range q.Batches {
		size += len(t) + 4
	}
	for t := range q.Lapsed {
		size += len(t) + 40
	}
	return len(q.Tickets) >= maxQueue || size > driver.MaxValue-4*MaxOwner
}

func (q *queueRecord) remove(lease string) {
	q.Tickets = slices.DeleteFunc(q.Tickets, func(t string) bool { return t == lease })
	q.Batches = slices.DeleteFunc(q.Batches, func(t string) bool { return t == lease })
	delete(q.Lapsed, lease)
}

// put writes the queue, or deletes it when nobody is left.
func (q queueRecord) put(tx *store.Tx, key string) error {
	if len(q.Tickets) == 0 {
		tx.Delete(queueKind + key)
		return nil
	}
	return tx.Put(queueKind+key, q)
}

// liveBefore counts the tickets before a place that have not lapsed.
func (q queueRecord) liveBefore(place int) int {
	n := place
	for _, t := range q.Tickets[:place] {
		if _, ok := q.Lapsed[t]; ok {
			n--
		}
	}
	return n
}

// live counts the tickets that have not lapsed.
func (q queueRecord) live() int { return q.liveBefore(len(q.Tickets)) }

// sweeps reports whether sweep would change the queue.
func (q queueRecord) sweeps(now time.Time, lapsed lapses) bool {
	return slices.ContainsFunc(q.Tickets, func(t string) bool {
		_, found := lapsed[t]
		since, dated := q.Lapsed[t]
		return found && (!dated || now.Sub(since) > placeKept)
	})
}

// sweep returns a copy of the queue in which lapsed tickets have a date. It drops
// them if that date is long past, or if the queue is too full to keep places for
// absent waiters.
func (q queueRecord) sweep(tx *store.Tx, key string, lapsed lapses) (queueRecord, error) {
	out := queueRecord{Lapsed: lapses{}}
	for _, t := range q.Tickets {
		since, dated := q.Lapsed[t]
		if lapse, found := lapsed[t]; found {
			if !dated {
				since, dated = lapse, true
			}
			if tx.Now().Sub(since) > placeKept && (roomToDrop(tx) || !slices.Contains(q.Batches, t)) {
				if err := dropTicket(tx, t, key); err != nil {
					return out, err
				}
				continue
			}
		}
		out.Tickets = append(out.Tickets, t)
		if slices.Contains(q.Batches, t) {
			out.Batches = append(out.Batches, t)
		}
		if dated {
			out.Lapsed[t] = since
		}
	}
	if out.full() {
		err := out.dropLapsed(tx, key)
		return out, err
	}
	return out, nil
}

// dropLapsed drops the places of all absent waiters.
func (q *queueRecord) dropLapsed(tx *store.Tx, key string) error {
	for _, t := range slices.Sorted(maps.Keys(q.Lapsed)) { // what there is room for must be the same in each run
		if roomToDrop(tx) || !slices.Contains(q.Batches, t) { // otherwise its record stays, without a place
			if err := dropTicket(tx, t, key); err != nil {
				return err
			}
		}
		q.remove(t)
	}
	return nil
}
