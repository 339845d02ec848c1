//go:build linux

package filestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/filestore"
)

// BenchmarkCommit compares a commit with the cheapest durable construction,
// one write of the same size to blocks that exist, and its sync; both in turn,
// in one run, so that what else the machine does hits both.
func BenchmarkCommit(b *testing.B) {
	value := []byte(`{"key":"deploy","lease":"me/k3v9","owner":"me","since":"2026-11-15T03:04:05Z","pad":"0123456789abcdef0123456789abcdef"}`)
	for name, batch := range map[string]func(i int) []driver.Write{
		"renew": func(i int) []driver.Write { return []driver.Write{{Key: "lease/me/k3v9", Value: value}} },
		"pair": func(i int) []driver.Write { // acquire, release
			event := driver.Write{Key: fmt.Sprintf("event/%08d", i), Value: value}
			if i%2 == 1 {
				return []driver.Write{{Key: "lock/deploy"}, {Key: "lease/me/k3v9"}, event}
			}
			return []driver.Write{{Key: "lock/deploy", Value: value}, {Key: "lease/me/k3v9", Value: value}, event}
		},
	} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			s, err := filestore.Open(b.Context(), filepath.Join(dir, "store"), &filestore.Options{Create: true})
			must(b, err)
			defer func() { _ = s.Close() }()
			raw, err := os.Create(filepath.Join(dir, "raw"))
			must(b, err)
			defer func() { _ = raw.Close() }()
			_, err = raw.Write(make([]byte, 1<<20))
			must(b, err)
			must(b, raw.Sync())
			var ours, limit time.Duration
			for i := range b.N {
				start := time.Now()
				_, err := s.Commit(b.Context(), driver.Batch{Guards: []driver.Guard{{Key: "meta/store"}}, Writes: batch(i)})
				must(b, err)
				middle := time.Now()
				_, err = raw.WriteAt(make([]byte, 512), int64(i*512%(1<<20)))
				must(b, err)
				must(b, unix.Fdatasync(int(raw.Fd())))
				ours += middle.Sub(start)
				limit += time.Since(middle)
			}
			b.ReportMetric(float64(ours)/float64(limit), "×raw")
			b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "µs/commit")
			b.ReportMetric(float64(limit.Microseconds())/float64(b.N), "µs/raw")
		})
	}
}
