//go:build linux

package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// TestOldAndNew lets commands of the version before format 2 and of this one work
// in one store. While the old ones work the new ones look, or are refused; then the
// store is upgraded under all of them. No key has two holders, tokens grow, no task
// whose add was acknowledged is lost, and every old command ends with exit 3 from
// then on.
func TestOldAndNew(t *testing.T) {
	t.Parallel()
	former(t, formatOne)
	for _, b := range []backend{sqlite, files, gitFile, etcd, postgres} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel() // they wait for processes
			m := newMixed(t, b, formatOne, "")
			m.run()
			t.Logf("%d old commands, %d new ones, %d tasks, held by old ones in the end: %v", m.did[0].Load(), m.did[1].Load(), len(m.tasks), m.holder)
			defer func() { // also if the judge cannot open the store
				for _, f := range m.faults {
					t.Error(f)
				}
			}()
			m.judge(t)
		})
	}
	t.Run("planted", func(t *testing.T) {
		t.Parallel()
		for _, b := range []backend{sqlite, etcd} {
			if m := newMixed(t, b, formatOne, "older_is_current"); m.run().caught() == "" {
				t.Errorf("%s: the bug was not seen", b.name)
			} else {
				t.Logf("%s: caught: %s", b.name, m.caught())
			}
		}
	})
}

// mixed is one store with workers of both versions.
type mixed struct {
	place
	command [2]string // the former one, this one
	keys    []string
	shared  bool
	env     []string
	cycles  int           // that workers of each version make, at least
	pace    time.Duration // how long each part takes, at least

	open, upgraded atomic.Bool // the upgrade may begin; it is complete
	did            [2]atomic.Int64

	mu     sync.Mutex
	holder map[string]string // by key, who believes to hold it
	token  map[string]int64  // by key, the highest
	tasks  []string          // whose add was acknowledged
	faults []string
}

// newMixed makes a store with the command of an old commit.
func newMixed(t *testing.T, b backend, commit, bug string) *mixed {
	t.Helper()
	m := &mixed{
		place: b.place(t), command: [2]string{former(t, commit), command(t)}, keys: []string{"left", "right", "middle"}, cycles: 6,
		shared: !slices.Contains([]string{"sqlite", "file"}, b.scheme), env: []string{"TASKLOCK_FAULT_BUG=" + bug},
		holder: map[string]string{}, token: map[string]int64{},
	}
	if bug != "" {
		m.cycles = 3
	} else if full() {
		m.pace = long.Time(15 * time.Second)
	}
	if code, out := m.call(0, 0, "init"); code != 0 {
		t.Fatalf("init: exit %d, %s", code, out)
	}
	if code, out := m.call(0, 0, "tasks", "add", "first"); code != 0 { // writes its format
		t.Fatalf("add: exit %d, %s", code, out)
	}
	m.tasks = []string{"first"}
	return m
}

// call runs a command of one version on one machine.
func (m *mixed) call(version, machine int, args ...string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.command[version], append([]string{"--store", m.url, "--json"}, args...)...)
	cmd.Env = append(m.place.env(machine), m.env...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		return -1, err.Error()
	}
	m.did[version].Add(1)
	return cmd.ProcessState.ExitCode(), string(out)
}

func (m *mixed) fault(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

func (m *mixed) caught() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.faults) == 0 {
		return ""
	}
	return m.faults[0]
}

// run lets all of them work, and returns when all have ended.
func (m *mixed) run() *mixed {
	var old, looks, young sync.WaitGroup
	progress := make(chan struct{}, 1000)
	for i := range 2 {
		old.Go(func() { m.oldWorker(i+1, progress) })
		looks.Go(func() { m.look(i + 3) })
	}
	began := time.Now()
	for range 2 * m.cycles {
		<-progress // also of one that has ended
	}
	time.Sleep(time.Until(began.Add(m.pace)))
	m.open.Store(true)
	looks.Wait()
	if m.shared {
		m.upgrade()
	}
	for i := range 2 {
		young.Go(func() { m.newWorker(i + 3) })
	}
	young.Wait()
	old.Wait()
	return m
}

// oldWorker works until it is refused, or something is wrong.
func (m *mixed) oldWorker(n int, progress chan<- struct{}) {
	defer func() {
		for range 2 * m.cycles {
			progress <- struct{}{}
		}
	}()
	for i := 0; m.caught() == ""; i++ {
		upgraded := m.upgraded.Load()
		if !m.cycle(0, n, fmt.Sprintf("old %d-%d", n, i), m.keys[(i+n)%len(m.keys)]) {
			return
		}
		if upgraded {
			m.fault("old worker %d works on after the upgrade", n)
			return
		}
		select {
		case progress <- struct{}{}:
		default:
		}
	}
}

func (m *mixed) newWorker(n int) {
	began := time.Now()
	for i := 0; i < m.cycles || time.Since(began) < m.pace; i++ {
		if !m.cycle(1, n, fmt.Sprintf("new %d-%d", n, i), m.keys[(i+n)%len(m.keys)]) {
			m.fault("new worker %d is refused after the upgrade", n)
			return
		}
	}
}

// look is a new one before the upgrade: on this machine it may look and changes
// nothing, a shared store it may not use at all.
func (m *mixed) look(n int) {
	for !m.open.Load() {
		for _, args := range [][]string{{"list"}, {"check", "left"}, {"acquire", "left", "--dry-run", "--no-wait", "--owner", "looks"}} {
			code, out := m.call(1, n, args...)
			if m.shared != (code == 3) || code != 0 && code != 1 && code != 3 && code != 6 {
				m.fault("before the upgrade, %v: exit %d, %s", args, code, out)
				return
			}
		}
	}
}

// upgrade is what an administrator does.
func (m *mixed) upgrade() {
	code, out := m.call(1, 0, "init", "--upgrade")
	if code == 6 { // somebody holds a lock, and is named
		m.mu.Lock()
		named := strings.Contains(out, "is held by old-")
		m.mu.Unlock()
		if !named {
			m.fault("init --upgrade names no holder: %s", out)
		}
		code, out = m.call(1, 0, "init", "--upgrade", "--force")
	}
	if code != 0 {
		m.fault("init --upgrade: exit %d, %s", code, out)
	}
	m.upgraded.Store(true)
}

// cycle takes a key, adds a task, gives the key back. It reports false when the
// store has a newer format than the command knows.
func (m *mixed) cycle(version, n int, title, key string) bool {
	owner := fmt.Sprintf("%s-%d", []string{"old", "new"}[version], n)
	code, out := m.do(version, n, 6, "acquire", key, "--owner", owner, "--no-wait", "--ttl", "1h")
	if code == 3 {
		return false
	}
	if code == 0 {
		m.enter(key, owner, out)
	}
	added, _ := m.do(version, n, 0, "tasks", "add", title, "--owner", owner)
	if added == 0 {
		m.mu.Lock()
		m.tasks = append(m.tasks, title)
		m.mu.Unlock()
	}
	if code != 0 || added == 3 { // without a release it is still held
		return added != 3
	}
	m.mu.Lock()
	delete(m.holder, key)
	m.mu.Unlock()
	if code, _ = m.do(version, n, 0, "release", key, "--owner", owner); code == 3 {
		m.mu.Lock()
		m.holder[key] = owner
		m.mu.Unlock()
	}
	return code != 3
}

// do runs a command that answers 0, or as it may, or 3 when that is right.
func (m *mixed) do(version, n, may int, args ...string) (int, string) {
	open := m.open.Load()
	code, out := m.call(version, n, args...)
	switch {
	case code == 0:
		if version == 1 {
			m.upgraded.Store(true)
		}
	case code == may:
	case code == 3 && version == 0 && (open || m.open.Load()) && strings.Contains(out, "NEWER_FORMAT"):
	default:
		m.fault("%s %v: exit %d, %s", m.command[version], args, code, out)
	}
	return code, out
}

// enter notes a grant.
func (m *mixed) enter(key, owner, out string) {
	var r struct{ Data struct{ Token int64 } }
	err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &r)
	m.mu.Lock()
	other, taken := m.holder[key]
	last := m.token[key]
	m.holder[key], m.token[key] = owner, max(last, r.Data.Token)
	m.mu.Unlock()
	switch {
	case err != nil:
		m.fault("%v: %s", err, out)
	case taken:
		m.fault("%s was granted to %s while %s holds it", key, owner, other)
	case r.Data.Token <= last:
		m.fault("%s: token %d after %d", key, r.Data.Token, last)
	}
}

// judge looks at the store when all is over.
func (m *mixed) judge(t *testing.T) {
	t.Helper()
	for _, w := range m.wrong(t) {
		m.fault("%s", w)
	}
	for _, key := range m.keys {
		code, out := m.call(1, 0, "check", key)
		if owner := m.holder[key]; owner == "" && code != 1 || owner != "" && (code != 0 || !strings.Contains(out, owner)) {
			m.fault("%s should be held by %q: exit %d, %s", key, owner, code, out)
		}
		if m.holder[key] != "" {
			if code, out := m.call(1, 0, "break", key, "--owner", "admin", "--reason", "upgrade"); code != 0 {
				m.fault("break %s: exit %d, %s", key, code, out)
			}
			delete(m.holder, key)
		}
		if code, out := m.do(1, 0, 0, "acquire", key, "--owner", "last", "--no-wait"); code == 0 {
			m.enter(key, "last", out)
		}
	}
	d, err := m.backend.open(t.Context(), m.url)
	must(t, err)
	defer func() { _ = d.Close() }()
	snap, err := d.Read(t.Context(), driver.Query{Ranges: []driver.Range{{}}})
	must(t, err)
	m.indexed(t, snap.Records)
	found := map[string]bool{}
	for _, r := range snap.Records {
		if driver.Kind(r.Key) != "task/" {
			continue
		}
		var v struct{ Title string }
		must(t, json.Unmarshal(r.Value, &v))
		found[v.Title] = true
	}
	for _, title := range m.tasks {
		if !found[title] {
			m.fault("task %q was acknowledged and is lost", title)
		}
	}
}

// indexed requires that a conversion would find nothing to do: every name is in
// the index, those too that were added by old ones while the store was converted.
func (m *mixed) indexed(t *testing.T, records []driver.Record) {
	t.Helper()
	writes, err := task.IndexNames(records)
	must(t, err)
	have := map[string]string{}
	for _, r := range records {
		have[r.Key] = string(r.Value)
	}
	for _, w := range writes {
		if have[w.Key] != string(w.Value) {
			m.fault("%s is %q and should be %q", w.Key, have[w.Key], w.Value)
		}
	}
}
