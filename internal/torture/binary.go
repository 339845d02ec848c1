//go:build linux

package torture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// binary is the client that drives the tasklock command. Of three leases one
// is held by "tasklock run", whose command does the work; the others are taken
// and released by commands of their own, every second of them bound to the
// life of this process.
type binary struct {
	*worker
	n int
}

func (b *binary) acquire(o *op, wait time.Duration) grant {
	if b.chance(33) {
		return b.run(o, wait)
	}
	b.n++
	o.Owner = fmt.Sprintf("%s/w%d-%d", rootOwner, b.Row, b.n)
	args := append([]string{"acquire", "--owner", o.Owner, "--ttl", b.TTL.String()}, waitFlag(wait)...)
	args = append(args, o.poolFlags()...)
	if b.chance(50) {
		args, o.Process = append(args, "--ends-with", strconv.Itoa(os.Getpid())), true
	}
	var got lease.Grant
	b.command(o, &got, append(args, o.Keys...)...)
	if o.Result != isOK {
		return nil
	}
	granted(o, got)
	trust, _ := lease.Window(b.TTL)
	alive := now() + int64(time.Until(got.ExpiresAt.Time)-b.TTL)
	return &binaryGrant{binary: b, o: *o, lease: got.LeaseID, until: alive + int64(trust), renewed: alive}
}

func waitFlag(wait time.Duration) []string {
	if wait == 0 {
		return []string{"--no-wait"}
	}
	return []string{"--wait", wait.String()}
}

// reply is what the command prints with --json.
type reply struct {
	Data  json.RawMessage
	Error struct {
		Message string
		Details struct{ Key, LockedBy string }
	}
}

// command runs tasklock, and notes in o what it answered.
func (b *binary) command(o *op, data any, args ...string) {
	cmd := exec.Command(b.Binary, append([]string{"--store", b.URL, "--json"}, args...)...)
	cmd.Env = commandEnv()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var r reply
	if bad := json.Unmarshal(stdout.Bytes(), &r); bad != nil {
		o.Result, o.Err = isError, fmt.Sprintf("%v: %v, stdout %q, stderr %q", args, err, &stdout, &stderr)
		return
	}
	b.result(o, err, r.Error.Message)
	o.Holder, o.HeldKey = r.Error.Details.LockedBy, r.Error.Details.Key
	if o.Result != isOK || data == nil {
		return
	}
	if bad := json.Unmarshal(r.Data, data); bad != nil {
		o.Result, o.Err = isError, fmt.Sprintf("%v: %v", args, bad)
	}
}

// result reads the exit code.
func (b *binary) result(o *op, err error, message string) {
	code := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		code = -1
	}
	switch code {
	case 0:
		o.Result = isOK
	case 6:
		o.Result = isHeld
	case 11:
		o.Result = isRefused
	case 7:
		o.Result = isLost
	case 8:
		o.Result = isError
		if b.unanswered(o) {
			o.Result, o.Unreached = isUnknown, true
		}
	case 5:
		o.Result = isError
		if o.Probe {
			o.Result = isDenied
		}
	default:
		o.Result = isError
	}
	if o.Result == isError {
		o.Err = fmt.Sprintf("exit %d: %v %s", code, err, message)
	}
}

// commandEnv is ours, without what makes this program a worker.
func commandEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, workerEnv+"=") {
			env = append(env, v)
		}
	}
	return env
}

// binaryGrant is a lease that was taken by a command of its own.
type binaryGrant struct {
	*binary
	o       op
	lease   string
	renewed int64 // when the last successful heartbeat began, or later
	until   int64 // trusted
	lost    bool
}

func (g *binaryGrant) work(w *worker, o op) { w.work(g, o) }
func (g *binaryGrant) trusted() bool        { return !g.lost && now() < g.until }

// target names the lease: by key and token, or with several keys by its id.
func (g *binaryGrant) target() []string {
	if len(g.o.Keys) > 1 {
		return []string{"--owner", g.o.Owner, "--lease", g.lease}
	}
	key := g.o.Keys[0]
	return []string{"--owner", g.o.Owner, key, "--token", strconv.FormatInt(g.o.token(key), 10)}
}

func (g *binaryGrant) renew(j *journal) {
	if time.Duration(now()-g.renewed) < g.TTL/3 {
		return
	}
	o := j.call(op{Kind: opRenew, Keys: g.o.Keys, Owner: g.o.Owner, Tokens: g.o.Tokens})
	g.command(&o, nil, append([]string{"heartbeat"}, g.target()...)...)
	j.done(o)
	switch o.Result {
	case isOK:
		trust, _ := lease.Window(g.TTL)
		g.renewed, g.until = o.Call, o.Call+int64(trust)
	case isLost:
		g.lost = true
	}
}

func (g *binaryGrant) release(o *op) {
	var out lease.ReleaseResult
	g.command(o, &out, append([]string{"release"}, g.target()...)...)
	released(o, out)
}

// probe does the same as that of the library, and asks whether the token is
// still in force.
func (b *binary) probe(j *journal, key string, token int64) {
	owner, t := fmt.Sprintf("%s/w%d-%d", rootOwner, b.Row, b.n), strconv.FormatInt(token, 10)
	for _, args := range [][]string{
		{"release", key, "--token", t},
		{"heartbeat", key, "--token", t},
		{"check", key, "--token", t},
		{"release", key},
	} {
		kind := opRelease
		if args[0] != "release" {
			kind = opRenew
		}
		o := j.call(op{Kind: kind, Keys: []string{key}, Owner: owner, Tokens: map[string]int64{key: token}, Probe: true})
		var out lease.ReleaseResult
		b.command(&o, &out, append(args, "--owner", owner)...)
		if kind == opRelease {
			released(&o, out)
		}
		j.done(o)
	}
}
