package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/filestore"
)

// files compares a pair on plain files with the cheapest thing that survives a
// loss of power: two writes to blocks that exist, each of them synced.
func (b *bench) files() {
	b.section("Files, one process: a pair (acquire and release), beside two synced writes")
	dir := b.fresh("files")
	st, many := store.New(openFiles(filepath.Join(dir, "store"))), store.New(openFiles(filepath.Join(dir, "many")))
	raw := newRaw(filepath.Join(dir, "raw"))
	all := inTurns(
		goroutines("two synced writes", 1, func(int) { raw.write(); raw.write() }),
		goroutines("acquire and release, audited", 1, func(int) { pair(st, "me", "key") }),
		goroutines("the same from 64 goroutines", 64, func(i int) { pair(many, fmt.Sprint("key", i), fmt.Sprint("key", i)) }))
	b.beside(all)
	ratio := float64(all[1].mean()) / float64(all[0].mean())
	b.row("mean of a pair", fmt.Sprintf("%.2f × two synced writes", ratio), "<= 3", ratio <= 3)
}

func openFiles(dir string) *filestore.Store {
	s, err := filestore.Open(ctx, dir, &filestore.Options{Create: true})
	check(err)
	return s
}

// raw is a file that is written in place.
type raw struct {
	f    *os.File
	next int64
}

const rawSize, rawBlock = 1 << 20, 512

func newRaw(path string) *raw {
	f, err := os.Create(path)
	check(err)
	_, err = f.Write(make([]byte, rawSize))
	check(err)
	check(f.Sync())
	return &raw{f: f}
}

func (r *raw) write() {
	_, err := r.f.WriteAt(make([]byte, rawBlock), r.next)
	check(err)
	check(unix.Fdatasync(int(r.f.Fd())))
	r.next = (r.next + rawBlock) % rawSize
}
