package filestore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/filestore"
)

func BenchmarkCommit(b *testing.B) {
	s, err := filestore.Open(b.Context(), filepath.Join(b.TempDir(), "s"), &filestore.Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	lease := []byte(`{"owner":"me","pad":"` + strings.Repeat("x", 300) + `"}`)
	lock := []byte(`{"key":"deploy","lease":"me/1","owner":"me","since":"2026-01-02T03:04:05Z"}`)
	b.ResetTimer()
	for i := range b.N {
		ev := driver.Write{Key: "event/" + strings.Repeat("0", 10) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)), Value: lock}
		w := []driver.Write{{Key: "lock/deploy", Value: lock}, {Key: "lease/me/1", Value: lease}, ev}
		if i%2 == 1 {
			w = []driver.Write{{Key: "lock/deploy"}, {Key: "lease/me/1"}, ev}
		}
		if _, err := s.Commit(b.Context(), driver.Batch{Guards: []driver.Guard{{Key: "meta/store"}}, Writes: w}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRaw(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	f.Write(make([]byte, 1<<20))
	f.Sync()
	buf := make([]byte, 640)
	b.ResetTimer()
	for i := range b.N {
		f.WriteAt(buf, int64(i*640%(1<<20-640)))
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParallel(b *testing.B) {
	s, err := filestore.Open(b.Context(), filepath.Join(b.TempDir(), "s"), &filestore.Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Commit(b.Context(), driver.Batch{Writes: []driver.Write{{Key: "lock/deploy", Value: []byte("{}")}}})
		}
	})
}
