//go:build linux

package torture

import (
	"strings"
	"sync"
	"testing"
)

// TestOldAndPools lets commands of the last version before pools take the name of a
// pool, or of a section, as a plain key, while a new one makes the first pool of the
// store, or lets several work in the section. No old command holds the name beside a
// slot, and every old command ends with exit 3 from then on.
//
// PostgreSQL is left out: the tables of that version are others, and neither version
// can use those of the other. TestOldAndNew raises the format there.
func TestOldAndPools(t *testing.T) {
	t.Parallel()
	former(t, withoutPools)
	for i, b := range []backend{sqlite, files, gitFile, etcd} {
		for n, key := range []string{"pool:tests", "section:Core"} {
			if !full() && n != i%2 { // what differs is above the driver
				continue
			}
			t.Run(b.name+"/"+key, func(t *testing.T) {
				t.Parallel() // they wait for processes
				m := newMixed(t, b, withoutPools, "")
				m.firstPool(t, key)
				t.Logf("%d old commands, %d new ones", m.did[0].Load(), m.did[1].Load())
				for _, f := range append(m.faults, m.wrong(t)...) {
					t.Error(f)
				}
			})
		}
	}
	t.Run("planted", func(t *testing.T) {
		t.Parallel()
		for _, key := range []string{"pool:tests", "section:Core"} {
			m := newMixed(t, sqlite, withoutPools, "pool_format")
			if m.firstPool(t, key); m.caught() == "" {
				t.Errorf("%s: the bug was not seen", key)
			} else {
				t.Logf("%s: caught: %s", key, m.caught())
			}
		}
	})
}

// firstPool lets old workers take the key, until a new one makes it a pool and takes it.
func (m *mixed) firstPool(t *testing.T, key string) {
	t.Helper()
	m.keys = []string{key, "left", "right"}
	held, first := 6, []string{"acquire", key, "--slots", "1", "--owner", "new", "--no-wait"}
	if section, ok := strings.CutPrefix(key, "section:"); ok {
		held, first = 11, []string{"sections", "update", section, "--workers", "2", "--owner", "new"}
		if code, out := m.call(0, 0, "sections", "add", section, "--owner", "old"); code != 0 {
			t.Fatalf("sections add: exit %d, %s", code, out)
		}
	}
	var old sync.WaitGroup
	defer old.Wait()
	progress := make(chan struct{}, 1000)
	for i := range 2 {
		old.Go(func() { m.oldWorker(i+1, progress) })
	}
	for range 2 * m.cycles {
		<-progress // also of one that has ended
	}
	m.open.Store(true)
	code, out := held, ""
	for code == held && m.caught() == "" { // while an old one holds the key
		code, out = m.do(1, 3, held, first...)
	}
	if code == 0 && held == 11 { // nobody else has it from then on
		code, out = m.do(1, 3, 0, "acquire", key, "--owner", "new", "--no-wait")
	}
	if code == 0 {
		m.enter(key, "new", out)
	}
}
