package pgstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/pgstore"
)

func TestMain(m *testing.M) {
	drivertest.Main(m, func(place string) (driver.Store, error) {
		return pgstore.Open(context.Background(), place, &pgstore.Options{Create: true})
	})
}

func open(t testing.TB, url string) *pgstore.Store {
	t.Helper()
	return openWith(t, url, pgstore.Options{Create: true})
}

func openWith(t testing.TB, url string, o pgstore.Options) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), url, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(key, value string) driver.Batch {
	return driver.Batch{Writes: []driver.Write{{Key: key, Value: []byte(value)}}}
}

// warm commits until the server remembers how.
func warm(t testing.TB, s driver.Store) {
	t.Helper()
	for range 4 {
		_, err := s.Commit(t.Context(), put("warm/a", `{}`))
		must(t, err)
	}
}

// inBothWays runs a test with stores that have just been opened, and with stores
// whose commits are prepared: begin makes them so.
func inBothWays(t *testing.T, test func(t *testing.T, begin func(driver.Store))) {
	t.Helper()
	t.Run("opened", func(t *testing.T) { test(t, func(driver.Store) {}) })
	t.Run("prepared", func(t *testing.T) { test(t, func(s driver.Store) { warm(t, s) }) })
}

// must ends the test unless err is nil, or the error that is wanted.
func must(t testing.TB, err error, want ...error) {
	t.Helper()
	if len(want) == 0 && err != nil || len(want) > 0 && !errors.Is(err, want[0]) {
		t.Fatal(err)
	}
}
