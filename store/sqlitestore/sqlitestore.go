// Package sqlitestore keeps records in one SQLite database on a local disk. It
// is the default store and needs no installation.
//
// # Guarantees
//
// A commit that returned is on the disk (WAL with synchronous=FULL), and every
// later Read in every process sees it. Commits are serialisable: a commit takes
// SQLite's write lock, then checks its guards and writes. Reads are snapshots
// and never wait for writers.
//
// Concurrent commits of one process share a transaction and its fsync. Those
// of several processes pass a gate, one after another, instead of racing for
// SQLite's lock, whose losers sleep and starve.
//
// # Limits
//
// One machine. On file systems shared over a network or between a host and its
// guests WAL loses data silently, so Open refuses them; with AllowUnsafeFS it
// uses a rollback journal there, which is as good as that file system's locks.
// Write.TTL is not used: records stay until deleted. A process that is stopped
// (SIGSTOP) in the middle of a commit keeps the others from committing until it
// continues or dies; their contexts still end.
//
// # Failure
//
// A file that is foreign, empty, cut short or malformed is driver.ErrDamaged
// and is never written to; so is a database whose log was damaged or deleted (see
// note.go), or that was replaced while we had it open. A full disk rolls the
// commit back. A process may die or exit at any moment without Close: the next
// process that opens the database finds every commit that returned.
package sqlitestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// Options are those of every store.
type Options = driver.OpenOptions

func init() { driver.Register(Open, Inspect, "sqlite") }

// A Store is an open database. It implements driver.Store.
type Store struct {
	path   string
	safeFS bool
	raise  bool
	id     host.FileID // of the file we opened
	last   noteFile
	made   bool // the folder beside it, by the one that writes

	life  *driver.Life
	group *driver.Group
	gate  *local.Gate
	wake  *local.Wake

	memory  memory
	conns   *conns
	commits int   // groups committed, under conns.main
	version int64 // of the writer's connection when known was read, under conns.main; see memory
	known   state // as of that version, under conns.main
	log     files // of the writer's connection, under conns.main
}

// Open opens the database at path. In the same folder are its log, its shared
// memory, and the folder path.d for messages between processes: the file "gate",
// the folder "wake" and the note "last".
func Open(ctx context.Context, path string, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	safeFS, err := local.Dir(filepath.Dir(path), local.DirOptions{Create: o.Create, AllowUnsafeFS: o.AllowUnsafeFS})
	if err != nil {
		return nil, err
	}
	s := newStore(path, safeFS, o.Poll)
	s.raise = o.Raise
	if err := s.open(ctx, o.Create); err != nil {
		s.gate.Close()
		s.last.close()
		return nil, err
	}
	return s, nil
}

func newStore(path string, safeFS bool, poll time.Duration) *Store {
	if safeFS { // the kernel tells of every commit: the poll is a safety net
		poll = 3 * cmp.Or(poll, local.DefaultPoll)
	}
	s := &Store{
		path:   path,
		safeFS: safeFS,
		life:   driver.NewLife(),
		gate:   local.NewGate(beside(path, "gate")),
		wake:   local.NewWake(beside(path, "wake"), poll),
		last:   noteFile{path: beside(path, "last")},
	}
	s.group = driver.NewGroup(s.apply)
	return s
}

// beside is a file in the folder that belongs to a database.
func beside(path, name string) string { return filepath.Join(path+".d", name) }

// enter passes the gate, after making its folder. Older versions had the gate
// elsewhere: SQLite's own lock keeps them and us apart.
func (s *Store) enter(ctx context.Context) error {
	if !s.made {
		_, err := os.Lstat(s.path + ".d")
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Mkdir(s.path+".d", 0o700)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return local.Full(local.Denied(err))
		}
		s.made = true
	}
	return s.gate.Lock(ctx)
}

func (s *Store) open(ctx context.Context, create bool) error {
	found, err := s.look()
	if err != nil {
		return err
	}
	if found == nil {
		if !create {
			return fmt.Errorf("%w: no database %s", driver.ErrMissing, s.path)
		}
		if err := s.create(ctx); err != nil {
			return err
		}
		if _, err := s.look(); err != nil {
			return err
		}
	}
	if s.id, err = host.LookID(s.path); err != nil {
		return err
	}
	if s.conns, err = openConns(ctx, s.path, s.safeFS); err != nil {
		return err
	}
	return s.sameLog()
}

// look checks the store's files without opening them, and returns the
// database's info, nil if there is none.
func (s *Store) look() (fs.FileInfo, error) {
	if err := s.lookBeside(); err != nil {
		return nil, err
	}
	if _, err := local.File(s.path + "-journal"); err != nil {
		return nil, err
	}
	db, err := local.File(s.path)
	if err != nil {
		return nil, err
	}
	if db != nil {
		if err := local.SingleName(s.path, db); err != nil {
			return nil, err
		}
		if err := local.SingleMount(s.path); err != nil {
			return nil, err
		}
		if db.Size() == 0 {
			return nil, fmt.Errorf("%w: %s is empty; restore it from a backup, or remove it if it never was a store",
				driver.ErrDamaged, s.path)
		}
	}
	return s.lookAtLog(db)
}

// lookBeside checks the folder that belongs to the database. A process may be
// able to read the database and not that folder.
func (s *Store) lookBeside() error {
	if err := local.SubDir(s.path + ".d"); err != nil {
		return err
	}
	err := local.SubDir(beside(s.path, "wake"))
	for _, name := range []string{"gate", "last"} {
		if err == nil {
			_, err = local.File(beside(s.path, name))
		}
	}
	if errors.Is(err, driver.ErrDenied) {
		return nil
	}
	return err
}

// lookAtLog refuses a database whose log was taken away: without it the last
// commits are gone and held locks would look free. SQLite makes the log before
// the shared memory and removes it after, so no clean exit leaves shared memory
// without a log, or a log without a database. Nor does it leave part of a page at
// the end, which SQLite would fill up with zeros, unless a log has the rest. If
// the database was made meanwhile, lookAtLog returns it.
func (s *Store) lookAtLog(db fs.FileInfo) (fs.FileInfo, error) {
	for try := 0; ; try++ {
		shm, err := local.File(s.path + "-shm")
		if err != nil {
			return nil, err
		}
		wal, err := local.File(s.path + "-wal")
		if err != nil {
			return nil, err
		}
		journal, err := local.File(s.path + "-journal") // SQLite would play it back into a new database
		if err != nil {
			return nil, err
		}
		switch {
		case db == nil && shm == nil && wal == nil && journal == nil, db != nil && wal != nil:
			return db, nil
		case db != nil && (shm == nil || s.raise) && db.Size()%pageSize == 0:
			return db, nil
		case db != nil && shm == nil:
			return nil, fmt.Errorf("%w: %s is cut short; restore it from a backup", driver.ErrDamaged, s.path)
		case try < 5: // another process may be opening or closing it
			time.Sleep(2 * time.Millisecond)
			if made, _ := local.File(s.path); db == nil && made != nil {
				return s.look()
			}
		case db == nil:
			return nil, fmt.Errorf("%w: %s is missing but its log is there; restore both from a backup", driver.ErrDamaged, s.path)
		default:
			return nil, fmt.Errorf("%w: %s-wal is missing, and the last commits with it; restore it, or %s", driver.ErrDamaged, s.path, s.wayOut())
		}
	}
}

// create builds a new database under another name and moves it into place when
// it is complete, so that an empty file is always damage.
func (s *Store) create(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return local.Full(err)
	}
	defer s.gate.Unlock()
	if found, err := s.look(); err != nil || found != nil {
		return err // another process was faster
	}
	draft := s.path + ".new"
	for _, leftover := range []string{draft, draft + "-wal", draft + "-shm", draft + "-journal"} {
		if err := os.Remove(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	first := note{id: newID()}
	if lost := s.last.read(); lost.rev > 0 { // a former database gave out tokens: none may come twice
		first.rev = driver.Lift(lost.rev)
	}
	if err := initialise(draft, s.safeFS, first); err != nil {
		return explain(err, s.path)
	}
	for _, rest := range []string{draft + "-wal", draft + "-journal"} {
		if _, err := os.Lstat(rest); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s could not be written whole: %s is still needed", draft, filepath.Base(rest))
		}
	}
	if err := os.Rename(draft, s.path); err != nil {
		return err
	}
	s.last.write(first)
	return syncDir(filepath.Dir(s.path))
}

// same refuses to go on with a database that is no longer the one at our path:
// other processes would use another.
func (s *Store) same() error {
	now, err := host.LookID(s.path)
	switch {
	case err == nil && now.Is(s.id):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist): // an error of the disk, which may pass
		return err
	}
	return s.replaced(s.path)
}

func (s *Store) replaced(path string) error {
	return fmt.Errorf("%w: %s was removed or replaced while in use; start again", driver.ErrDamaged, path)
}

// catchUp makes known what it is in the transaction that the writer's connection has
// open. While nobody else has committed, it is what this process made it.
func (s *Store) catchUp() error {
	version, err := s.conns.writer.version()
	if err != nil || version == s.version && s.known.kinds != nil {
		return err
	}
	known, err := s.conns.writer.state(s.known)
	if err == nil {
		s.version, s.known = version, known
	}
	return err
}

// files are the log and the shared memory that a connection has open.
type files [2]host.FileID

// sameLog does for the log what same does for the database. SQLite never
// removes it while a process has it open. If someone else does, the next process
// makes another, and both would write.
func (s *Store) sameLog() error {
	if !s.safeFS {
		return nil
	}
	for i, path := range []string{s.path + "-wal", s.path + "-shm"} {
		now, err := host.LookID(path)
		known := s.log[i] != host.FileID{}
		switch {
		case err == nil && !known:
			s.log[i] = now
		case err == nil && !now.Is(s.log[i]), errors.Is(err, fs.ErrNotExist) && known:
			return s.replaced(path)
		}
	}
	return nil
}

// Close ends all waits, finishes running calls, and closes the database.
func (s *Store) Close() error {
	defer s.life.End()()
	s.gate.Close()
	s.wake.Close()
	s.last.close()
	return s.conns.close()
}
