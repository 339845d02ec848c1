package legacy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// piStale is the age at which a lock file counts as left behind.
const piStale = 10 * time.Second

// piTask is one file of tasks/.
type piTask struct {
	ID            string   `json:"id"`
	Title         string   `json:"title"`
	Status        string   `json:"status"`
	DependsOn     []string `json:"depends_on"`
	ClaimedBy     string   `json:"claimed_by"`
	ClaimedAt     string   `json:"claimed_at"`
	BlockedReason string   `json:"blocked_reason"`
}

// Pi reads the tasks and locks of the swarm of pi-messenger. dir is the project,
// or the folder with tasks and locks. A claim there has no end; a lock is held
// for the moment of a change only, by a process.
func Pi(dir string, now time.Time) (Source, error) {
	f, done, err := openFolder(dir)
	if err != nil {
		return Source{}, err
	}
	defer done()
	return readPi(f, now)
}

func readPi(f folder, now time.Time) (s Source, err error) {
	place := ""
	for _, p := range []string{".pi/messenger/swarm", ".pi/messenger", "."} {
		if place == "" && (f.has(path.Join(p, "tasks")) || f.has(path.Join(p, "locks"))) {
			place = p
		}
	}
	if place == "" {
		return s, fmt.Errorf("%w: no folder tasks or locks, nor .pi/messenger/swarm", driver.ErrMissing)
	}
	if err := s.piTasks(f, path.Join(place, "tasks"), now); err != nil {
		return s, err
	}
	names, err := f.list(path.Join(place, "locks"), ".lock")
	if err != nil {
		return s, err
	}
	for _, name := range names {
		text, err := f.read(name)
		if err != nil {
			s.problem(name, "%v", err)
			continue
		}
		l, err := parsePiLock(string(text))
		if err != nil {
			s.problem(name, "%v", err)
			continue
		}
		l.Key, l.where = strings.TrimSuffix(path.Base(name), ".lock"), name
		if s.locks[l.Key] {
			continue // whoever has claimed it is changing it
		}
		s.addLock(l, now)
	}
	return s, nil
}

// piTasks reads the tasks of a folder, and of the channels in it.
func (s *Source) piTasks(f folder, dir string, now time.Time) error {
	names, err := f.list(dir, ".json")
	if err != nil {
		return err
	}
	channels, err := f.list(dir, "")
	if err != nil {
		return err
	}
	for _, c := range channels {
		if f.has(c) {
			more, err := f.list(c, ".json")
			if err != nil {
				return err
			}
			names = append(names, more...)
		}
	}
	for _, name := range names {
		text, err := f.read(name)
		if err != nil {
			s.problem(name, "%v", err)
			continue
		}
		t, err := parsePiTask(text)
		if err != nil {
			s.problem(name, "%v", err)
			continue
		}
		if t.ID != strings.TrimSuffix(path.Base(name), ".json") {
			s.problem(name, "is the file of another task, %q", within(t.ID, 60))
			continue
		}
		s.addPi(f, name, t, now)
	}
	return nil
}

func (s *Source) addPi(f folder, name string, t piTask, now time.Time) {
	before := len(s.Tasks)
	n := Task{ID: t.ID, Title: t.Title, DependsOn: t.DependsOn, Status: piStatus[t.Status], where: name}
	if text, err := f.read(strings.TrimSuffix(name, ".json") + ".md"); err == nil {
		n.Description = string(text)
	}
	s.addTask(n)
	if len(s.Tasks) == before || t.Status != "in_progress" || t.ClaimedBy == "" {
		return
	}
	since, _ := stamp(t.ClaimedAt) // zero where it does not say
	s.addLock(Lock{Key: t.ID, Owner: t.ClaimedBy, Since: since, where: name}, now)
}

var piStatus = map[string]task.Status{
	"todo": task.Pending, "in_progress": task.InProgress, "done": task.Completed, "blocked": task.Blocked,
}

func parsePiTask(text []byte) (t piTask, err error) {
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&t); err != nil {
		return t, err
	}
	switch {
	case t.ID == "":
		return t, errors.New("has no id")
	case piStatus[t.Status] == "":
		return t, fmt.Errorf("status %q is not known", within(t.Status, 40))
	}
	return t, nil
}

// parsePiLock reads "pid@milliseconds".
func parsePiLock(text string) (l Lock, err error) {
	pid, at, ok := strings.Cut(strings.TrimSpace(text), "@")
	if !ok || pid == "" || strings.Trim(pid, "0123456789") != "" || len(pid) > 10 {
		return l, fmt.Errorf("%q is not pid@time", within(text, 40))
	}
	if l.Since, err = unix(at, time.Millisecond); err != nil {
		return l, err
	}
	l.Owner, l.Until = "pid-"+pid, l.Since.Add(piStale)
	return l, lock.CheckOwner(l.Owner)
}
