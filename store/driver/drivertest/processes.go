package drivertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

var processCases = []testCase{
	{name: "counter from several processes", processes: true, run: counterProcesses},
	{name: "counter from several processes that are killed", processes: true, run: counterKilled},
	{name: "unrelated commits from several processes", processes: true, run: unrelatedProcesses},
	{name: "wait wakes for another process", processes: true, run: waitProcess},
	{name: "processes open a new place at once", processes: true, run: openAtOnce},
}

// The environment of a worker process. It answers in lines on its standard
// output, and ends when its standard input does: no worker outlives the test.
const (
	envWorker = "TASKLOCK_DRIVERTEST_WORKER" // what to do; see jobs
	envPlace  = "TASKLOCK_DRIVERTEST_PLACE"
	envName   = "TASKLOCK_DRIVERTEST_NAME" // tells workers apart
	envRounds = "TASKLOCK_DRIVERTEST_ROUNDS"
)

// Main is the TestMain of a driver. In a worker process that a case started
// it does the work and exits; otherwise it runs the tests.
func Main(m *testing.M, open func(place string) (driver.Store, error)) {
	job := os.Getenv(envWorker)
	if job == "" {
		m.Run()
		return
	}
	if err := work(job, open); err != nil {
		fmt.Printf("error %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// jobs are what a worker can do, one round at a time.
var jobs = map[string]func(ctx context.Context, s driver.Store, name string, round int) error{
	"increment": func(ctx context.Context, s driver.Store, name string, round int) error {
		return increment(ctx, s, fmt.Sprintf("%s-%d", name, round))
	},
	"chain": func(ctx context.Context, s driver.Store, name string, round int) error {
		return chain(ctx, s, fmt.Sprintf("%s-%d", name, round), 10)
	},
	"write": func(ctx context.Context, s driver.Store, name string, round int) error {
		_, err := s.Commit(ctx, driver.Batch{Writes: []driver.Write{put("lock/a", fmt.Sprintf(`{"n":%d}`, round))}})
		return err
	},
}

func work(job string, open func(place string) (driver.Store, error)) error {
	rounds, err := strconv.Atoi(os.Getenv(envRounds))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	in := bufio.NewReader(os.Stdin)
	fmt.Println("started")
	if _, err := in.ReadString('\n'); err != nil { // go
		return err
	}
	go func() {
		io.Copy(io.Discard, in)
		stop()
	}()

	s, err := open(os.Getenv(envPlace))
	if err != nil {
		return err
	}
	for i := 0; i < rounds && ctx.Err() == nil; i++ {
		if err := jobs[job](ctx, s, os.Getenv(envName), i); err != nil {
			if ctx.Err() != nil { // asked to stop
				break
			}
			return errors.Join(err, s.Close())
		}
		fmt.Printf("done %d\n", i)
	}
	return s.Close()
}

// A process is a worker as the suite sees it.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	name string
}

// start starts a worker; it opens the store when begin is called.
func (t *suite) start(job, name string, rounds int) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Without Main in its TestMain the binary runs no test, and says so.
	cmd := exec.CommandContext(t.ctx, self, "-test.run=^$")
	cmd.Env = append(os.Environ(), envWorker+"="+job, envPlace+"="+t.place, envName+"="+name, envRounds+"="+strconv.Itoa(rounds))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, in: in, out: bufio.NewReader(out), name: name}
	t.Cleanup(func() { p.kill() })
	if line, _ := p.out.ReadString('\n'); line != "started\n" {
		t.Fatalf("worker said %q: does TestMain call drivertest.Main?", line)
	}
	return p
}

func (p *process) begin() error {
	_, err := io.WriteString(p.in, "go\n")
	return err
}

// finish reads what the worker acknowledges until it ends or is killed, and
// returns the names of the completed rounds.
func (p *process) finish() (done []string, err error) {
	for {
		line, readErr := p.out.ReadString('\n')
		if readErr != nil { // a line cut short acknowledges nothing
			return done, errors.Join(err, ignoreKilled(p.cmd.Wait()))
		}
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "done":
			done = append(done, p.name+"-"+rest)
		default:
			err = fmt.Errorf("worker %s: %s", p.name, strings.TrimSpace(line))
		}
	}
}

// kill ends the worker in the middle of its work.
func (p *process) kill() { p.cmd.Process.Kill() }

// ignoreKilled drops the error of a process that was killed; one that failed
// has said why before.
func ignoreKilled(err error) error {
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return nil
	}
	return err
}

// crew runs n workers of a job to their end.
func (t *suite) crew(job string, n, rounds int) (done []string) {
	t.Helper()
	var crew []*process
	for i := range n {
		crew = append(crew, t.start(job, fmt.Sprintf("w%d", i), rounds))
	}
	var mu sync.Mutex
	err := parallel(n, func(i int) error {
		if err := crew[i].begin(); err != nil {
			return err
		}
		names, err := crew[i].finish()
		if err == nil && len(names) != rounds {
			err = fmt.Errorf("worker %d did %d rounds of %d", i, len(names), rounds)
		}
		mu.Lock()
		defer mu.Unlock()
		done = append(done, names...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func counterProcesses(t *suite) {
	done := t.crew("increment", 4, max(5, t.rounds(50)))
	checkCounter(t, t.open(), done)
}

// counterKilled kills a worker in the middle of its work again and again, and
// starts another in its place. What a killed worker had acknowledged must exist;
// what it was doing may exist or not, and blocks nobody.
func counterKilled(t *suite) {
	const crew = 3
	kills, pause := 10, 50*time.Millisecond
	if t.h.Slow {
		kills, pause = 3, time.Second
	}
	s := t.open()
	var acked []string
	var errs []error
	var mu sync.Mutex
	var ends sync.WaitGroup
	hire := func(i int) *process {
		p := t.start("increment", fmt.Sprintf("w%d", i), 1<<30)
		if err := p.begin(); err != nil {
			t.Fatal(err)
		}
		ends.Go(func() {
			done, err := p.finish()
			mu.Lock()
			defer mu.Unlock()
			acked = append(acked, done...)
			if err != nil {
				errs = append(errs, err)
			}
		})
		return p
	}

	var working []*process
	for i := range crew {
		working = append(working, hire(i))
	}
	for i := range kills {
		time.Sleep(pause/2 + rand.N(pause))
		victim := rand.IntN(crew)
		working[victim].kill()
		working[victim] = hire(crew + i)
		nonce := fmt.Sprintf("parent-%d", i)
		if err := increment(t.ctx, s, nonce); err != nil {
			t.Fatalf("after a kill: %v", err)
		}
		mu.Lock()
		acked = append(acked, nonce)
		mu.Unlock()
	}
	time.Sleep(pause)
	for _, p := range working {
		p.in.Close() // the rest may finish their round
	}
	ends.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if len(acked) == kills {
		t.Fatal("no worker did anything: the case has shown nothing")
	}
	checkCounter(t, t.open(), acked)
}

func unrelatedProcesses(t *suite) {
	t.crew("chain", 4, t.rounds(5))
}

func waitProcess(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`))
	for i := range t.rounds(3) {
		p := t.start("write", fmt.Sprintf("w%d", i), 1)
		wakes(t, s, func() {
			if err := p.begin(); err != nil {
				t.Fatal(err)
			}
			if _, err := p.finish(); err != nil {
				t.Fatal(err)
			}
		}, at("lock/a", rev))
		rev = t.get(s, "lock/a").Rev
	}
}

// openAtOnce has several processes make the same new store at the same time.
func openAtOnce(t *suite) {
	for range t.rounds(3) {
		t.place = t.h.Place(t.TB)
		done := t.crew("increment", 4, 2)
		checkCounter(t, t.open(), done)
	}
}
