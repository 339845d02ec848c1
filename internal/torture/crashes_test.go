//go:build linux

package torture

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

// slowSync keeps every sync of the server's log waiting, and nobody else writes the
// log meanwhile, so that others see commits long before these last.
var slowSync = []string{"commit_delay = 100000", "commit_siblings = 0", "wal_writer_delay = 10s"}

// TestCrashes: a PostgreSQL server crashes under sixteen workers again and again:
// as a whole, or because one of its processes is killed. Others have seen commits
// that the crash takes back. No acknowledged grant is lost, and no revision is
// given out twice, not even one that was only seen. TASKLOCK_CRASHES says how
// often.
func TestCrashes(t *testing.T) {
	n := 4
	if full() {
		n = long.Count(200)
	}
	if text := os.Getenv("TASKLOCK_CRASHES"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		must(t, err)
	}
	server := pgtest.Start(t, slowSync...)
	f := newFailovers(t, server, nil)
	f.url, f.keys = server.URL("postgres", "tasklock"), 12
	f.start(16)
	w := f.witness()
	for i := 0; i < n && !f.stop.Load(); i++ {
		f.grants(50)
		f.crash(i)
		f.kept()
		if i%10 == 9 {
			t.Logf("%d crashes: %d grants", i+1, len(f.tokens))
		}
	}
	f.finish()
	must(t, w.end())
	t.Logf("%d crashes under load: %d grants were acknowledged, %d calls ended unknown or unreachable and were repeated; lost %d, tokens given twice %d, holders at once %d; of %d commits seen %d were taken back",
		n, len(f.tokens), f.unknown.Load(), f.lost, f.twice, f.both, len(w.seen), w.back)
}

// crash ends the server without warning, and waits until it is back.
func (f *failovers) crash(i int) {
	if i%2 == 0 {
		must(f.t, f.primary.Restart("immediate"))
		return
	}
	const life = "SELECT id FROM tasklock.life"
	before := f.primary.SQL(f.t, life)
	pid, err := strconv.Atoi(f.primary.SQL(f.t, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"))
	must(f.t, err)
	must(f.t, syscall.Kill(pid, syscall.SIGKILL))
	pgtest.Eventually(f.t, "the server", func() bool {
		now, err := f.primary.Query("postgres", life)
		return err == nil && now != before
	})
}

// A witness looks at history all the time, and remembers what belongs to each
// revision.
type witness struct {
	seen map[int64]string // events, by revision
	back int              // revisions that were there, and then were not
	end  func() error
}

func (f *failovers) witness() *witness {
	w := &witness{seen: map[int64]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	w.end = func() error { cancel(); return <-done }
	go func() { done <- w.watch(ctx, f.url) }()
	return w
}

func (w *witness) watch(ctx context.Context, url string) error {
	s, err := pgstore.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	last := int64(0)
	for ctx.Err() == nil {
		snap, err := s.Read(ctx, driver.Query{Ranges: []driver.Range{{Prefix: "event/", Limit: -60}}})
		if err != nil {
			continue // it is away
		}
		if snap.Rev < last {
			w.back++
		}
		last = snap.Rev
		if err := w.look(snap.Records); err != nil {
			return err
		}
	}
	return nil
}

// look compares the events of each revision with those that were seen before. The
// first one may be cut off.
func (w *witness) look(records []driver.Record) error {
	now := map[int64][]string{}
	for _, r := range records {
		now[r.Rev] = append(now[r.Rev], r.Key)
	}
	if len(records) > 0 {
		delete(now, records[0].Rev)
	}
	for rev, keys := range now {
		slices.Sort(keys)
		text := strings.Join(keys, " ")
		if before, ok := w.seen[rev]; ok && before != text {
			return fmt.Errorf("revision %d was given out twice: for %s, and for %s", rev, before, text)
		}
		w.seen[rev] = text
	}
	return nil
}
