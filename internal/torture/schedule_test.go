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
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

// fleet is five pods with clocks that differ, and a table of jobs that fire
// each second.
type fleet struct {
	t *testing.T
	place
	binary string
	bug    string
	jobs   int
	work   string // where commands leave their marks

	mu   sync.Mutex
	pods []*exec.Cmd
	logs []*bytes.Buffer
}

const podCount = 5

// marker is the command of every job: it leaves a mark that only one run of an
// attempt can leave (-C is O_EXCL), and tells when it could not.
const marker = `set -C; echo > "$MARKS/$TASKLOCK_JOB.$TASKLOCK_FIRE_TIME.$TASKLOCK_ATTEMPT" || echo "$TASKLOCK_RUN_ID $TASKLOCK_ATTEMPT" >> "$MARKS/../twice"`

func newFleet(t *testing.T, b backend, jobs int, bug string) *fleet {
	t.Helper()
	f := &fleet{t: t, place: b.place(t), binary: command(t), bug: bug, jobs: jobs, work: tempDir(t)}
	must(t, os.Mkdir(filepath.Join(f.work, "marks"), 0o700))
	f.pods, f.logs = make([]*exec.Cmd, podCount), make([]*bytes.Buffer, podCount)
	var table strings.Builder
	table.WriteString("jobs:\n")
	for n := range jobs {
		work := marker
		if n%2 == 1 && bug == "" {
			work += "; sleep 0.3" // so that a kill hits some at work
		}
		fmt.Fprintf(&table, "  j%d: {cron: '* * * * * *', ttl: 5s, keep: 1000, command: [sh, -c, %q]%s}\n", n, work, f.policy(n))
	}
	f.run(table.String(), "jobs", "apply", "-f", "-")
	t.Cleanup(func() {
		for n := range f.pods {
			f.kill(n)
		}
	})
	return f
}

// policy makes the jobs differ. The defaults come first and are the most.
func (f *fleet) policy(n int) string {
	if f.bug != "" {
		return ""
	}
	return []string{"", "", ", on-crash: retry", ", overlap: allow", ", overlap: queue, on-crash: retry"}[n%5]
}

// run runs the command on the first machine.
func (f *fleet) run(stdin string, args ...string) []byte {
	f.t.Helper()
	cmd := exec.Command(f.binary, append([]string{"--store", f.url, "--owner", "tester"}, args...)...)
	cmd.Env, cmd.Stdin = f.env(0), strings.NewReader(stdin)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		f.t.Fatalf("%v: %v: %s%s", args, err, out, complaints.String())
	}
	return out
}

// start starts the n-th pod; its clock is 2 s late to 2 s early.
func (f *fleet) start(n int) {
	cmd := exec.Command(f.binary, "--store", f.url, "scheduler", "--grace", "5s")
	cmd.Env = append(f.env(n), fmt.Sprintf("TASKLOCK_FAULT_SHIFT=%ds", n-podCount/2), "MARKS="+filepath.Join(f.work, "marks"))
	if f.bug != "" {
		cmd.Env = append(cmd.Env, "TASKLOCK_FAULT_BUG="+f.bug)
	} else {
		cmd.Env = append(cmd.Env, "TASKLOCK_FAULT_JITTER=1")
	}
	log := &bytes.Buffer{}
	cmd.Stderr, cmd.WaitDelay = log, time.Second
	must(f.t, cmd.Start())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods[n], f.logs[n] = cmd, log
}

func (f *fleet) signal(n int, sig syscall.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pods[n] != nil {
		_ = f.pods[n].Process.Signal(sig)
	}
}

// kill ends a pod without a word.
func (f *fleet) kill(n int) {
	f.signal(n, syscall.SIGKILL)
	f.wait(n)
}

func (f *fleet) wait(n int) {
	f.mu.Lock()
	cmd := f.pods[n]
	f.pods[n] = nil
	f.mu.Unlock()
	if cmd != nil {
		_ = cmd.Wait()
	}
}

// twice are the runs that found their mark there already.
func (f *fleet) twice() string {
	b, _ := os.ReadFile(filepath.Join(f.work, "twice"))
	return string(b)
}

// fired is a record as history shows it.
type fired struct {
	Job      string
	FireTime time.Time
	State    string
	Why      string
	Attempt  int
	Count    int
	Until    time.Time
}

func (f *fleet) history(job string) []fired {
	var out struct{ Data struct{ Fires []fired } }
	must(f.t, json.Unmarshal(f.run("", "jobs", "history", job, "--limit", "100000", "--json"), &out))
	return out.Data.Fires
}

// faults strikes the pods: one is killed and replaced about every three seconds, one
// stands still for a while.
func (f *fleet) faults(length time.Duration) (kills int) {
	rng := rand.New(rand.NewPCG(7, 7))
	still := rng.IntN(podCount)
	pause := min(10*time.Second, length/3)
	began := time.Now()
	stopAt, contAt := began.Add(length/4), began.Add(length/4+pause)
	stopped := false
	soon := func() time.Duration { return 2500*time.Millisecond + time.Duration(rng.IntN(1000))*time.Millisecond } // at any moment of a second
	kill := time.NewTimer(soon())
	defer kill.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for time.Since(began) < length {
		select {
		case <-kill.C:
			n := rng.IntN(podCount)
			if n == still {
				n = (n + 1) % podCount
			}
			f.kill(n)
			f.start(n)
			kills++
			kill.Reset(soon())
		case now := <-look.C:
			if !stopped && now.After(stopAt) {
				f.signal(still, syscall.SIGSTOP)
				stopped = true
			}
			if stopped && now.After(contAt) {
				f.signal(still, syscall.SIGCONT)
				stopped, stopAt = false, began.Add(2*length)
			}
		}
	}
	f.signal(still, syscall.SIGCONT)
	return kills
}

// settle lets the pods end what they began: no job fires any more, and every
// record becomes final.
func (f *fleet) settle() {
	for n := range f.jobs {
		f.run("", "jobs", "pause", fmt.Sprintf("j%d", n))
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		out := string(f.run("", "jobs", "list"))
		if !strings.Contains(out, "\trunning\t") {
			break
		}
		if time.Now().After(deadline) {
			f.t.Errorf("still not ended:\n%s", out)
			break
		}
	}
	for n := range f.pods {
		f.signal(n, syscall.SIGTERM)
	}
	for n := range f.pods {
		f.wait(n)
	}
}

// judge compares marks and records, and counts what happened.
func (f *fleet) judge(began, ended time.Time) (tally map[string]int) {
	tally = map[string]int{}
	if again := f.twice(); again != "" {
		f.t.Errorf("executed twice:\n%s", again)
	}
	marks := map[string]int{} // attempts by job and fire time
	entries, err := os.ReadDir(filepath.Join(f.work, "marks"))
	must(f.t, err)
	for _, e := range entries {
		run, _, _ := cutLast(e.Name(), ".")
		marks[run]++
	}
	tally["marks"] = len(entries)
	for n := range f.jobs {
		job := fmt.Sprintf("j%d", n)
		seconds := map[int64]bool{}
		retries := strings.Contains(f.policy(n), "retry")
		for _, r := range f.history(job) {
			tally[r.State]++
			run := job + "." + r.FireTime.UTC().Format(time.RFC3339Nano)
			last := r.FireTime
			switch r.State {
			case "skipped":
				if strings.HasPrefix(r.Why, "missed") {
					f.t.Errorf("%s was missed: %s", run, r.Why)
				}
				if r.Count > 1 {
					last = r.Until
				}
				if marks[run] > 0 {
					f.t.Errorf("%s is skipped, and was run", run)
				}
			case "done", "failed":
				if marks[run] == 0 {
					f.t.Errorf("%s is %s, and was not run", run, r.State)
				}
			case "lost":
			default:
				f.t.Errorf("%s is %s in the end", run, r.State)
			}
			if marks[run] > 1 && !retries || marks[run] > r.Attempt {
				f.t.Errorf("%s was run %d times, the record has %d attempts", run, marks[run], r.Attempt)
			}
			delete(marks, run)
			for at := r.FireTime.Unix(); at <= last.Unix(); at++ {
				seconds[at] = true
			}
		}
		for at := began.Unix() + 3; at < ended.Unix()-3; at++ {
			if !seconds[at] {
				f.t.Errorf("%s has no record of %s", job, time.Unix(at, 0).UTC())
			}
		}
	}
	for run := range marks {
		f.t.Errorf("%s was run and has no record", run)
	}
	return tally
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// scheduled are the backends on which jobs are fired.
func scheduled() (list []backend) {
	for _, b := range backends {
		if b.scheme == "sqlite" || full() && (b.scheme == "postgres" || b.scheme == "etcd") {
			list = append(list, b)
		}
	}
	return list
}

// TestSchedule: no attempt of a fire time is executed twice, none is missed,
// all end in a final state, whatever happens to the pods.
func TestSchedule(t *testing.T) {
	jobs, length := 20, 20*time.Second
	if full() {
		jobs, length = 50, long.Time(50*time.Second)
	}
	for _, b := range scheduled() {
		t.Run(b.name, func(t *testing.T) {
			f := newFleet(t, b, jobs, "")
			for n := range podCount {
				f.start(n)
			}
			began := time.Now()
			kills := f.faults(length)
			ended := time.Now()
			f.settle()
			tally := f.judge(began, ended)
			report := fmt.Sprintf("%s: %d pods, %d jobs each second for %s, %d kills: %d runs, %d done, %d failed, %d lost, %d records of skipped times",
				b.name, podCount, jobs, length, kills, tally["marks"], tally["done"], tally["failed"], tally["lost"], tally["skipped"])
			if t.Log(report); full() {
				fmt.Println(report)
			}
			if tally["done"] < jobs*int(length.Seconds())/20 {
				t.Errorf("only %d runs ended well", tally["done"])
			}
			if problems := f.wrong(t); len(problems) > 0 {
				t.Errorf("the store is damaged: %v", problems)
			}
		})
	}
}

// TestScheduleCanFail: pods that take the lock and write no record of the fire
// time run short jobs twice, and the marks show it.
func TestScheduleCanFail(t *testing.T) {
	f := newFleet(t, sqlite, 5, "schedule_lock_only")
	for n := range podCount {
		f.start(n)
	}
	for deadline := time.Now().Add(time.Minute); f.twice() == ""; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the bug was not seen")
		}
	}
	first, _, _ := strings.Cut(f.twice(), "\n")
	t.Logf("caught: %s was executed twice", first)
}

// TestKilledPodLeavesTheQueue: a job waits for a slot in the queue of its pool. When its
// pod is killed, nobody waits behind its place.
func TestKilledPodLeavesTheQueue(t *testing.T) {
	f := newFleet(t, sqlite, 1, "")
	f.run("", "pools", "set", poolName, "1")
	f.run("", "acquire", poolKey, "--owner", "first", "--ttl", "1h")
	f.run("", "jobs", "add", "waits", "--cron", "* * * * * *", "--pool", poolName, "--", "true")
	f.start(0)
	waiters := func() int {
		var out struct {
			Data struct{ Pool struct{ Waiters int } }
		}
		must(t, json.Unmarshal(f.run("", "pools", "show", poolName, "--json"), &out))
		return out.Data.Pool.Waiters
	}
	for deadline := time.Now().Add(2 * time.Minute); waiters() == 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the job has no place in the queue")
		}
	}
	f.kill(0)
	f.run("", "release", poolKey, "--owner", "first")
	f.run("", "acquire", poolKey, "--owner", "second", "--no-wait")
}
