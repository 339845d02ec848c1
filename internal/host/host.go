// Package host gives facts of this machine that differ by operating system:
// which process is which and whether it still lives, which boot this is, how
// long the machine has been awake, and whether locks work on a file system.
//
// # Guarantee
//
// [Process.Life] and [GroupLife] say [Dead] only when the kernel proved it: a
// process of this very boot and this very pid namespace that is gone, ended
// but not reaped, or replaced by a younger one under the same number. Two
// readings of [Awake] with the same domain come from one clock that never goes
// back.
//
// # Limit
//
// The proof reaches as far as the kernel shows processes. Another machine,
// another container, another user's process, a /proc that hides or that
// belongs to a parent namespace: all of these are [Unknown]. On Windows there
// is no boot id, so everything there is Unknown and Awake has no domain.
// Machines cloned from one memory snapshot share a boot id; they must not share
// a store that relies on this package.
//
// # Failure
//
// Nothing here panics or blocks. A fact that cannot be read is empty, and an
// empty fact is never equal to anything: it makes the answer Unknown. Callers
// then wait for the lease to expire, which is slower and always right.
package host

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// Process identifies a process beyond its pid, which the kernel gives out
// again. Its JSON is flat so that records can embed it.
type Process struct {
	PID   int    `json:"pid,omitempty"`
	Start string `json:"pidStart,omitempty"`     // start time in the kernel's words; only equality means something
	Boot  string `json:"bootId,omitempty"`       // see BootID
	NS    string `json:"pidNamespace,omitempty"` // Linux only: where PID is counted
}

// Self is the process that asks.
func Self() Process { return self() }

var self = sync.OnceValue(func() Process {
	return Process{PID: os.Getpid(), Start: ownStart(), Boot: BootID(), NS: pidNamespace()}
})

// Find returns what the kernel knows about a live process of this namespace.
// A process that does not exist, or has ended without being reaped, is an
// error that matches [syscall.ESRCH]. Start is empty when the process hides its
// start time: such a record can be proven dead, never alive.
func Find(pid int) (Process, error) {
	if pid == os.Getpid() {
		return Self(), nil
	}
	seen, err := look(pid)
	if pid <= 0 || seen.ended || err != nil && gone(signal0(pid)) {
		return Process{}, fmt.Errorf("process %d: %w", pid, syscall.ESRCH)
	}
	return Process{PID: pid, Start: seen.start, Boot: BootID(), NS: Self().NS}, nil
}

// Life is what can be said about a recorded process.
type Life int

// Unknown is the zero value: doubt is the default and never counts as death.
const (
	Unknown Life = iota
	Alive
	Dead
)

func (l Life) String() string {
	switch l {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	}
	return "unknown"
}

// sighting is one look at a pid.
type sighting struct {
	start string
	ended bool // a zombie: nothing of it runs, its parent has not noticed
}

// Life reports whether the recorded process still runs. It asks the kernel on
// every call and takes a few microseconds.
func (p Process) Life() Life {
	switch {
	case p.PID <= 0 || !p.here():
		return Unknown
	case p.Start != "" && p == Self():
		return Alive
	}
	asked := signal0(p.PID)
	if gone(asked) {
		return Dead
	}
	seen, err := look(p.PID)
	switch {
	case err != nil:
		// Hidden from us, or it ended between the two questions.
		if gone(signal0(p.PID)) {
			return Dead
		}
		return Unknown
	case p.Start == "" || clockOf(p.Start) != clockOf(seen.start):
		return Unknown
	case p.Start == seen.start && !seen.ended:
		return Alive
	case asked != nil:
		// Another user's process. It looks like proof, but we do not judge a
		// process that we may not signal.
		return Unknown
	}
	return Dead
}

// GroupLife reports whether a process group still has a member that runs. p is
// the process recorded together with the group; it gives the boot and the
// namespace, and need not be a member.
//
// A number that a new group has taken over reads as Alive, which costs a wait
// and no safety. A group of nothing but zombies is Dead on Linux, where that
// takes two walks over /proc; elsewhere it is Unknown until they are reaped.
func GroupLife(pgid int, p Process) Life {
	// Zero and one are not groups to kill(2): they mean "mine" and "everyone".
	if pgid <= 1 || !p.here() {
		return Unknown
	}
	switch err := signal0(-pgid); {
	case gone(err):
		return Dead
	case err != nil:
		return Unknown
	}
	return membersLife(pgid)
}

// here reports whether p has our pid namespace and boot.
func (p Process) here() bool {
	me := Self()
	return p.Boot != "" && p.Boot == me.Boot &&
		p.NS == me.NS && (p.NS != "" || !hasNamespaces)
}

// clockOf returns the clock a start time was read from, the part after '@'.
// Start times of two clocks cannot be compared, not even for inequality.
func clockOf(start string) string {
	_, clock, _ := strings.Cut(start, "@")
	return clock
}

func gone(err error) bool { return errors.Is(err, syscall.ESRCH) }

// Name is the name of this machine, for people. It is never empty and proves
// nothing: two machines may share it.
func Name() string { return name() }

var name = sync.OnceValue(func() string {
	if n, err := os.Hostname(); err == nil && n != "" {
		return n
	}
	return "localhost"
})
