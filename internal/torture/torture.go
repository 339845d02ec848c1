//go:build linux

package torture

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// Mode says what workers use.
type Mode string

// The modes.
const (
	Library Mode = "library" // package lease, over the driver
	Binary  Mode = "binary"  // the tasklock command
)

// A Config is one run. URL, Dir and Worker are required, Binary with its mode.
type Config struct {
	URL    string // of the store; it may not exist yet
	Dir    string // an empty folder for register and histories
	Mode   Mode   // default: Library
	Worker string // a program whose main calls [Serve]
	Binary string // the tasklock command

	// Env, if set, returns further variables for the environment of the workers
	// of a slot: what makes it another machine.
	Env func(slot int) []string

	Processes int           // workers at a time; default 16
	Rounds    int           // acquire, hold, release, for each of them; default 20
	Last      time.Duration // after this time no round begins; 0: all rounds are done
	Keys      int           // that they race for; default 4
	Pool      int           // not for keys, but for slots of one pool, of this size at first; 0: for keys
	TTL       time.Duration // of every lease; default 1s
	Wait      time.Duration // how long a waiter waits at most; default 60s
	Tries     int           // of 100 rounds, those that try again and again instead of waiting
	Batches   int           // of 100 rounds, those that want several keys
	Probes    int           // of 100 rounds, those that end with things that must be refused; default 20

	KillEvery  time.Duration // SIGKILL a worker so often, half of the times one that holds; 0: never
	PauseEvery time.Duration // SIGSTOP one so often; 0: never
	Pause      time.Duration // for how long; default 2 x TTL
	Resize     time.Duration // set another size of the pool so often; 0: never
	Jitter     bool          // random pauses between the steps of every operation
	Bug        string        // planted in the workers; empty: none
	Seed       uint64

	// Disturb, if set, is a fault of the backend's own, done every DisturbEvery.
	Disturb      func() error
	DisturbEvery time.Duration
	// Outages: the server is away now and then. That it cannot be reached is an
	// answer then, of which nobody knows what it did.
	Outages bool

	Late   time.Duration // how much longer than its ttl a dead holder may be in the way; default 20s
	Limit  time.Duration // of the whole run; default 10m
	Damage func() []string
}

func (c Config) withDefaults() Config {
	c.Mode = cmp.Or(c.Mode, Library)
	c.Processes = cmp.Or(c.Processes, 16)
	c.Rounds = cmp.Or(c.Rounds, 20)
	c.Keys = cmp.Or(c.Keys, 4)
	c.TTL = cmp.Or(c.TTL, time.Second)
	c.Wait = cmp.Or(c.Wait, time.Minute)
	c.Probes = cmp.Or(c.Probes, 20)
	c.Pause = cmp.Or(c.Pause, 2*c.TTL)
	c.Late = cmp.Or(c.Late, 20*time.Second)
	c.Limit = cmp.Or(c.Limit, 10*time.Minute)
	return c
}

func (c Config) check() error {
	switch {
	case c.URL == "" || c.Dir == "" || c.Worker == "":
		return fmt.Errorf("torture: URL, Dir and Worker are required")
	case (c.Mode == Binary || c.Pool > 0) && c.Binary == "":
		return fmt.Errorf("torture: the binary's path is required")
	case c.Processes > maxSlots || c.Keys > maxKeys:
		return fmt.Errorf("torture: at most %d processes and %d keys", maxSlots, maxKeys)
	}
	return nil
}

// keyName is the name of the i-th key. indexOf is its inverse; a slot has its number.
func keyName(i int) string { return fmt.Sprintf("torture/%02d", i) }

func indexOf(key string) (i int) {
	if _, slot, ok := lease.SlotOf(key); ok {
		return slot
	}
	if _, err := fmt.Sscanf(key, "torture/%d", &i); err != nil {
		panic(err)
	}
	return i
}

// Run races, kills and pauses workers until all rounds are done, and checks
// what they saw. An error means that the run itself did not work.
func Run(c Config) (*Report, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	ctl, err := newController(c)
	if err != nil {
		return nil, err
	}
	if c.Pool > 0 {
		if err := ctl.resize(c.Pool); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	if err := ctl.run(); err != nil {
		return nil, err
	}
	took := time.Since(began)
	ops, err := readHistory(c.Dir)
	if err != nil {
		return nil, err
	}
	ck := &checker{Config: c, ops: ops, kills: ctl.kills, pauses: ctl.pauses, sizes: ctl.sizes}
	r := ck.run()
	r.Took = took
	r.Violations = append(ctl.violations, r.Violations...)
	if c.Pool > 0 {
		r.Violations = append(r.Violations, ctl.leaked()...)
	}
	if c.Damage != nil {
		for _, d := range c.Damage() {
			r.Violations = append(r.Violations, Violation{Kind: "damage", Text: d})
		}
	}
	return r, nil
}
