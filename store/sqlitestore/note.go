package sqlitestore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

// A note holds the last revision of a database, outside of it. SQLite takes a
// damaged, cut or missing log for a shorter one: held locks would look free, and
// tokens would be given out twice.
//
// Writers write it under the gate after their commit, without a sync: the commit
// is already on the disk, so a note above the database proves that commits are
// lost, even after a loss of power. Readers read it before they take their view.
// A note that is missing, unreadable or behind proves nothing.
type note struct {
	id  int64 // of the database; see idKey
	rev int64
}

// idKey holds the database's id, among the revisions of kinds, which end with a
// slash. Older versions keep it. A database without an id has not been written
// since it got its first note.
const idKey = "id"

func newID() int64 { return rand.Int64() | 1 }

// of reports whether the note is about the database with that id.
func (n note) of(id int64) bool { return n.rev > 0 && (id == 0 || id == n.id) }

// A note is one record of fixed size with a checksum, which shows a read in the
// middle of a write.
const (
	noteMagic = "tasklock"
	noteSize  = 32
)

// checksum is crc64.Checksum with the table ECMA, by half bytes: a command reads one
// note, and making the table of whole bytes takes 50 µs.
func checksum(b []byte) uint64 {
	sum := ^uint64(0)
	for _, c := range b {
		sum ^= uint64(c)
		sum = sum>>4 ^ halfByte[sum&15]
		sum = sum>>4 ^ halfByte[sum&15]
	}
	return ^sum
}

var halfByte = [16]uint64{
	0x0000000000000000, 0x7d9ba13851336649, 0xfb374270a266cc92, 0x86ace348f355aadb,
	0x64b62bcaebc387a1, 0x192d8af2baf0e1e8, 0x9f8169ba49a54b33, 0xe21ac88218962d7a,
	0xc96c5795d7870f42, 0xb4f7f6ad86b4690b, 0x325b15e575e1c3d0, 0x4fc0b4dd24d2a599,
	0xadda7c5f3c4488e3, 0xd041dd676d77eeaa, 0x56ed3e2f9e224471, 0x2b769f17cf112238,
}

func (n note) encode() []byte {
	b := append(make([]byte, 0, noteSize), noteMagic...)
	b = binary.BigEndian.AppendUint64(b, uint64(n.id))
	b = binary.BigEndian.AppendUint64(b, uint64(n.rev))
	return binary.BigEndian.AppendUint64(b, checksum(b))
}

func parseNote(b []byte) (note, bool) {
	if string(b[:8]) != noteMagic || binary.BigEndian.Uint64(b[24:]) != checksum(b[:24]) {
		return note{}, false
	}
	return note{id: int64(binary.BigEndian.Uint64(b[8:])), rev: int64(binary.BigEndian.Uint64(b[16:]))}, true
}

// A noteFile is the open file of a note. It has no errors: if it cannot be read
// or written there is no note.
type noteFile struct {
	path string

	mu     sync.Mutex
	file   *os.File
	id     host.FileID
	looked time.Time // when file was last seen to be the one at path
}

// noteLook is how long a reader may miss that the file was replaced. Meanwhile it
// reads an old note, which proves nothing.
const noteLook = time.Second

func (f *noteFile) read() note {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil || time.Since(f.looked) > noteLook {
		f.look(false)
	}
	if f.file == nil {
		return note{}
	}
	b := make([]byte, noteSize)
	for range 3 {
		if _, err := f.file.ReadAt(b, 0); err != nil {
			return note{}
		}
		if n, ok := parseNote(b); ok {
			return n
		}
	}
	return note{}
}

func (f *noteFile) write(n note) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(true)
	if f.file == nil {
		return
	}
	if _, err := f.file.WriteAt(n.encode(), 0); err != nil {
		f.drop() // it may be open for reading only
	}
}

// look opens the file, unless the open one is still the one at path.
func (f *noteFile) look(create bool) {
	f.looked = time.Now()
	if id, err := host.LookID(f.path); err == nil && f.file != nil && id.Is(f.id) {
		return
	}
	f.drop()
	now, err := os.Lstat(f.path)
	if err != nil && !create || err == nil && !now.Mode().IsRegular() {
		return
	}
	how := os.O_RDWR
	if create {
		how |= os.O_CREATE
	}
	file, err := host.OpenPlain(f.path, how, 0o600)
	if err != nil && !create {
		file, err = host.OpenPlain(f.path, os.O_RDONLY, 0)
	}
	if err != nil {
		return
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return
	}
	f.file, f.id = file, host.IDOf(info)
}

func (f *noteFile) drop() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}

func (f *noteFile) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop()
}

// behind refuses a database whose note is above it.
func (s *Store) behind(n note, st state) error {
	if s.raise || n.rev <= st.rev || !n.of(st.kinds[idKey]) {
		return nil
	}
	return fmt.Errorf("%w: %s is at revision %d, and had come to %d: its log was damaged or lost, and the last commits with it; restore it from a backup, or %s",
		driver.ErrDamaged, s.path, st.rev, n.rev, s.wayOut())
}

// wayOut is what to do when commits are lost and there is no backup.
func (s *Store) wayOut() string {
	url := "sqlite:" + s.path
	if strings.ContainsFunc(url, func(r rune) bool {
		return !strings.ContainsRune("/.:_-+@,=", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		url = "'" + strings.ReplaceAll(url, "'", `'\''`) + "'"
	}
	return "stop everything that uses it and go on without them: tasklock init --raise --store " + url
}
