package gitstore_test

import (
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

// harness opens handles of one machine: they share a cache.
func harness() drivertest.Harness {
	return drivertest.Harness{
		Place: func(t testing.TB) string { return newRemote(t) },
		Open: func(t testing.TB, place string) driver.Store {
			s, err := openPlace(place)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Processes: true,
		Slow:      true,
	}
}

func TestConformance(t *testing.T) { drivertest.Run(t, harness()) }
