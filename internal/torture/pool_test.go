//go:build linux

package torture

import (
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// pooled is a run of twelve workers that want slots of one pool.
func (b backend) pooled(t *testing.T, mode Mode) Config {
	t.Helper()
	c := b.run(t, mode)
	c.Processes, c.Pool, c.Keys, c.Batches, c.Tries = 12, 4, 1, 0, 10
	if full() {
		c.long(poolTime)
	} else {
		c.Rounds = b.slotRounds(mode)
	}
	c.KillEvery, c.Resize = max(c.KillEvery, c.TTL/2), c.TTL/2
	c.PauseEvery, c.Pause = c.TTL, c.TTL*3/2
	return c
}

// slotRounds is how many rounds each worker has in the short form.
func (b backend) slotRounds(mode Mode) int {
	switch {
	case b.scheme == "git": // a commit takes long
		return 1
	case b.scheme == "etcd" || mode == Binary:
		return 2
	}
	return 4
}

// poolTime is what each of these runs gets in the long form.
const poolTime = 40 * time.Second

// TestPools: never more slots in use than the pool has, who has all of it is alone,
// tokens grow, everybody is served in turn, and nothing leaks, whatever is killed or
// stopped.
func TestPools(t *testing.T) {
	for _, b := range []backend{sqlite, files, gitFile, etcd, postgres} {
		for _, mode := range []Mode{Library, Binary} {
			if mode == Binary && b.scheme != "sqlite" && !full() {
				continue // the command has the same rules
			}
			t.Run(b.name+"/"+string(mode), func(t *testing.T) {
				kills, pauses := 0, 0
				for seed := range uint64(6) { // any will do; a short run may end before a fault
					c := b.pooled(t, mode)
					c.Seed = seed
					r := clean(t, c)
					if kills, pauses = kills+r.Kills, pauses+r.Pauses; kills > 0 && pauses > 0 {
						return
					}
				}
				t.Errorf("%d were killed and %d stopped in six runs", kills, pauses)
			})
		}
	}
}

// poolBugs are in the rules of pools.
var poolBugs = []string{"pool_size_of_caller", "pool_weight", "pool_growth", "pool_drain", "pool_jumped"}

// TestPoolsCanFail: with each of these bugs in the workers the run reports it. The size
// changes all the time, and nobody is killed.
func TestPoolsCanFail(t *testing.T) {
	for _, bug := range poolBugs {
		t.Run(bug, func(t *testing.T) {
			mustCatch(t, planted{bug, func(*Config) {}}, func() Config {
				c := sqlite.pooled(t, Library)
				c.Rounds, c.Last, c.Limit = 6, 0, time.Minute
				c.KillEvery, c.PauseEvery, c.Resize, c.Jitter = 0, 0, c.TTL/10, false
				return c
			})
		})
	}
}

// The judge sees what no planted bug leads to.
func TestPoolJudge(t *testing.T) {
	sec := func(s float64) int64 { return int64(s * 1e9) }
	grant := func(row, take int, call, end float64, token int64, slots ...string) op {
		o := op{
			Row: row, Kind: opAcquire, Owner: string(rune('a' + row)), Take: take, Keys: slotKeys(slots, take), TTL: time.Minute, Waits: true,
			Call: sec(call), Began: sec(call), Return: sec(end), Result: isOK, Tokens: map[string]int64{},
		}
		for _, k := range o.Keys {
			o.Tokens[k] = token
		}
		return o
	}
	released := func(g op, at float64) op {
		return op{Row: g.Row, Kind: opRelease, Owner: g.Owner, Keys: g.Keys, Tokens: g.Tokens, Call: sec(at), Began: sec(at), Until: sec(at), Return: sec(at + 0.5), Result: isOK}
	}
	waited := func(g op, joined float64, idle time.Duration) op {
		g.Joined, g.Began, g.Idle = sec(joined), g.Return-1, int64(idle)
		return g
	}
	refused := func(take, slots int) op {
		return op{Row: 9, Kind: opAcquire, Keys: []string{poolKey}, Take: take, Slots: slots, Call: sec(1), Began: sec(1), Return: sec(2), Result: isRefused}
	}
	lost := func(g op, at float64) op {
		return op{Row: g.Row, Kind: opRenew, Owner: g.Owner, Keys: g.Keys, Tokens: g.Tokens, Call: sec(at), Began: sec(at), Return: sec(at + 0.1), Result: isLost}
	}
	took := func(o op, key, owner string) op {
		o.Took = map[string]taken{key: {Owner: owner, Why: "expired"}}
		return o
	}
	const all = lease.TakeAll
	six, shrunk := grant(1, 1, 1, 2, 5, "6"), []sized{{6, sec(0.1), sec(0.2)}, {4, sec(2.1), sec(2.2)}}
	one, two := grant(1, 1, 1, 2, 5, "1"), grant(2, 2, 3, 4, 6, "2", "3")
	for _, c := range []struct {
		name, want string
		ops        []op
		sizes      []sized
	}{
		{"three of four", "", []op{one, two}, nil},
		{"five of four", "size", []op{one, two, grant(3, 2, 5, 6, 7, "4", "1")}, nil},
		{"one after the other", "", []op{one, two, released(one, 4.5), grant(3, 2, 5, 6, 7, "4", "1")}, nil},
		{"all while one is in", "alone", []op{one, grant(2, all, 3, 4, 6, "1", "2", "3", "4")}, nil},
		{"all when it has left", "", []op{one, released(one, 2.1), grant(2, all, 3, 4, 6, "1", "2", "3", "4")}, nil},
		{"a slot while all is held", "alone", []op{grant(2, all, 3, 4, 6, "1", "2", "3", "4"), grant(1, 1, 5, 6, 7, "5")}, []sized{{6, sec(4.1), sec(4.2)}}},
		{"all without its key", "alone", []op{grant(2, 4, 3, 4, 6, "1", "2", "3", "4"), func() op {
			o := grant(1, 4, 100, 101, 7, "1", "2", "3", "4")
			o.Take = all
			return o
		}()}, nil},
		{"a smaller token later", "order", []op{two, released(two, 4.1), grant(1, 1, 5, 6, 5, "1")}, nil},
		{"a newcomer first", "queue", []op{grant(3, 1, 2.5, 3.5, 6, "2"), waited(grant(1, 2, 1, 4, 7, "1", "3"), 2, 0)}, nil},
		{"in turn", "", []op{waited(grant(1, 2, 1, 4, 7, "1", "3"), 2, 0), grant(3, 1, 2.5, 4.5, 8, "2")}, nil},
		{"before one that stood still", "", []op{grant(3, 1, 2.5, 3.5, 6, "2"), waited(grant(1, 2, 1, 4, 7, "1", "3"), 2, time.Minute)}, nil},
		{"in the middle of a shrink", "", []op{one, two, grant(3, 1, 5, 6, 7, "4")}, []sized{{2, sec(5.5), sec(5.6)}}},
		{"after a shrink", "size", []op{one, two, grant(3, 1, 5, 6, 7, "4")}, []sized{{2, sec(4.1), sec(4.2)}}},
		{"draining", "size", []op{two, grant(3, 1, 5, 6, 7, "1")}, []sized{{2, sec(4.1), sec(4.2)}}},
		{"all ends a slot that is draining", "", []op{six, took(grant(2, all, 63, 64, 6, "1", "2", "3", "4"), slotKey(6), six.Owner), lost(six, 65)}, shrunk},
		{"a slot that nobody ended", "linear", []op{six, grant(2, all, 63, 64, 6, "1", "2", "3", "4"), lost(six, 65)}, shrunk},
		{"too much", "", []op{refused(5, 0), refused(1, 3)}, nil},
		{"not too much", "size", []op{refused(3, 4)}, nil},
	} {
		ck := &checker{Config: Config{URL: "sqlite:x", Pool: 4}.withDefaults(), ops: c.ops, sizes: append([]sized{{size: 4}}, c.sizes...)}
		if got := ck.run(); c.want == "" && len(got.Violations) > 0 || !strings.Contains(got.Kinds(), c.want) {
			t.Errorf("%s: %q, want %q\n%s", c.name, got.Kinds(), c.want, got.Failed())
		}
	}
}

// A slot that stays in use is reported, and one whose holder has ended is not.
func TestLeakIsReported(t *testing.T) {
	c := sqlite.pooled(t, Library)
	c.Late = time.Millisecond
	ctl, err := newController(c)
	must(t, err)
	defer ctl.reg.close()
	must(t, ctl.resize(c.Pool))
	_, err = ctl.tasklock("acquire", poolKey, "--owner", "leaker", "--ttl", "1h")
	must(t, err)
	if got := ctl.leaked(); len(got) != 1 || got[0].Kind != "leak" {
		t.Errorf("a slot is used, and the judge says %v", got)
	}
	_, err = ctl.tasklock("release", poolKey, "--owner", "leaker")
	must(t, err)
	if got := ctl.leaked(); len(got) > 0 {
		t.Errorf("no slot is used, and the judge says %v", got)
	}
}
