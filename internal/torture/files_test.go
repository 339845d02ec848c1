//go:build linux

package torture

import (
	"path/filepath"
	"time"

	_ "github.com/tasklock/tasklock/store/filestore"
)

var files = backend{
	name: "files", scheme: "file",
	open:   open,
	at:     func(dir string) string { return "file:" + filepath.Join(dir, "store") },
	files:  []string{"journal", "state", "records", "spare", "index", "gate", "wake", ".gitignore"},
	damage: problems,
	race: func(c *Config) {
		switch {
		case full():
		case c.Mode == Binary:
			c.Rounds = 5
		default:
			c.Rounds = 8
		}
	},
	ttl:   time.Second,
	tasks: 3,
	brief: brief{modes: []Mode{Library, Binary}, bugs: []string{"no_compare", "lock_before_lease"}},
}
