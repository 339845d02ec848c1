package drivertest

import (
	"context"
	"sync"

	"github.com/tasklock/tasklock/store/driver"
)

// Moody is a store that fails for a while.
type Moody struct {
	driver.Store
	mu           sync.Mutex
	read, commit error
}

// Fail makes reads and commits fail from now on; nil: they succeed.
func (m *Moody) Fail(read, commit error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read, m.commit = read, commit
}

func (m *Moody) mood() (read, commit error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read, m.commit
}

func (m *Moody) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	if err, _ := m.mood(); err != nil {
		return driver.Snapshot{}, err
	}
	return m.Store.Read(ctx, q)
}

func (m *Moody) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if _, err := m.mood(); err != nil {
		return 0, err
	}
	return m.Store.Commit(ctx, b)
}
