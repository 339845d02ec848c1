package setupcmd

import (
	"os"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/place"
)

// which names the store and the reason, and whether there is a place for one.
func (x *examination) which() bool {
	url, named, err := x.cfg.Where()
	p := x.cfg.Place
	if p.Kind == "" && !named {
		return false // config has said why
	}
	if err == nil && !named && !place.Has(p.Folder) {
		err = x.Session.Unmade(x.cfg)
	}
	if err != nil {
		x.Fail("place", x.Session.Problem(err).Next, err)
		return false
	}
	why := x.cfg.Why()
	switch {
	case !x.cfg.Users():
	case os.Geteuid() == 0:
		why += "; this is root's, other users have their own"
	default:
		why += "; other users, root too, have their own"
	}
	if remote := p.Shared(false); remote != "" && !named {
		x.Warn("place", session.UseBranch(remote), "%s: %s, although %s has a branch %s, where others may keep their locks", config.WithoutPassword(url), why, remote, place.Branch)
		return true
	}
	x.OK("place", "%s: %s", config.WithoutPassword(url), why)
	return true
}
