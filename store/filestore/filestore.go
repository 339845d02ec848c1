// Package filestore keeps records in plain files on a local disk: one readable
// file for each record, and a journal that makes several of them one commit.
//
// # Guarantees
//
// A commit that returned is on the disk, and every later Read in every process
// sees it. It is one append, synced, to the journal. While the disk works, the writer
// writes the record files, unsynced, under other names. After the sync it announces
// the commit in the file "state", and moves the files into place. A reader that finds
// an announced commit without all its files reads it from the journal. Before the
// journal starts over, files and folders are synced.
//
// Writers pass a guard, an flock on the journal, one after another; concurrent
// commits of one process share an append and its sync. Readers take no lock:
// they read the revision, the records, and the revision again. After three
// differences they take the guard.
//
// # Limits
//
// One machine, and a file system whose locks work: Open refuses others unless
// AllowUnsafeFS is set. Write.TTL is shown to people and not used: records stay
// until deleted. A deleted record file is an absent record: that is how a person
// frees a lock by hand. A process that is stopped (SIGSTOP) in the middle of a
// commit keeps the others from committing until it continues or dies; their
// contexts still end. A range lists a whole kind, unless it is a part of a large
// one: see index.go.
//
// # Failure
//
// A process may die at any system call: the append is complete and the commit
// happened, or it is not and nothing did. After loss of power, or when the disk
// was mounted again, the first process replays the journal, because files that
// were not synced may be empty. A record file that is empty, cut short, changed
// or foreign is driver.ErrDamaged; it never counts as absent and is never
// overwritten; [Inspect] lists such files. On a full disk, what cannot be
// appended is refused; what was appended is committed, and its files follow when
// there is room.
package filestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// Options are those of every store.
type Options = driver.OpenOptions

func init() { driver.Register(Open, Inspect, "file") }

// The names in the folder, besides "state" and, for waiters, "wake".
const (
	journalFile = "journal"
	recordsDir  = "records"
	createGate  = "gate" // only the makers of a new store pass it
	wakeDir     = "wake"
)

// A Store is an open folder. It implements driver.Store.
type Store struct {
	dir    string
	root   *os.Root
	place  handle // the same folder, for quick
	limit  int64  // of a half of the journal; less in tests
	life   string
	frozen bool // we may only read

	open    *driver.Life
	group   *driver.Group
	guard   *local.Gate // on the journal
	wake    *local.Wake
	journal *os.File
	id      fs.FileInfo // of the journal

	memory memory

	mu        sync.Mutex // protects what follows
	seen      stamp      // of the store's folder, when everything in it was as we have it open
	folders   *folders
	state     *os.File
	stateID   fs.FileInfo
	lastLine  []byte // of the state file
	lastState state
}

// Open opens the store in the folder dir.
func Open(ctx context.Context, dir string, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := local.Dir(dir, local.DirOptions{Create: o.Create, AllowUnsafeFS: o.AllowUnsafeFS}); err != nil {
		return nil, err
	}
	s, err := newStore(dir, o.Poll)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx, o.Create); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func newStore(dir string, poll time.Duration) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, local.Denied(err)
	}
	s := &Store{
		dir:   dir,
		root:  root,
		limit: softLimit,
		open:  driver.NewLife(),
		guard: local.NewGate(filepath.Join(dir, journalFile)),
		wake:  local.NewWake(filepath.Join(dir, wakeDir), poll),
	}
	s.group = driver.NewGroup(s.apply)
	if err := s.place.open(dir); err != nil {
		return nil, errors.Join(local.Denied(err), root.Close())
	}
	return s, nil
}

func (s *Store) begin(ctx context.Context, create bool) error {
	found, err := s.look()
	if err != nil {
		return err
	}
	if found == nil {
		if !create {
			return fmt.Errorf("%w: no store in %s", driver.ErrMissing, s.dir)
		}
		if err := s.create(ctx); err != nil {
			return local.Full(err)
		}
	}
	if err := s.openJournal(); err != nil {
		return err
	}
	return s.verify(ctx)
}

// look checks the folder's contents without opening them, and returns the
// journal's info, nil if there is none.
func (s *Store) look() (fs.FileInfo, error) {
	for _, dir := range []string{wakeDir, recordsDir, spareDir, indexDir} {
		if err := local.SubDir(s.path(dir)); err != nil {
			return nil, err
		}
	}
	if _, err := local.File(s.path(createGate)); err != nil {
		return nil, err
	}
	state, err := local.File(s.path(stateFile))
	if err != nil {
		return nil, err
	}
	journal, err := local.File(s.path(journalFile))
	if err != nil {
		return nil, err
	}
	if journal != nil {
		return journal, local.SingleName(s.path(journalFile), journal)
	}
	_, err = os.Lstat(s.path(recordsDir))
	if state != nil || err == nil {
		if again, err := local.File(s.path(journalFile)); err != nil || again != nil {
			return again, err // made in between
		}
		return nil, fmt.Errorf("%w: %s is missing, and the last commits with it; restore it from a backup", driver.ErrDamaged, s.path(journalFile))
	}
	return nil, nil
}

// create writes a new journal under another name and moves it into place when
// it is complete. An empty store needs nothing else.
func (s *Store) create(ctx context.Context) error {
	gate := local.NewGate(s.path(createGate))
	defer gate.Close()
	if err := gate.Lock(ctx); err != nil {
		return err
	}
	defer gate.Unlock()
	if found, err := s.look(); err != nil || found != nil {
		return err // another process was faster
	}
	const draft = journalFile + ".new"
	if err := s.root.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.explain(err, draft)
	}
	f, err := s.root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return s.explain(err, draft)
	}
	_, err = f.Write(newJournal())
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return s.explain(err, draft)
	}
	if err := s.root.Rename(draft, journalFile); err != nil {
		return s.explain(err, journalFile)
	}
	if err := syncDir(s.root); err != nil {
		return s.explain(err, "")
	}
	parent, err := os.OpenRoot(filepath.Dir(s.dir)) // has the folder's own entry
	if err != nil {
		return nil // not ours to look at
	}
	defer func() { _ = parent.Close() }()
	return s.explain(syncDir(parent), "")
}

func (s *Store) openJournal() (err error) {
	s.journal, err = s.openFor(journalFile, false)
	if errors.Is(err, fs.ErrPermission) || errors.Is(local.Denied(err), driver.ErrDenied) {
		s.frozen = true
		s.journal, err = s.openFor(journalFile, false)
	}
	if err != nil {
		return s.explain(err, journalFile)
	}
	if s.id, err = s.journal.Stat(); err != nil {
		return s.explain(err, journalFile)
	}
	boot := host.BootID()
	if boot == "" {
		boot = rand.Text() // this process
	}
	s.life = boot + "/" + mount(s.journal) + "/" + inode(s.id)
	return nil
}

// same refuses to go on with a journal that is no longer the one in our
// folder: other processes would use another. It lets go of a state file and of
// folders that are no longer there.
func (s *Store) same() error {
	folder := s.stamp()
	s.mu.Lock()
	known := folder == s.seen && folder != stamp{}
	s.mu.Unlock()
	if known {
		return nil
	}
	now, err := os.Lstat(s.path(journalFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.explain(err, journalFile)
	}
	if err != nil || !os.SameFile(now, s.id) {
		return fmt.Errorf("%w: %s was removed or replaced while in use; start again", driver.ErrDamaged, s.path(journalFile))
	}
	now, err = s.root.Lstat(stateFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.explain(err, stateFile)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != nil && (err != nil || !os.SameFile(now, s.stateID)) {
		s.closeState()
	}
	s.leaveFolders()
	s.seen = folder
	return nil
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// Close ends all waits, finishes running calls, and closes the files.
func (s *Store) Close() error {
	defer s.open.End()()
	s.guard.Close()
	s.wake.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveFolders()
	for _, f := range []*os.File{s.journal, s.state} {
		if f != nil {
			_ = f.Close() // everything that counts is synced
		}
	}
	s.place.close()
	return s.root.Close()
}
