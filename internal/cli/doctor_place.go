package cli

import (
	"os"

	"github.com/tasklock/tasklock/internal/place"
)

// which tells which store it is and why, and whether there is a place for one.
func (x *examination) which() bool {
	url, named, err := x.cfg.Where()
	p := x.cfg.place
	if p.Kind == "" && !named {
		return false // config has said why
	}
	if err == nil && !named && !place.Has(p.Folder) {
		err = x.app.unmade(x.cfg)
	}
	if err != nil {
		x.fail("place", x.app.problem(err).Next, err)
		return false
	}
	why := x.cfg.Why()
	switch {
	case !x.cfg.users():
	case os.Geteuid() == 0:
		why += "; this is root's, other users have their own"
	default:
		why += "; other users, root too, have their own"
	}
	if remote := p.Shared(false); remote != "" && !named {
		x.warn("place", useBranch(remote), "%s: %s, although %s has a branch %s, where others may keep their locks", withoutPassword(url), why, remote, place.Branch)
		return true
	}
	x.ok("place", "%s: %s", withoutPassword(url), why)
	return true
}
