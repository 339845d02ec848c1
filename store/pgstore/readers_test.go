package pgstore_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store/driver"
)

// Readers who share a round trip give up together, those who read and those who
// queue: whoever comes next is served.
func TestReadersGiveUpTogether(t *testing.T) {
	s := open(t, pgtest.Shared(t).Place())
	q := driver.Query{Keys: []string{"lock/a"}}
	for round := range 400 {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(time.Millisecond))
		var readers sync.WaitGroup
		for range 6 {
			readers.Go(func() { _, _ = s.Read(ctx, q) })
		}
		gone := make(chan struct{})
		go func() { readers.Wait(); close(gone) }()
		select {
		case <-gone:
		case <-time.After(2 * time.Minute):
			t.Fatalf("round %d: readers whose time is over do not return", round)
		}
		cancel()
	}
	_, err := s.Read(t.Context(), q)
	must(t, err)
}
