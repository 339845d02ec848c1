//go:build !linux

package filestore_test

import (
	"context"
	"errors"

	"github.com/tasklock/tasklock/store/filestore"
)

func part(context.Context, *filestore.Store) error { return errors.ErrUnsupported }
func pairs(context.Context, string, int) error     { return errors.ErrUnsupported }
