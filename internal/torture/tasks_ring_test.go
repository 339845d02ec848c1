//go:build linux

package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A ring is a store that processes race in.
type ring struct {
	place
	t      *testing.T
	binary string
	bug    string

	mu       sync.Mutex
	commands int
	exits    map[string]int // how often a command of that name ended with that code
	faults   []string
	ids      map[string]bool // every one that was ever given out
	token    int64           // the last that was granted
}

func newRing(t *testing.T, b backend, bug string) *ring {
	t.Helper()
	r := &ring{t: t, place: b.place(t), binary: command(t), bug: bug, exits: map[string]int{}, ids: map[string]bool{}}
	r.must("tasks", "add", "first")
	return r
}

// verdict is what a command said.
type verdict struct {
	code int
	text string
	data struct {
		Token int64
		Keys  []struct {
			Key   string
			Token int64
		}
		Task  listed
		Tasks []listed
		Next  *struct { // of complete --next
			Task  listed
			Token int64
		}
	}
}

type listed struct {
	ID, Status, ClaimedBy string
	Token                 int64
}

func (r *ring) run(args ...string) verdict { return r.runOn(0, args...) }

// runOn runs a command on the n-th machine.
func (r *ring) runOn(n int, args ...string) verdict {
	cmd := exec.Command(r.binary, append([]string{"--store", r.url, "--json"}, args...)...)
	cmd.Env = append(r.env(n), "TASKLOCK_FAULT_BUG="+r.bug, "TASKLOCK_FAULT_JITTER=1", "GOMAXPROCS=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	a := verdict{code: -1}
	if cmd.ProcessState != nil {
		a.code = cmd.ProcessState.ExitCode()
	}
	a.text = fmt.Sprintf("%s: exit %d, %v: %s%s", strings.Join(args, " "), a.code, err, &stdout, &stderr)
	var envelope struct{ Data json.RawMessage }
	if json.Unmarshal(stdout.Bytes(), &envelope) == nil && len(envelope.Data) > 0 {
		if err := json.Unmarshal(envelope.Data, &a.data); err != nil {
			r.fault("%v in %s", err, a.text)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands++
	r.exits[fmt.Sprintf("%s %d", args[min(1, len(args)-1)], a.code)]++
	return a
}

// must runs what cannot fail.
func (r *ring) must(args ...string) verdict {
	a := r.run(args...)
	if a.code != 0 {
		r.fault("%s", a.text)
	}
	return a
}

// together starts all commands at once.
func (r *ring) together(calls ...[]string) []verdict {
	out := make([]verdict, len(calls))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, args := range calls {
		wg.Go(func() {
			<-start
			out[i] = r.runOn(i, args...)
		})
	}
	close(start)
	wg.Wait()
	return out
}

func (r *ring) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// only requires that no command ended otherwise, and returns those with the
// first code.
func (r *ring) only(all []verdict, codes ...int) (first []verdict) {
	for _, a := range all {
		if !slices.Contains(codes, a.code) {
			r.fault("%s", a.text)
		}
		if a.code == codes[0] {
			first = append(first, a)
		}
	}
	return first
}

// tally is how commands ended.
func (r *ring) tally() string {
	var all []string
	for k, n := range r.exits {
		all = append(all, fmt.Sprintf("%s: %d", k, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// end looks at the store once more.
func (r *ring) end() {
	for _, p := range r.wrong(r.t) {
		r.fault("%s", p)
	}
}

func args(text string, values ...any) []string { return strings.Fields(fmt.Sprintf(text, values...)) }

// forEach returns a command for every racer.
func forEach(n int, text string) (calls [][]string) {
	for i := range n {
		calls = append(calls, strings.Fields(strings.ReplaceAll(text, "%", fmt.Sprint(i))))
	}
	return calls
}

func (r *ring) show(id string) listed {
	a := r.must("tasks", "list")
	for _, t := range a.data.Tasks {
		if t.ID == id {
			return t
		}
	}
	r.fault("%s is lost", id)
	return listed{}
}

// granted notes the token of a grant: it must be larger than all before.
func (r *ring) granted(a verdict) int64 {
	if a.data.Token <= r.token {
		r.fault("token %d after %d: %s", a.data.Token, r.token, a.text)
	}
	r.token = a.data.Token
	return a.data.Token
}

func (r *ring) add(n int, names ...string) {
	for i, name := range names {
		args := []string{"tasks", "add", name, "--id", fmt.Sprintf("%s%d", name, n), "--section", fmt.Sprint("s", n)}
		if i > 0 && name != "other" {
			args = append(args, "--depends-on", fmt.Sprintf("%s%d", names[i-1], n))
		}
		r.must(args...)
	}
}

// tokenOf is the token of one key of a grant; next names no keys.
func tokenOf(a verdict, key string) int64 {
	for _, k := range a.data.Keys {
		if k.Key == key {
			return k.Token
		}
	}
	return a.data.Token
}
