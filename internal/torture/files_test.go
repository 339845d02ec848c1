//go:build linux

package torture

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/filestore"
)

var files = backend{
	name: "files", scheme: "file",
	open: func(ctx context.Context, url string) (driver.Store, error) {
		return filestore.Open(ctx, strings.TrimPrefix(url, "file:"), &filestore.Options{Create: true})
	},
	at:    func(dir string) string { return "file:" + filepath.Join(dir, "store") },
	files: []string{"journal", "state", "records", "spare", "gate", "wake", ".gitignore"},
	damage: func(url, _ string) []string {
		r, err := filestore.Inspect(context.Background(), strings.TrimPrefix(url, "file:"))
		if err != nil {
			return []string{err.Error()}
		}
		return r.Problems
	},
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
