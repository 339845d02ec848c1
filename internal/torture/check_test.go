//go:build linux

package torture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// The planted bugs show most kinds of violations; here are those that no
// planted bug leads to.
func TestCheckerSeesWhatNoBugShows(t *testing.T) {
	const key = "torture/00"
	sec := func(s float64) int64 { return int64(s * 1e9) }
	acquire := func(row int, owner string, call, end float64, token int64) op {
		return op{
			Row: row, Kind: opAcquire, Keys: []string{key}, Owner: owner, Call: sec(call), Began: sec(call), Return: sec(end),
			Result: isOK, Tokens: map[string]int64{key: token}, TTL: time.Second, Waits: true,
		}
	}
	took := func(o op, owner, why string) op {
		o.Took = map[string]taken{key: {owner, why}}
		return o
	}
	named := func(o op) op {
		o.Process = true
		return o
	}
	untold := func(o op) op {
		o.Untold = true
		return o
	}
	held := op{Row: 2, Kind: opAcquire, Keys: []string{key}, HeldKey: key, Holder: "a", Waits: true, Call: sec(1), Began: sec(1), Return: sec(61), Result: isHeld}
	probe := op{Row: 1, Kind: opRenew, Keys: []string{key}, Owner: "w", Tokens: map[string]int64{key: 1}, Probe: true, Call: sec(5), Began: sec(5), Return: sec(6), Result: isOK}
	denied, foreign := probe, probe
	denied.Result, foreign.Result = isDenied, isLost
	lost, early := foreign, foreign
	lost.Owner, early.Call, early.Return = "a", sec(1.1), sec(1.2)
	unsure := op{Row: 1, Kind: opRelease, Keys: []string{key}, Owner: "a", Tokens: map[string]int64{key: 1}, Attached: true, Call: sec(2), Began: sec(2), Return: never, Result: isUnknown}
	away := func(row int, owner string, call float64) op {
		o := unsure
		o.Row, o.Owner, o.Call, o.Began, o.Attached, o.Unreached = row, owner, sec(call), sec(call), false, true
		return o
	}
	wanted := op{Row: 3, Kind: opAcquire, Keys: []string{key}, Call: sec(0.5), Began: sec(0.5), Return: never, Result: isUnknown, TTL: time.Second, Waits: true}
	for _, c := range []struct {
		name, want string
		kills      []span
		ops        []op
		mode       Mode
	}{
		{"served", "", nil, []op{acquire(1, "a", 0, 1, 1)}, ""},
		{"in vain", "unserved", nil, []op{acquire(1, "a", 0, 1, 1), held}, ""},
		{
			"in time", "",
			[]span{{row: 1, from: sec(2)}},
			[]op{acquire(1, "a", 0, 1, 1), took(acquire(2, "b", 1, 4, 2), "a", "expired")},
			"",
		},
		{
			"told late", "order", nil,
			[]op{acquire(1, "a", 0, 1.2, 1), acquire(2, "b", 0, 1, 2)},
			"",
		},
		{
			"read late", "", nil,
			[]op{untold(acquire(1, "a", 0, 1.2, 1)), acquire(2, "b", 0, 1, 2)},
			"",
		},
		{
			"ended without having reached the server", "", nil,
			[]op{named(acquire(1, "a", 0, 1, 1)), away(1, "a", 2), took(acquire(2, "b", 1, 4, 2), "a", "dead")},
			"",
		},
		{
			"called dead while it goes on", "early", nil,
			[]op{named(acquire(1, "a", 0, 1, 1)), away(1, "a", 2), took(acquire(2, "b", 1, 4, 2), "a", "dead"), acquire(1, "c", 5, 6, 3)},
			"",
		},
		{
			"late", "late",
			[]span{{row: 1, from: sec(2)}},
			[]op{acquire(1, "a", 0, 1, 1), took(acquire(2, "b", 1, 60, 2), "a", "expired")},
			"",
		},
		{
			"told too long that a dead one holds it", "late",
			[]span{{row: 1, from: sec(2)}},
			[]op{acquire(1, "a", 0, 1, 1), {Row: 2, Kind: opAcquire, Keys: []string{key}, HeldKey: key, Holder: "a", Call: sec(30), Began: sec(30), Return: sec(31), Result: isHeld}},
			"",
		},
		{
			"taken from the living", "early",
			nil,
			[]op{acquire(1, "a", 0, 1, 1), took(acquire(2, "b", 1, 4, 2), "a", "dead")},
			"",
		},
		{
			"released by the keeper of a killed one", "",
			[]span{{row: 1, from: sec(2)}},
			[]op{named(acquire(1, "a", 0, 1, 1)), acquire(2, "b", 1, 4, 2)},
			Binary,
		},
		{
			"released by nobody", "linear",
			[]span{{row: 1, from: sec(2)}},
			[]op{named(acquire(1, "a", 0, 1, 1)), acquire(2, "b", 1, 4, 2)},
			Library,
		},
		{
			"released by the keeper of one who lives", "linear",
			[]span{{row: 1, from: sec(5)}},
			[]op{named(acquire(1, "a", 0, 1, 1)), acquire(2, "b", 1, 4, 2)},
			Binary,
		},
		{
			"in force after its holder gave up by its own clock", "",
			nil,
			[]op{acquire(1, "a", 0, 1, 1), probe},
			Binary,
		},
		{
			"another's, after a release that nobody saw the end of", "",
			nil,
			[]op{acquire(1, "a", 0, 1, 1), unsure, denied},
			Library,
		},
		{
			"another's, after a release that was not carried out", "",
			nil,
			[]op{acquire(1, "a", 0, 1, 1), unsure, denied, took(acquire(2, "b", 7, 8, 2), "a", "expired")},
			Library,
		},
		{
			"lost, though nobody ended it", "linear",
			nil,
			[]op{acquire(1, "a", 0, 1, 1), lost, took(acquire(2, "b", 7, 8, 2), "a", "expired")},
			Library,
		},
		{
			"lost to another name, after its ttl", "",
			nil,
			[]op{acquire(1, "a", 0, 1, 1), foreign, took(acquire(2, "b", 7, 8, 2), "a", "expired")},
			Library,
		},
		{
			"lost to another name, before its ttl", "linear",
			nil,
			[]op{acquire(1, "a", 0.5, 1, 1), early, took(acquire(2, "b", 7, 8, 2), "a", "expired")},
			Library,
		},
		{
			"told when its ttl was over, and a killed worker had taken it", "",
			[]span{{row: 3, from: sec(2)}},
			[]op{acquire(1, "a", 0, 5, 1), wanted, untold(acquire(2, "b", 1, 2.5, 3))},
			Binary,
		},
		{
			"in force after a later grant", "stale",
			[]span{{row: 1, from: sec(2)}},
			[]op{acquire(1, "a", 0, 1, 1), took(acquire(2, "b", 1, 4, 2), "a", "expired"), probe},
			Binary,
		},
	} {
		ck := &checker{Config: Config{Mode: c.mode}.withDefaults(), ops: c.ops, kills: c.kills}
		r := ck.run()
		if c.want == "" && len(r.Violations) > 0 || c.want != "" && !strings.Contains(r.Kinds(), c.want) {
			t.Errorf("%s: %q, want %q\n%s", c.name, r.Kinds(), c.want, r.Failed())
		}
	}
}

// A probe that is refused is as it should be, by whatever words. A holder who is
// refused like that is not.
func TestRefusedProbe(t *testing.T) {
	probe, own := op{Kind: opRenew, Probe: true}, op{Kind: opRenew}
	err := fmt.Errorf("renew: %w", &lease.OwnerError{Key: keyName(0), Owner: "other"})
	if new(worker).answer(&probe, err); probe.Result != isDenied || probe.Err != "" {
		t.Errorf("%+v", probe)
	}
	if new(worker).answer(&own, err); own.Result != isError {
		t.Errorf("%+v", own)
	}
	fast, stopped := op{Kind: opRenew, Call: now()}, op{Kind: opRenew, Call: now() - int64(time.Minute)}
	if new(worker).answer(&fast, store.ErrUnreachable); fast.Result != isError {
		t.Errorf("a server that is there and was not reached: %+v", fast)
	}
	if new(worker).answer(&stopped, store.ErrUnreachable); !stopped.Unreached {
		t.Errorf("a worker that was stopped in the middle of its call: %+v", stopped)
	}
}

// A damaged store is reported whatever the workers saw.
func TestDamageIsReported(t *testing.T) {
	c := sqlite.run(t, Library)
	c.Processes, c.Rounds, c.KillEvery, c.PauseEvery = 2, 2, 0, 0
	c.Damage = func() []string { return []string{"page 3 is never used"} }
	if r := mustRun(t, c); r.Kinds() != "damage 1" {
		t.Fatalf("%q", r.Kinds())
	}
}
