package agent

import (
	"context"
	"path/filepath"
	"time"

	"github.com/tasklock/tasklock/internal/shellwrites"
)

// A Target is something that is about to be written or removed.
type Target = shellwrites.Target

// GitTime is how long git may take to say what a command of it would change;
// else everything counts as changed. Tests are more patient.
var GitTime = 150 * time.Millisecond

// shell reads a command line that is about to run in dir.
func (e *Event) shell(line, dir string) {
	if line == "" {
		return
	}
	r := shellwrites.Read(line, dir, shellwrites.View{Git: shellwrites.AskGit(context.Background(), GitTime)})
	e.Targets, e.Calls, e.Unsure = r.Targets, r.Calls, r.Unsure
}

// join is where a path leads from a folder.
func join(dir, path string) string {
	if filepath.IsAbs(path) || dir == "" {
		return path
	}
	return filepath.Join(dir, path)
}
