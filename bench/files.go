package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/filestore"
)

// files compares a pair on plain files with the cheapest thing that survives a
// loss of power: two writes to blocks that exist, each of them synced.
func (b *bench) files() {
	b.section("Files, one process: a pair (acquire and release), beside two synced writes")
	dir := b.fresh("files")
	d, err := filestore.Open(ctx, filepath.Join(dir, "store"), &filestore.Options{Create: true})
	check(err)
	st := store.New(d)
	raw := newRaw(filepath.Join(dir, "raw"))
	var ours, limit []time.Duration
	for start := time.Now(); time.Since(start) < 2*length; { // in turns, so that both see the same machine
		before := time.Now()
		pair(st, "me", "key")
		middle := time.Now()
		raw.write()
		raw.write()
		ours, limit = append(ours, middle.Sub(before)), append(limit, time.Since(middle))
	}
	ratio := float64(percentile(ours, 0.5)) / float64(percentile(limit, 0.5))
	b.note("two writes, synced", percentile(limit, 0.5).String())
	b.row("acquire and release, audited", fmt.Sprintf("%s = %.2f", percentile(ours, 0.5), ratio), "<= 1.5", ratio <= 1.5)
	before := time.Now()
	one := rate(raw.write) / 2
	many := b.together(st, 64)
	b.note(fmt.Sprintf("pairs a second from 64 goroutines (%s)", time.Since(before).Round(time.Second)), fmt.Sprintf("%.0f = %.2f of raw", many, many/one))
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
