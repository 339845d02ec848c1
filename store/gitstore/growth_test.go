package gitstore_test

import (
	"fmt"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// A page reads the files of its own records, however many there are. It lists the
// names of all: they are in 256 folders by their hash.
func TestRecordsOfAPage(t *testing.T) {
	t.Parallel()
	const n, page = 2000, 50
	remote := newRemote(t)
	var b driver.Batch
	for i := range n {
		b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("lock/%04d", i), Value: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	commit(t, open(t, remote), b)
	for _, limit := range []int{page, -page} {
		s := open(t, remote)
		snap, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "lock/", After: "lock/1000", Limit: limit}}})
		must(t, err)
		if read := gitstore.RecordsRead(s); len(snap.Records) != page || read > page {
			t.Errorf("limit %d: %d records on the page, %d read", limit, len(snap.Records), read)
		}
	}
}
