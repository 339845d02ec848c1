//go:build linux

package torture

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/etcdtest"
	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/internal/proxy"
	"github.com/tasklock/tasklock/store/etcdstore"
)

// etcd runs on one member that all tests share, each under a prefix of its own.
var etcd = backend{
	name: "etcd", scheme: "etcd",
	open:   open,
	create: func(t testing.TB, _ string) string { return newPlace(t, sharedEtcd(t)) },
	damage: problems,
	race:   raceEtcd,
	ttl:    3 * time.Second,
	bugs:   []planted{{"mod_revision_token", func(c *Config) { c.KillEvery, c.PauseEvery, c.Rounds = 0, 0, 15 }}},
	brief:  brief{modes: []Mode{Library}, bugs: []string{"mod_revision_token"}},
}

// raceEtcd: etcd counts leases in whole seconds, and takes its time to end them.
func raceEtcd(c *Config) {
	c.TTL, c.Late = 3*time.Second, 20*time.Second
	c.PauseEvery, c.Pause = time.Second, 6*time.Second
	c.Rounds = 8
	if full() {
		pause, every := c.Pause, c.PauseEvery
		c.long(contentionTime)
		c.Pause, c.PauseEvery = pause, 3*every
	}
}

// newPlace is a store with a prefix that nobody has used.
func newPlace(t testing.TB, c *etcdtest.Cluster) string {
	t.Helper()
	return made(t, c.URL(newPrefix()))
}

func newPrefix() string { return "t-" + strings.ToLower(rand.Text()[:12]) }

// made makes a store. For etcd, tasklock becomes its sibling, which must be there.
func made(t testing.TB, url string) string {
	t.Helper()
	build(t, "tasklock-plus", "build", "../../cmd/tasklock-plus")
	st, err := etcdstore.Open(t.Context(), url, &etcdstore.Options{Create: true})
	if err == nil {
		err = st.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return url
}

var shared struct {
	sync.Once
	cluster *etcdtest.Cluster
	err     error
}

// sharedEtcd starts the member that ends with this process.
func sharedEtcd(t testing.TB) *etcdtest.Cluster {
	t.Helper()
	command(t) // makes the folder that is removed in the end
	shared.Do(func() {
		var dir string
		if dir, shared.err = os.MkdirTemp(built.dir, "etcd-"); shared.err == nil {
			shared.cluster, shared.err = etcdtest.New(dir, 1, "--unsafe-no-fsync")
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// TestFailOver: the leader is killed and started again, and members stand still
// for a while, under sixteen workers who are killed and stopped themselves. One
// winner, tokens grow, every waiter is served.
func TestFailOver(t *testing.T) {
	for _, mode := range etcd.modes() {
		t.Run(string(mode), func(t *testing.T) {
			c := etcdtest.Start(t, 3, "--unsafe-no-fsync")
			b := etcd
			b.create = func(t testing.TB, _ string) string { return newPlace(t, c) }
			failOvers(t, c, b, mode)
		})
	}
}

func failOvers(t *testing.T, c *etcdtest.Cluster, b backend, mode Mode) {
	b.race = func(cfg *Config) { cfg.withOutages(4) }
	cfg := b.run(t, mode)
	cfg.Seed = 11
	faults, last := 0, time.Now()
	cfg.Disturb, cfg.DisturbEvery = func() error {
		// Every new leader gives all leases their whole time again: with one every
		// few seconds, that of a dead holder would never end.
		rest := 3 * time.Second
		if faults%2 == 0 {
			rest = cfg.TTL + 6*time.Second
		}
		if faults > 0 && time.Since(last) < rest {
			return nil
		}
		faults++
		defer func() { last = time.Now() }()
		return failOver(c, faults%2 == 0)
	}, 200*time.Millisecond // the first before a short run is over
	clean(t, cfg)
	if faults == 0 {
		t.Error("no member failed: the run has shown nothing")
	}
	t.Logf("%d times a leader was killed or a member stood still", faults)
}

// TestGuardedFailOver is the same on a cluster with passwords, for a user who may
// do nothing but use the prefix, with tokens that run out all the time.
func TestGuardedFailOver(t *testing.T) {
	if !full() {
		t.Skip("package etcdstore has the short form; set TASKLOCK_TORTURE=1")
	}
	for _, mode := range etcd.modes() {
		t.Run(string(mode), func(t *testing.T) {
			c := etcdtest.Start(t, 3, "--unsafe-no-fsync", "--auth-token-ttl", "5", "--bcrypt-cost", "4") // each command logs in
			prefix := newPrefix()
			must(t, c.Guard(prefix))
			b := etcd
			b.create = func(t testing.TB, _ string) string {
				return made(t, c.URLAs(etcdtest.User, etcdtest.Password, prefix))
			}
			failOvers(t, c, b, mode)
		})
	}
}

// failOver does without the leader for a while: it is killed, or stands still.
func failOver(c *etcdtest.Cluster, pause bool) error {
	leader, err := c.Leader()
	if err != nil {
		return err
	}
	if !pause {
		c.Kill(leader)
		time.Sleep(2 * time.Second)
		return c.Run(leader)
	}
	if err := c.Pause(leader); err != nil {
		return err
	}
	time.Sleep(4 * time.Second)
	return c.Resume(leader)
}

// TestCutOff: a holder that no longer reaches the server, and is not told so,
// ends its command before the server gives the lock away.
func TestCutOff(t *testing.T) {
	t.Parallel() // it mostly sleeps
	t.Run("etcd", func(t *testing.T) { cutOff(t, etcd, sharedEtcd(t).Members[0].Addr) })
	t.Run("postgres", func(t *testing.T) { cutOff(t, postgres, pgtest.Shared(t).Addr()) })
}

func cutOff(t *testing.T, b backend, addr string) {
	t.Parallel()
	p, err := proxy.New(addr)
	must(t, err)
	t.Cleanup(p.Close)
	next := newField(t, b, 6*time.Second)
	old := *next
	old.url = strings.Replace(next.url, addr, p.Addr(), 1)

	holder, err := old.start(0, 1, time.Minute, true, "")
	must(t, err)
	defer holder.end()
	if err := within(time.Minute, holder.in); err != nil {
		t.Fatalf("the command does not start: %v: %s", err, &holder.said)
	}
	cut := time.Now()
	p.BlackHole(proxy.Both)
	after, err := next.start(0, 2, time.Second, false, "")
	must(t, err)
	defer after.end()
	if err := within(3*time.Minute, after.in); err != nil {
		t.Fatalf("nobody can take over: %v: %s", err, &after.said)
	}
	if runs(holder.child) {
		t.Error("the lease was given away while the command works")
	}
	if waited := time.Since(cut); waited < next.ttl/2 {
		t.Errorf("given away after %v, before the ttl was over", waited)
	}
	if err := within(2*time.Minute, holder.done); err != nil || holder.wrapper.ProcessState.ExitCode() != 7 {
		t.Errorf("the holder does not end with 7: %v: %s", err, &holder.said)
	}
	if holder.spoke("pushed") {
		t.Errorf("the old command worked on: %v", holder.lines)
	}
}

// TestRestored: an operator puts the cluster back to a snapshot while workers are
// at work. A lock from before stays, with its token; the holder of a later one
// learns that it is lost, and no token comes twice.
func TestRestored(t *testing.T) {
	if !full() {
		t.Skip("builds etcd's own tool; set TASKLOCK_TORTURE=1")
	}
	c := etcdtest.Start(t, 1, "--unsafe-no-fsync")
	b := etcd
	b.create = func(t testing.TB, _ string) string { return newPlace(t, c) }
	f := newField(t, b, 6*time.Second)
	token := func(key string) (n int64) {
		t.Helper()
		code, out := f.tasklock("acquire", key, "--owner", "a", "--no-wait")
		var r struct{ Data struct{ Token int64 } }
		if must(t, json.Unmarshal([]byte(out), &r)); code != 0 {
			t.Fatal(out)
		}
		return r.Data.Token
	}
	exits := func(want int, args ...string) {
		t.Helper()
		if code, out := f.tasklock(args...); code != want {
			t.Errorf("%v: exit %d instead of %d: %s", args, code, want, out)
		}
	}
	for i := range 30 { // a younger store cannot be told from its backup
		token(fmt.Sprint("early-", i))
	}
	kept := token("kept")
	file := filepath.Join(tempDir(t), "snapshot")
	must(t, c.Snapshot(file))
	highest := max(token("late"), token("later"))
	worker, err := f.start(0, 1, time.Minute, false, "")
	must(t, err)
	defer worker.end()
	if err := within(30*time.Second, worker.in); err != nil {
		t.Fatalf("the command does not start: %v: %s", err, &worker.said)
	}
	highest = max(highest, worker.token)

	must(t, c.Restore(file))
	if err := within(time.Minute, worker.done); err != nil || worker.wrapper.ProcessState.ExitCode() != 7 {
		t.Errorf("a command under a lock that is gone does not end with 7: %v: %s", err, &worker.said)
	}
	exits(7, "check", "kept", "--token", fmt.Sprint(kept)) // the token of another life of the store
	exits(0, "heartbeat", "kept", "--owner", "a")
	exits(7, "heartbeat", "late", "--owner", "a", "--token", fmt.Sprint(highest))
	exits(0, "doctor")
	for _, key := range []string{"late", "other"} {
		if n := token(key); n <= highest {
			t.Errorf("%s has token %d after %d", key, n, highest)
		}
	}
	exits(0, "init", "--raise")
	if n := token("raised"); n < 2<<32 {
		t.Errorf("token %d after init --raise", n)
	}
	exits(0, "check", "kept", "--owner", "a", "--mine")
}
