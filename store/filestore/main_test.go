package filestore_test

import (
	"context"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/filestore"
)

func TestMain(m *testing.M) {
	drivertest.Main(m, func(place string) (driver.Store, error) {
		return filestore.Open(context.Background(), place, &filestore.Options{Create: true})
	})
}
