package pgstore_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

// A page takes as many rows of the server however many there are.
func TestRowsOfAPage(t *testing.T) {
	server := pgtest.Start(t)
	const n, page = 6000, 50
	s := open(t, server.URL("postgres", "growth"))
	var b driver.Batch
	for i := range n {
		b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("lock/%06d", i), Value: []byte(`{}`)})
	}
	_, err := s.Commit(t.Context(), b)
	must(t, err)
	for _, limit := range []int{page, -page} {
		plan := server.SQL(t, pgstore.Plan("growth", driver.Range{Prefix: "lock/", After: "lock/003000", Limit: limit}))
		rows := 0
		for _, m := range regexp.MustCompile(`Scan (?:Backward )?using .*actual rows=([0-9]+)|Rows Removed by .*: ([0-9]+)`).FindAllStringSubmatch(plan, -1) {
			n, _ := strconv.Atoi(m[1] + m[2])
			rows += n
		}
		if rows < page || rows > page+10 {
			t.Errorf("a page of %d takes %d rows:\n%s", limit, rows, plan)
		}
	}
}
