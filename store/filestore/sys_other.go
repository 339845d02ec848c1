//go:build !linux

package filestore

import "os"

// syncData makes what was written to f survive loss of power.
func syncData(f *os.File) error { return f.Sync() }

// mount is for systems that name their mounts.
func mount(*os.File) string { return "" }

// startSyncData is for systems that can begin a sync without waiting for it.
func startSyncData(*os.File, int64, int) {}
