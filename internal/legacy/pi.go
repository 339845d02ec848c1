package legacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// piStale is the age at which a lock file counts as abandoned.
const piStale = 10 * time.Second

// piTask is a task from its file, or from the events of a session.
type piTask struct {
	ID            string     `json:"id"`
	Title         string     `json:"title"`
	Status        string     `json:"status"`
	DependsOn     []string   `json:"depends_on"`
	ClaimedBy     string     `json:"claimed_by"`
	ClaimedAt     string     `json:"claimed_at"`
	BlockedReason string     `json:"blocked_reason"`
	Summary       string     `json:"summary"`
	Evidence      piEvidence `json:"evidence"`
	CreatedAt     string     `json:"created_at"`
	CreatedBy     string     `json:"created_by"`
	CompletedAt   string     `json:"completed_at"`
	CompletedBy   string     `json:"completed_by"`
	ProgressLog   []piNote   `json:"progress_log"`

	content string // its text, if no file has one
	claimed bool   // perhaps without a name
	where   string
	doubts
}

type piEvidence struct {
	Commits []string `json:"commits"`
	Tests   []string `json:"tests"`
	PRs     []string `json:"prs"`
}

type piNote struct {
	Timestamp string `json:"timestamp"`
	Agent     string `json:"agent"`
	Message   string `json:"message"`
}

// Pi reads the tasks and locks of the swarm of pi-messenger. dir is the project,
// or the folder with tasks and locks. Older versions keep one file for each task,
// newer ones the events of each session. A claim there does not expire; a process
// holds a lock only during a change.
func Pi(dir string, now time.Time) (Source, error) {
	return inFolder(dir, func(f *folder) (Source, error) { return readPi(f, now) })
}

func readPi(f *folder, now time.Time) (s Source, err error) {
	sessions, found := map[string][]piTask{}, false
	var locks []string
	for _, place := range []string{".pi/messenger/swarm", ".pi/messenger", "."} {
		if found && place == "." {
			break
		}
		dir := path.Join(place, "tasks")
		files := f.list(dir, ".json")
		for _, channel := range f.list(dir, "") {
			if f.has(channel) {
				files = append(files, f.list(channel, ".json")...)
			}
		}
		for _, name := range files {
			session := "swarm"
			if in := path.Dir(name); in != dir {
				session = path.Base(in) // a channel counts its own tasks
			}
			sessions[session] = append(sessions[session], readPiFile(f, name))
		}
		logs := f.list(dir, ".jsonl")
		for _, name := range logs {
			session := strings.TrimSuffix(path.Base(name), ".jsonl")
			list, err := s.piSession(f, name)
			if err != nil {
				return s, fmt.Errorf("%s: %w", name, err)
			}
			sessions[session] = append(sessions[session], list...)
		}
		names := f.list(path.Join(place, "locks"), ".lock")
		locks = append(locks, names...)
		found = found || len(files)+len(logs)+len(names) > 0 || place != "." && (f.has(dir) || f.has(path.Join(place, "locks")))
	}
	switch {
	case f.err != nil:
		return s, f.err
	case !found:
		return s, fmt.Errorf("%w: no tasks (*.json, *.jsonl) or locks (*.lock) in .pi/messenger, nor in folders tasks and locks", driver.ErrMissing)
	}
	s.addSessions(f, sessions, now)
	for _, name := range locks {
		id := strings.TrimSuffix(path.Base(name), ".lock")
		before := len(s.Locks)
		s.piLock(f, name, id, now)
		for _, t := range s.Tasks {
			if len(s.Locks) == before {
				break
			}
			if session, _ := strings.CutSuffix(t.ID, "/"+id); session != t.ID && len(sessions[session]) > 0 {
				s.piLock(f, name, t.ID, now) // the file does not say which task it is
			}
		}
	}
	return s, nil
}

// readPiFile reads as much of a task's file as it can. If it does not show whether
// the task is claimed, somebody unknown has claimed it.
func readPiFile(f *folder, name string) (t piTask) {
	text, err := f.read(name)
	if err == nil {
		err = json.Unmarshal([]byte(text), &t)
	}
	if err != nil {
		fields := torn(text)
		t.doubt("%v", err)
		t.Title, t.Status = fields["title"], ""
		t.ClaimedBy, t.ClaimedAt = fields["claimed_by"], fields["claimed_at"]
	}
	t.where = name
	if id := strings.TrimSuffix(path.Base(name), ".json"); t.ID != id {
		if err == nil {
			t.doubt("the file says that it is the task %q", within(t.ID, 60))
		}
		t.ID = id
	}
	t.claimed = t.ClaimedBy != "" || piStatus[t.Status] == "" || t.Status == "in_progress"
	return t
}

// addSessions adds the tasks of all sessions. Each session counts its tasks from
// one: an id that several of them have becomes <session>/<id>.
func (s *Source) addSessions(f *folder, sessions map[string][]piTask, now time.Time) {
	count := map[string]int{}
	for _, list := range sessions {
		for _, t := range list {
			count[t.ID]++
		}
	}
	for _, session := range slices.Sorted(maps.Keys(sessions)) {
		ids := map[string]string{}
		for _, t := range sessions[session] {
			if ids[t.ID] = t.ID; count[t.ID] > 1 && len(sessions) > 1 {
				ids[t.ID] = session + "/" + t.ID
			}
		}
		for _, t := range sessions[session] {
			for i, on := range t.DependsOn {
				if ids[on] != "" {
					t.DependsOn[i] = ids[on]
				}
			}
			n := t.task(f)
			if n.ID = ids[t.ID]; n.ID != t.ID {
				n.was = t.ID
				s.warning(t.where, "the task is called %s here, %s there", within(n.ID, 60), within(t.ID, 60))
			}
			s.addPi(t, n, now)
		}
	}
}

func (s *Source) addPi(t piTask, n Task, now time.Time) {
	if piStatus[t.Status] == "" {
		n.Status, n.BlockedReason = task.Blocked, fmt.Sprintf("its status there was %q", within(t.Status, 40))
		t.doubt("its status %q is not known", within(t.Status, 40))
	}
	before := len(s.Tasks)
	s.addTask(n)
	if open := piStatus[t.Status] == "" || n.Status.Open() && !n.Archived; t.claimed && open {
		since, _ := stamp(t.ClaimedAt) // zero if it does not say
		if !s.locks[n.ID] {
			s.addLock(Lock{Key: n.ID, Owner: t.ClaimedBy, Since: since, where: t.where, doubts: t.doubts}, now)
			return
		}
	}
	if len(t.doubts) > 0 && len(s.Tasks) > before {
		s.warning(t.where, "%s: %s", n.ID, strings.Join(t.doubts, "; "))
	}
}

var piStatus = map[string]task.Status{
	"todo": task.Pending, "in_progress": task.InProgress, "done": task.Completed, "blocked": task.Blocked, "archived": task.Completed,
}

// task is the task in our form.
func (t *piTask) task(f *folder) Task {
	n := Task{where: t.where, Past: task.Past{
		New: task.New{ID: t.ID, Title: t.Title, DependsOn: t.DependsOn, Description: t.content}, Status: piStatus[t.Status],
		BlockedReason: t.BlockedReason, CompletedBy: t.CompletedBy, Archived: t.Status == "archived",
	}}
	n.CreatedAt, _ = stamp(t.CreatedAt)
	n.CompletedAt, _ = stamp(t.CompletedAt)
	file := strings.TrimSuffix(t.where, ".json") + ".md"
	if session, ok := strings.CutSuffix(t.where, ".jsonl"); ok {
		file = path.Join(session, t.ID+".md")
	}
	if text, err := f.read(file); err == nil {
		n.Description = text
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.doubt("its text, %s: %v", file, err)
	}
	if t.CreatedBy != "" {
		n.Description = strings.TrimSpace(n.Description + "\n\ncreated_by: " + t.CreatedBy)
	}
	if e := t.Evidence; t.Summary != "" || len(e.Commits)+len(e.Tests)+len(e.PRs) > 0 {
		n.Result = &task.Result{Summary: t.Summary, Commits: e.Commits, Tests: e.Tests}
		if len(e.PRs) > 0 {
			n.Result.Summary = strings.TrimSpace(n.Result.Summary + "\nPull requests: " + strings.Join(e.PRs, ", "))
		}
	}
	if notes := t.ProgressLog; len(notes) > 0 {
		n.Progress = notes[len(notes)-1].Message
		if len(notes) > 1 {
			n.Description = strings.TrimSpace(n.Description) + "\n\nProgress:\n"
			for _, note := range notes {
				n.Description += fmt.Sprintf("- %s %s: %s\n", note.Timestamp, note.Agent, note.Message)
			}
		}
	}
	return n
}

// piLock reads the lock file of a task: "pid@milliseconds".
func (s *Source) piLock(f *folder, name, id string, now time.Time) {
	l := Lock{Key: id, where: name}
	if s.locks[l.Key] {
		return // its owner is changing it
	}
	text, err := f.read(name)
	switch {
	case err != nil && f.gone(name):
		return
	case err != nil:
		l.doubt("%v", err)
	}
	pid, at, _ := strings.Cut(strings.TrimSpace(text), "@")
	if l.process(pid); l.PID > 0 {
		l.Owner = fmt.Sprintf("pid-%d", l.PID)
	}
	since, err := unix(at, time.Millisecond)
	if l.Since = l.at("the time", since, err); err == nil {
		l.Until = since.Add(piStale)
	}
	s.addLock(l, now)
}
