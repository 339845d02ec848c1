package filestore_test

import (
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

func harness() drivertest.Harness {
	return drivertest.Harness{
		Place: func(t testing.TB) string { return filepath.Join(t.TempDir(), "store") },
		Open: func(t testing.TB, place string) driver.Store {
			s, err := openLimited(t.Context(), place)
			must(t, err)
			return s
		},
		Processes: true,
	}
}

func TestConformance(t *testing.T) { drivertest.Run(t, harness()) }

// The same with a journal that starts over after every few commits.
func TestConformanceShortJournal(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite a second time")
	}
	t.Setenv(envLimit, "1500")
	drivertest.Run(t, harness())
}
