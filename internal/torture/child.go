//go:build linux

package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const childEnv = "TORTURE_CHILD"

// childSpec is what the command under "tasklock run" is to do. It does not
// know when its lease ends: it relies on being ended first.
type childSpec struct {
	Dir  string
	Keys []string
	Take int // slots of the pool
	Row  int
	Hold time.Duration
	Deaf bool // does not end when it is asked to
}

// childMain enters the register with the token from its environment, writes
// for a while, and leaves. It says so in lines: in, pushed, out.
func childMain() error {
	var s childSpec
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &s); err != nil {
		return err
	}
	token, err := strconv.ParseInt(os.Getenv("TASKLOCK_TOKEN"), 10, 64)
	if err != nil {
		return err
	}
	o := op{Keys: s.Keys, Take: s.Take}
	var slots []string // in the pool
	if s.Take != 0 {
		slots = strings.Fields(os.Getenv("TASKLOCK_SLOT"))
		o.Keys = slotKeys(slots, s.Take)
	}
	if s.Deaf {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	reg, err := openRegister(filepath.Join(s.Dir, "register"))
	if err != nil {
		return err
	}
	fmt.Println("in", token, os.Getenv("TASKLOCK_LEASE"), os.Getpid(), os.Getppid(), strings.Join(slots, " "))
	ok := true
	all := func(do func(key int, token int64, row int) (entry, bool)) {
		for _, key := range o.protects() {
			found, fits := do(indexOf(key), token, s.Row)
			if !fits && ok {
				fmt.Printf("pushed %s %v\n", key, found)
			}
			ok = ok && fits
		}
	}
	all(reg.enter)
	for end := time.Now().Add(s.Hold); time.Now().Before(end); {
		time.Sleep(min(time.Until(end), time.Millisecond))
		all(reg.write) // even after a refusal: it is not its business to end itself
	}
	all(reg.leave)
	fmt.Println("out")
	return nil
}

// run takes the keys with "tasklock run", and returns when its command works.
func (b *binary) run(o *op, wait time.Duration) grant {
	hold := time.Duration(rand.IntN(2000)) * time.Microsecond
	if b.Pool > 0 {
		hold = b.slotTime()
	}
	if b.chance(4) {
		hold = b.TTL * 3 / 2
	}
	g := &runGrant{binary: b, o: o, said: &bytes.Buffer{}}
	cmd, out, err := runCommand(b.workerSpec, *o, hold, wait, g.said)
	if err != nil {
		o.Result, o.Err = isError, err.Error()
		return nil
	}
	g.cmd, g.lines = cmd, bufio.NewScanner(out)
	if g.lines.Scan() {
		var token int64
		var lease string
		if n, _ := fmt.Sscanf(g.lines.Text(), "in %d %s", &token, &lease); n == 2 {
			o.Result, o.Untold, o.Process, o.Tokens = isOK, true, true, map[string]int64{}
			o.Owner = lease[:strings.LastIndexByte(lease, '/')]
			if o.Take != 0 {
				o.Keys = slotKeys(strings.Fields(g.lines.Text())[5:], o.Take)
			}
			for _, k := range o.Keys {
				o.Tokens[k] = token
			}
			return g
		}
	}
	g.result(o, g.finish(), g.said.String())
	switch o.Result {
	case isLost: // stopped until the command could no longer begin: what was granted is unknown
		o.Result = isUnknown
	case isOK:
		o.Result, o.Err = isError, "run ended without having run: "+g.lines.Text()
	}
	return nil
}

// runCommand starts "tasklock run" with a command that works on the keys.
func runCommand(w workerSpec, o op, hold, wait time.Duration, stderr io.Writer) (*exec.Cmd, io.Reader, error) {
	spec, err := json.Marshal(childSpec{Dir: w.Dir, Keys: o.Keys, Take: o.Take, Row: w.Row, Hold: hold})
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	args := append([]string{"--store", w.URL, "run", "--owner", rootOwner, "--ttl", w.TTL.String()}, waitFlag(wait)...)
	args = append(append(append(args, o.poolFlags()...), o.Keys...), "--", self, "-test.run=^$")
	cmd := exec.Command(w.Binary, args...)
	cmd.Env = append(commandEnv(), childEnv+"="+string(spec))
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return cmd, out, cmd.Start()
}

// runGrant is a lease under which another process works.
type runGrant struct {
	*binary
	o     *op
	cmd   *exec.Cmd
	lines *bufio.Scanner
	said  *bytes.Buffer
}

func (g *runGrant) trusted() bool  { return true } // to the child, as long as it lives
func (g *runGrant) renew(*journal) {}

// work waits for the child to finish its own.
func (g *runGrant) work(w *worker, o op) {
	for g.lines.Scan() {
		word, rest, _ := strings.Cut(g.lines.Text(), " ")
		switch word {
		case "out":
			return
		case "pushed":
			key, found, _ := strings.Cut(rest, " ")
			p := w.log.call(op{Kind: opPushed, Keys: []string{key}, Owner: o.Owner, Tokens: o.Tokens})
			p.Trusted, p.Found, p.Result = true, found, isOK
			w.log.done(p)
		}
	}
}

func (g *runGrant) release(o *op) {
	o.Attached = true
	g.result(o, g.finish(), g.said.String())
	untold := o.Result == isOK && strings.Contains(g.said.String(), "release: ") // its command ended well, and the store did not answer then
	if untold || strings.Contains(o.Err, context.DeadlineExceeded.Error()) {
		o.Result, o.Err = isUnknown, "" // as in attachedGrant
	}
}

// finish reads what is left and waits for the end.
func (g *runGrant) finish() error {
	for g.lines.Scan() {
	}
	return g.cmd.Wait()
}
