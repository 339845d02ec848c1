package host

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// membersLife looks for a running member of a group. If init does not reap, as
// in many containers, zombies keep a group for ever, so the answer of kill(2)
// alone would never be Dead.
func membersLife(pgid int) Life {
	if !procIsOurs() {
		return Unknown
	}
	// Nearly always the leader runs, and one read is enough.
	if st, err := readStat(strconv.Itoa(pgid)); err == nil && st.group == pgid && !st.ended() {
		return Alive
	}
	// A walk is not a snapshot: a member may fork into a number already passed
	// and end before its own number is reached. Zombies do not fork, so a
	// second walk finds the child.
	if l := walkGroup(pgid); l != Dead {
		return l
	}
	return walkGroup(pgid)
}

// walkGroup is Dead when it saw every process and only zombies of the group.
func walkGroup(pgid int) Life {
	pids, err := listed()
	if err != nil {
		return Unknown
	}
	zombies, hidden := 0, procHides()
	for _, pid := range pids {
		st, err := readStat(pid)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH):
			// It ended while we walked.
		case err != nil:
			hidden = true
		case st.group == pgid && !st.ended():
			return Alive
		case st.group == pgid:
			zombies++
		}
	}
	if hidden || zombies == 0 {
		return Unknown
	}
	return Dead
}

// listed returns the names of all processes in /proc.
func listed() ([]string, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return strings.Trim(name, "0123456789") != "" }), err
}

// procHides reports whether /proc is mounted so that it leaves out processes
// of other users.
func procHides() bool {
	b, err := os.ReadFile("/proc/self/mountinfo")
	return err != nil || strings.Contains(string(b), "hidepid=")
}
