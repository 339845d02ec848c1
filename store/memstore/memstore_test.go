package memstore_test

import (
	"crypto/rand"
	"sync"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

// TestConformance holds memstore to its own specification. A place is a name;
// all handles on it are one Store.
func TestConformance(t *testing.T) {
	var mu sync.Mutex
	places := map[string]*memstore.Store{}
	drivertest.Run(t, drivertest.Harness{
		Place: func(testing.TB) string { return rand.Text() },
		Open: func(_ testing.TB, place string) driver.Store {
			mu.Lock()
			defer mu.Unlock()
			if places[place] == nil {
				places[place] = memstore.New()
			}
			return places[place]
		},
	})
}
