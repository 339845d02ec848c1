package etcdstore_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/etcdstore"
	"github.com/tasklock/tasklock/store/etcdstore/etcdtest"
)

func TestMain(m *testing.M) {
	drivertest.Main(m, func(place string) (driver.Store, error) {
		return etcdstore.Open(context.Background(), place, &etcdstore.Options{Create: true})
	})
}

// newPrefix is one that nobody has used.
func newPrefix() string { return "t-" + strings.ToLower(rand.Text()[:12]) }

// open opens a store and closes it when the test ends.
func open(t testing.TB, url string) *etcdstore.Store {
	t.Helper()
	s, err := etcdstore.Open(t.Context(), url, &etcdstore.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// TestConformance holds the driver to the contract, on one member.
func TestConformance(t *testing.T) {
	c := etcdtest.Start(t, 1, "--unsafe-no-fsync")
	drivertest.Run(t, drivertest.Harness{
		Open: func(t testing.TB, place string) driver.Store {
			s, err := etcdstore.Open(t.Context(), place, &etcdstore.Options{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Place:     func(testing.TB) string { return c.URL(newPrefix()) },
		Processes: true,
	})
}
