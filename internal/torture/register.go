//go:build linux

package torture

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Layout of the register file, in 8-byte words. Cache lines are not shared.
const (
	line     = 8
	maxKeys  = 64
	maxSlots = 64
	maxRows  = 1 << 16 // incarnations of workers

	progressAt = maxKeys * line
	stateAt    = progressAt + maxSlots*line
	words      = stateAt + maxRows
)

// What a worker is doing, for the controller to choose its victims.
const (
	idle = iota
	acquiring
	holding
	releasing
)

// A register is memory that all workers share: the resource that the locks
// protect. It outlives every one of them, and no worker can leave it half
// written because every change is one atomic word.
type register struct {
	word []uint64
	raw  []byte
}

// openRegister maps the file, which it makes where there is none.
func openRegister(path string) (*register, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(words * 8); err != nil {
		return nil, err
	}
	raw, err := unix.Mmap(int(f.Fd()), 0, words*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &register{word: unsafe.Slice((*uint64)(unsafe.Pointer(&raw[0])), words), raw: raw}, nil
}

func (r *register) close() error { return unix.Munmap(r.raw) }

// An entry is what the register holds for a key: the highest token that ever
// entered, the row of the worker that brought it, and whether it is inside.
type entry uint64

func newEntry(token int64, row int, inside bool) entry {
	e := entry(token)<<17 | entry(row)
	if inside {
		e |= 1 << 16
	}
	return e
}

func (e entry) token() int64 { return int64(e >> 17) }
func (e entry) row() int     { return int(e & 0xffff) }
func (e entry) inside() bool { return e&(1<<16) != 0 }

func (e entry) String() string {
	return fmt.Sprintf("token %d of worker %d (inside: %v)", e.token(), e.row(), e.inside())
}

func (r *register) at(key int) entry { return entry(atomic.LoadUint64(&r.word[key*line])) }

func (r *register) swap(key int, old, new entry) bool {
	return atomic.CompareAndSwapUint64(&r.word[key*line], uint64(old), uint64(new))
}

// enter goes into the critical section of key, unless a later token has been
// there, or the same one in other hands. It returns what it found there.
func (r *register) enter(key int, token int64, row int) (found entry, ok bool) {
	for {
		old := r.at(key)
		if old.token() > token || old.token() == token && old.row() != row {
			return old, false
		}
		if r.swap(key, old, newEntry(token, row, true)) {
			return old, true
		}
	}
}

// write is a fenced write: it is accepted while nobody has entered since.
func (r *register) write(key int, token int64, row int) (found entry, ok bool) {
	old := r.at(key)
	return old, old == newEntry(token, row, true)
}

// leave goes out, unless someone else has come in meanwhile.
func (r *register) leave(key int, token int64, row int) (found entry, ok bool) {
	if r.swap(key, newEntry(token, row, true), newEntry(token, row, false)) {
		return 0, true
	}
	return r.at(key), false
}

// done counts a finished round of a slot, progress tells how many there were.
func (r *register) done(slot int) { atomic.AddUint64(&r.word[progressAt+slot*line], 1) }

// finish says that a slot has done that many rounds.
func (r *register) finish(slot, rounds int) {
	at := &r.word[progressAt+slot*line]
	for old := atomic.LoadUint64(at); old < uint64(rounds) && !atomic.CompareAndSwapUint64(at, old, uint64(rounds)); {
		old = atomic.LoadUint64(at)
	}
}

func (r *register) progress(slot int) int {
	return int(atomic.LoadUint64(&r.word[progressAt+slot*line]))
}

func (r *register) setState(row, state int) { atomic.StoreUint64(&r.word[stateAt+row], uint64(state)) }
func (r *register) state(row int) int       { return int(atomic.LoadUint64(&r.word[stateAt+row])) }
