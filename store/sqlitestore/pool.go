package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/tasklock/tasklock/store/driver"
)

const maxReaders = 4

// conns are the connections of a store: one writer, and readers. A process that
// does one thing at a time needs only the writer, so a short command pays for no
// second connection; readers are opened once two calls meet.
type conns struct {
	path   string
	safeFS bool
	frozen bool // we may write nothing here: every read opens its own

	main    sync.Mutex
	writer  conn
	crowded atomic.Bool

	slots chan struct{} // one for each reader that may be in use
	idle  chan conn
}

func openConns(ctx context.Context, path string, safeFS bool) (*conns, error) {
	p := &conns{
		path: path, safeFS: safeFS,
		slots: make(chan struct{}, maxReaders),
		idle:  make(chan conn, maxReaders),
	}
	err := retry(ctx, func() (err error) {
		p.writer, err = p.open(true)
		return err
	})
	if frozen(err) && !writable(filepath.Dir(path)) {
		p.frozen = true
		err = p.readFrozen(func(conn) error { return nil })
	}
	if err != nil {
		return nil, explainRead(err, path)
	}
	return p, nil
}

// open opens and verifies a connection.
func (p *conns) open(writer bool) (c conn, err error) {
	c, err = connect(p.path)
	if err != nil {
		return c, err
	}
	defer func() {
		if err != nil {
			_ = c.Close()
			c = conn{}
		}
	}()
	if err := c.settings(writer); err != nil {
		return c, err
	}
	if writer && !p.safeFS {
		if err := c.journal(false); err != nil {
			return c, err
		}
	}
	if err := c.verify(p.path); err != nil {
		return c, err
	}
	if writer && p.safeFS {
		if err := c.journal(true); err != nil && !denies(err) {
			return c, err
		}
	}
	return c, nil
}

// read runs fn on a free connection, and repeats it while SQLite is busy.
func (p *conns) read(ctx context.Context, fn func(conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.frozen {
		return explainRead(p.readFrozen(fn), p.path)
	}
	if !p.crowded.Load() {
		if p.main.TryLock() {
			defer p.main.Unlock()
			return explainRead(retry(ctx, func() error { return fn(p.writer) }), p.path)
		}
		p.crowded.Store(true)
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c, err := p.reader(ctx)
	if err != nil {
		return explainRead(err, p.path)
	}
	defer func() { p.idle <- c }()
	return explainRead(retry(ctx, func() error { return fn(c) }), p.path)
}

func (p *conns) reader(ctx context.Context) (c conn, err error) {
	select {
	case c = <-p.idle:
		return c, nil
	default:
	}
	err = retry(ctx, func() error {
		c, err = p.open(false)
		return err
	})
	return c, err
}

// readFrozen reads a database in a folder where we may write nothing. SQLite
// then reads the file without locks, so the result counts only if nobody had it
// open for writing before or after and nobody changed it.
func (p *conns) readFrozen(fn func(conn) error) error {
	for range 10 {
		before, err := p.quiet()
		if err != nil {
			return err
		}
		if err := p.onceFrozen(fn); err != nil {
			return err
		}
		after, err := p.quiet()
		if err != nil {
			return err
		}
		if os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime()) {
			return nil
		}
	}
	return fmt.Errorf("%s changes while it is read, and its folder cannot be written; try again", p.path)
}

func (p *conns) onceFrozen(fn func(conn) error) error {
	c, err := connectFrozen(p.path)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.verify(p.path); err != nil {
		return err
	}
	return fn(c)
}

// quiet returns the info of the database while it has no log and no rollback
// journal: with one, the file may be half of a transaction.
func (p *conns) quiet() (fs.FileInfo, error) {
	for _, log := range []string{"-wal", "-journal"} {
		if _, err := os.Lstat(p.path + log); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s has a log (%s) and its folder cannot be written", driver.ErrDenied, p.path, log)
		}
	}
	return os.Lstat(p.path)
}

func (p *conns) close() error {
	if p.frozen || p.writer.Conn == nil {
		return nil
	}
	close(p.idle)
	var errs []error
	for c := range p.idle {
		errs = append(errs, c.Close())
	}
	errs = append(errs, p.writer.Close())
	p.writer, p.idle = conn{}, nil
	return errors.Join(errs...)
}
