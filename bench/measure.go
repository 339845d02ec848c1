package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// A way is one of those that are compared. window works for a while, and says how
// long each call took.
type way struct {
	name   string
	window func(time.Duration) []time.Duration
}

// figures are what one way took in all of its windows.
type figures struct {
	name  string
	calls []time.Duration // sorted
	rate  float64         // calls a second
}

const windows = 20

// inTurns measures several ways, a little of each in turn: the disk of a machine
// that others use is fast in one second and slow in the next.
func inTurns(ways ...way) []figures {
	out := make([]figures, len(ways))
	took := make([]time.Duration, len(ways))
	for range windows {
		for i, w := range ways {
			start := time.Now()
			out[i].calls = append(out[i].calls, w.window(2*length/windows)...)
			took[i] += time.Since(start)
		}
	}
	for i, w := range ways {
		slices.Sort(out[i].calls)
		out[i].name, out[i].rate = w.name, float64(len(out[i].calls))/took[i].Seconds()
	}
	return out
}

func (f figures) mean() time.Duration {
	var sum time.Duration
	for _, d := range f.calls {
		sum += d
	}
	return sum / time.Duration(max(1, len(f.calls)))
}

func (f figures) String() string {
	return fmt.Sprintf("%.0f/s, mean %s, median %s, p99 %s", f.rate, short(f.mean()), short(percentile(f.calls, 0.5)), short(percentile(f.calls, 0.99)))
}

// short rounds a duration to what one reads at a glance.
func short(d time.Duration) string {
	for unit := time.Second; unit >= time.Microsecond; unit /= 10 {
		if d >= 10*unit {
			return d.Round(unit).String()
		}
	}
	return d.String()
}

// beside notes each way, and what it makes of the first one's rate.
func (b *bench) beside(all []figures) {
	for i, f := range all {
		if i == 0 {
			b.note(f.name, f.String())
			continue
		}
		b.note(f.name, fmt.Sprintf("%.2f × the first: %s", f.rate/all[0].rate, f))
	}
}

// atLeast is a row whose aim is a share of another way's rate.
func (b *bench) atLeast(f, of figures, aim float64) {
	ratio := f.rate / of.rate
	b.row(f.name, fmt.Sprintf("%.2f × %s (%s)", ratio, of.name, f), fmt.Sprintf(">= %.2f", aim), ratio >= aim)
}

// goroutines is a way in this process: each worker makes calls of its own.
func goroutines(name string, workers int, do func(worker int)) way {
	return way{name, func(d time.Duration) []time.Duration {
		calls := make([][]time.Duration, workers)
		atOnce(workers, func(i int) { calls[i] = repeat(d, func() { do(i) }) })
		return slices.Concat(calls...)
	}}
}

func repeat(d time.Duration, do func()) (calls []time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
		before := time.Now()
		do()
		calls = append(calls, time.Since(before))
	}
	return calls
}

// separate is a way in processes of its own. Each reads the length of a window in
// seconds on standard input, and writes how long each call took as a JSON list of
// nanoseconds; [window] is the other end. end ends them.
func separate(name string, commands ...*exec.Cmd) (w way, end func()) {
	var inputs []io.WriteCloser
	var outputs []*json.Decoder
	for _, cmd := range commands {
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		check(err)
		out, err := cmd.StdoutPipe()
		check(err)
		check(cmd.Start())
		inputs, outputs = append(inputs, in), append(outputs, json.NewDecoder(bufio.NewReader(out)))
	}
	w = way{name, func(d time.Duration) []time.Duration {
		for _, in := range inputs {
			_, err := fmt.Fprintln(in, d.Seconds())
			check(err)
		}
		calls := make([][]time.Duration, len(outputs))
		for i, out := range outputs {
			check(out.Decode(&calls[i]))
		}
		return slices.Concat(calls...)
	}}
	return w, func() {
		for i, in := range inputs {
			check(in.Close())
			check(commands[i].Wait())
		}
	}
}

// workers is a way in n processes that this program starts again as "worker KIND
// ARGS… N".
func workers(name string, n int, kind string, args ...string) (way, func()) {
	self, err := os.Executable()
	check(err)
	var cmds []*exec.Cmd
	for i := range n {
		cmds = append(cmds, exec.Command(self, slices.Concat([]string{"worker", kind}, args, []string{fmt.Sprint("key", i)})...))
	}
	return separate(name, cmds...)
}

// serveWindows is the other end of [separate].
func serveWindows(do func()) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		d, err := time.ParseDuration(in.Text() + "s")
		check(err)
		check(json.NewEncoder(os.Stdout).Encode(repeat(d, do)))
	}
}

// atOnce runs fn n times side by side.
func atOnce(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}
