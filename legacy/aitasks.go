package legacy

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// Where aitasks keeps things.
const (
	AITasksLocks  = "aitask-locks" // a branch
	AITasksFolder = "aitasks/"     // on the branch with the code
)

var (
	aiFile = lazily(`^t(\d{1,9}(?:_\d{1,9})?)_(.+)\.md$`)
	aiLock = lazily(`^t(\d{1,9}(?:_\d{1,9})?)_lock\.yaml$`)
	aiID   = lazily(`^t?(\d{1,9}(?:_\d{1,9})?)$`)
)

// aiHead is what stands above the text of a task.
type aiHead struct {
	Priority string      `yaml:"priority"`
	Depends  []yaml.Node `yaml:"depends"`
	Status   string      `yaml:"status"`
	Labels   []string    `yaml:"labels"`
}

type aiLockFile struct {
	TaskID   yaml.Node `yaml:"task_id"`
	LockedBy string    `yaml:"locked_by"`
	LockedAt string    `yaml:"locked_at"`
	Hostname string    `yaml:"hostname"`
}

// AITasks reads the tasks and locks of aitasks, given the files of both
// branches by their paths. A lock there has no end; one on a task that is
// archived was left behind.
func AITasks(tasks, locks map[string][]byte, now time.Time) (s Source, err error) {
	if len(tasks) == 0 && len(locks) == 0 {
		return s, fmt.Errorf("%w: no files in %s and on branch %s", driver.ErrMissing, AITasksFolder, AITasksLocks)
	}
	archived := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		m := aiFile().FindStringSubmatch(path.Base(name))
		if m == nil || !strings.HasPrefix(name, AITasksFolder) {
			continue // plans, drafts, indexes
		}
		t, err := parseAITask(tasks[name])
		if err != nil {
			s.problem(name, "%v", err)
			continue
		}
		t.ID, t.Title, t.where = "t"+m[1], strings.ReplaceAll(m[2], "_", " "), name
		if strings.HasPrefix(name, AITasksFolder+"archived/") {
			archived[t.ID], t.Status = true, task.Completed
		}
		s.addTask(t)
	}
	for _, name := range slices.Sorted(maps.Keys(locks)) {
		m := aiLock().FindStringSubmatch(path.Base(name))
		if m == nil {
			continue
		}
		l, err := parseAILock(locks[name], m[1])
		if err != nil {
			s.problem(name, "%v", err)
			continue
		}
		if l.where = name; archived[l.Key] {
			s.Expired++
			continue
		}
		s.addLock(l, now)
	}
	return s, nil
}

var aiStatus = map[string]task.Status{
	"": task.Pending, "ready": task.Pending, "editing": task.Pending, "postponed": task.Blocked,
	"implementing": task.InProgress, "done": task.Completed, "folded": task.Skipped,
}

var aiPriority = map[string]int{"": 0, "high": task.High, "medium": task.Medium, "low": task.Low}

func parseAITask(text []byte) (t Task, err error) {
	if text == nil {
		return t, errTooLong
	}
	head, body, err := frontMatter(string(text))
	if err != nil {
		return t, err
	}
	var h aiHead
	if err := yaml.Unmarshal([]byte(head), &h); err != nil {
		return t, err
	}
	status, known := aiStatus[strings.ToLower(h.Status)]
	if !known {
		return t, fmt.Errorf("status %q is not known", within(h.Status, 40))
	}
	priority, known := aiPriority[strings.ToLower(h.Priority)]
	if !known {
		return t, fmt.Errorf("priority %q is not known", within(h.Priority, 40))
	}
	t = Task{Status: status, Priority: priority, Labels: h.Labels, Description: strings.TrimSpace(body)}
	for _, d := range h.Depends {
		m := aiID().FindStringSubmatch(strings.TrimSpace(d.Value))
		if m == nil {
			return t, fmt.Errorf("depends on %q, which is not a task", within(d.Value, 40))
		}
		t.DependsOn = append(t.DependsOn, "t"+m[1])
	}
	return t, nil
}

var errTooLong = fmt.Errorf("has more than %d bytes", maxFile)

// frontMatter takes a document apart: YAML between two lines of dashes, text.
func frontMatter(text string) (head, body string, err error) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", "", errors.New("does not begin with ---")
	}
	head, body, ok = strings.Cut("\n"+rest, "\n---\n")
	if !ok {
		if head, ok = strings.CutSuffix("\n"+rest, "\n---"); !ok {
			return "", "", errors.New("its head has no end")
		}
	}
	return head, body, nil
}

func parseAILock(text []byte, id string) (l Lock, err error) {
	if text == nil {
		return l, errTooLong
	}
	var f aiLockFile
	if err := yaml.Unmarshal(text, &f); err != nil {
		return l, err
	}
	if m := aiID().FindStringSubmatch(f.TaskID.Value); m == nil || m[1] != id {
		return l, fmt.Errorf("is the file of another task, %q", within(f.TaskID.Value, 40))
	}
	if f.LockedBy == "" {
		return l, errors.New("does not say who holds it")
	}
	since, err := stamp(f.LockedAt)
	if err != nil {
		return l, fmt.Errorf("locked_at: %w", err)
	}
	return Lock{Key: "t" + id, Owner: f.LockedBy, Since: since, Host: f.Hostname}, lock.CheckOwner(f.LockedBy)
}

// lazily compiles an expression when it is first used: most commands use none,
// and all of them would wait for it.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
