package filestore_test

import (
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/filestore"
)

func harness() drivertest.Harness {
	return drivertest.Harness{
		Place: func(t testing.TB) string { return filepath.Join(t.TempDir(), "store") },
		Open: func(t testing.TB, place string) driver.Store {
			s, err := filestore.Open(t.Context(), place, &filestore.Options{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Processes: true,
	}
}

func TestConformance(t *testing.T) { drivertest.Run(t, harness()) }
