package setupcmd

import (
	"runtime"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/host"
)

// near reports whether the store lies on a disk of this machine.
func (x *examination) near() bool { return x.dir != "" }

// clock looks at what ages are measured by.
func (x *examination) clock() {
	now := x.Session.Now()
	_, domain := host.Awake()
	switch {
	case now.Before(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || now.Year() > 2100:
		x.Warn("clock", "timedatectl status", "the clock says %s", term.Stamp(now))
	case !x.near():
		x.OK("clock", "%s here; the store measures ages", term.Stamp(now))
	case domain == "":
		x.Warn("clock", "timedatectl status", "this system has no boot id, so ages come from the wall clock: do not let it jump")
	default:
		x.OK("clock", "%s, ages by the clock of this boot", term.Stamp(now))
	}
}

// firstPIDNamespace is the number the kernel gives the namespace of the whole
// machine.
const firstPIDNamespace = "pid:[4026531836]"

// sandbox looks at what this process is kept from seeing.
func (x *examination) sandbox() {
	me := host.Self()
	shorter := x.Session.CommandLine("run", "--ttl", "1m", "KEY", "--", "COMMAND")
	switch {
	case runtime.GOOS == "linux" && (me.NS == "" || me.Start == ""):
		x.Warn("sandbox", shorter, "/proc does not show our own process: tasklock cannot prove the death of a holder, whose lock then expires")
	case runtime.GOOS == "linux" && me.NS != firstPIDNamespace:
		x.Warn("sandbox", shorter, "a separate pid namespace (%s): tasklock does not see the death of holders outside it, whose locks then expire", me.NS)
	case me.Boot == "":
		x.Warn("sandbox", shorter, "no boot id: tasklock cannot prove the death of a holder, whose lock then expires")
	default:
		x.OK("sandbox", "processes of this machine are seen")
	}
	if !x.near() {
		return // what wakes its waiters, the store itself tells
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		x.Warn("wake-up", "sysctl fs.inotify.max_user_instances=1024", "files cannot be watched (%v): waiters look several times a second instead", err)
		return
	}
	_ = w.Close()
	x.OK("wake-up", "file notification works")
}
