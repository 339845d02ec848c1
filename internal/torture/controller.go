//go:build linux

package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A span is a fault done to a worker: a kill is a moment, a pause lasts.
type span struct {
	row      int
	from, to int64
}

// A controller starts workers, does faults to them, and starts others in the
// place of those it killed.
type controller struct {
	Config
	reg  *register
	stop chan struct{} // closed when all rounds are done

	mu         sync.Mutex
	rand       *rand.Rand
	rows       int
	live       map[int]*exec.Cmd // by row
	busy       map[int]bool      // rows that a fault is being done to
	kills      []span
	pauses     []span
	sizes      []sized
	violations []Violation
}

func newController(c Config) (*controller, error) {
	reg, err := openRegister(filepath.Join(c.Dir, "register"))
	if err != nil {
		return nil, err
	}
	return &controller{
		Config: c, reg: reg, stop: make(chan struct{}),
		rand: rand.New(rand.NewPCG(c.Seed, 1)),
		live: map[int]*exec.Cmd{}, busy: map[int]bool{},
	}, nil
}

func (c *controller) run() error {
	defer c.reg.close()
	var faults, slots sync.WaitGroup
	faults.Go(func() { c.every(c.KillEvery, c.kill) })
	faults.Go(func() { c.every(c.PauseEvery, c.pause) })
	faults.Go(func() { c.every(c.DisturbEvery, c.disturb) })
	faults.Go(func() { c.every(c.Resize, c.anotherSize) })
	limit := time.AfterFunc(c.Limit, c.giveUp)
	defer limit.Stop()
	if c.Last > 0 {
		defer time.AfterFunc(c.Last, c.enough).Stop()
	}
	errs := make(chan error, c.Processes)
	for slot := range c.Processes {
		slots.Go(func() { errs <- c.keep(slot) })
	}
	slots.Wait()
	close(c.stop)
	faults.Wait()
	for range c.Processes {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// every does a fault now and then, on average so often.
func (c *controller) every(d time.Duration, fault func()) {
	if d == 0 {
		return
	}
	for {
		c.mu.Lock()
		pause := d/2 + time.Duration(c.rand.Int64N(int64(d)))
		c.mu.Unlock()
		select {
		case <-c.stop:
			return
		case <-time.After(pause):
			fault()
		}
	}
}

// keep runs one worker after another until the rounds of the slot are done.
func (c *controller) keep(slot int) error {
	for {
		row, cmd, said, err := c.start(slot)
		if err != nil {
			return err
		}
		err = cmd.Wait()
		c.mu.Lock()
		delete(c.live, row)
		killed := c.wasKilled(row)
		c.mu.Unlock()
		switch {
		case killed:
		case err == nil:
			return nil
		default:
			c.report("error", fmt.Sprintf("worker %d ended with %v: %s", row, err, said))
			return nil
		}
		select {
		case <-c.stop:
			return nil
		default:
		}
		if c.reg.progress(slot) >= c.Rounds {
			return nil
		}
	}
}

func (c *controller) wasKilled(row int) bool {
	for _, k := range c.kills {
		if k.row == row {
			return true
		}
	}
	return false
}

func (c *controller) start(slot int) (row int, cmd *exec.Cmd, said *bytes.Buffer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == maxRows {
		return 0, nil, nil, fmt.Errorf("torture: more than %d workers", maxRows)
	}
	row = c.rows
	c.rows++
	spec, err := json.Marshal(workerSpec{
		URL: c.URL, Dir: c.Dir, Mode: c.Mode, Binary: c.Binary, Slot: slot, Row: row, Rounds: c.Rounds, Keys: c.Keys, Pool: c.Pool,
		TTL: c.TTL, Wait: c.Wait, Tries: c.Tries, Batches: c.Batches, Probes: c.Probes, Outages: c.Outages, Seed: c.Seed + uint64(row)*7919,
	})
	if err != nil {
		return 0, nil, nil, err
	}
	cmd = exec.Command(c.Worker, "-test.run=^$")
	cmd.Env = append(cleanEnv(), workerEnv+"="+string(spec))
	if c.Env != nil {
		cmd.Env = append(cmd.Env, c.Env(slot)...)
	}
	if c.Jitter {
		cmd.Env = append(cmd.Env, "TASKLOCK_FAULT_JITTER=1")
	}
	if c.Bug != "" {
		cmd.Env = append(cmd.Env, "TASKLOCK_FAULT_BUG="+c.Bug)
	}
	said = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = time.Second // its own children may keep the pipe
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, nil, nil, err
	}
	c.live[row] = cmd
	return row, cmd, said, nil
}

// cleanEnv is our environment without anything that speaks to tasklock.
func cleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TASKLOCK_") {
			env = append(env, v)
		}
	}
	return env
}

// choose picks a worker to do a fault to.
func (c *controller) choose(holders bool) (row int, cmd *exec.Cmd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []int
	for r := range c.live {
		if !c.busy[r] && (!holders || c.reg.state(r) == holding) {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return 0, nil
	}
	row = all[c.rand.IntN(len(all))]
	c.busy[row] = true
	return row, c.live[row]
}

// chooseStopped picks a worker and stops it, every second time one that holds
// a lease: it is looked at again when it can no longer move.
func (c *controller) chooseStopped() (row int, cmd *exec.Cmd) {
	c.mu.Lock()
	holders := c.rand.IntN(2) == 0
	c.mu.Unlock()
	for range 100 {
		if row, cmd = c.choose(holders); cmd != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGSTOP)
			if !holders || c.reg.state(row) == holding {
				return row, cmd
			}
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT)
			c.free(row)
		}
		time.Sleep(time.Millisecond)
	}
	return 0, nil
}

func (c *controller) free(row int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, row)
}

func (c *controller) kill() {
	row, cmd := c.chooseStopped()
	if cmd == nil {
		return
	}
	c.mu.Lock()
	c.kills = append(c.kills, span{row: row, from: now()})
	c.mu.Unlock()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

func (c *controller) pause() {
	from := now()
	row, cmd := c.chooseStopped()
	if cmd == nil {
		return
	}
	time.Sleep(c.Pause)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pauses = append(c.pauses, span{row: row, from: from, to: now()})
	delete(c.busy, row)
}

func (c *controller) disturb() {
	if err := c.Disturb(); err != nil {
		c.report("error", "disturb: "+err.Error())
	}
}

func (c *controller) report(kind, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, Violation{Kind: kind, Text: text})
}

// enough lets every worker finish its round, and begin no other.
func (c *controller) enough() {
	for slot := range c.Processes {
		c.reg.finish(slot, c.Rounds)
	}
}

// giveUp ends a run that does not end.
func (c *controller) giveUp() {
	c.report("unserved", fmt.Sprintf("rounds not done after %v", c.Limit))
	c.enough()
	c.mu.Lock()
	defer c.mu.Unlock()
	for row, cmd := range c.live {
		c.kills = append(c.kills, span{row: row, from: now()})
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
