package legacy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// The branches and folders of aitasks.
const (
	AITasksLocks  = "aitask-locks" // branches
	AITasksData   = "aitask-data"  // of current versions; else the branch with the code
	AITasksIDs    = "aitask-ids"
	AITasksFolder = "aitasks/" // on the branch with the tasks

	aiArchive = AITasksFolder + "archived/"
	aiCounter = "next_id.txt"
)

var (
	aiFile  = lazily(`^t(\d+)_(.+)\.md$`)
	aiChild = lazily(`^t(\d+_\d+)_(.+)\.md$`) // in the folder of its parent; a name of a task may begin with a number too
	aiOther = lazily(`^t\d.*\.md$`)
	aiID    = lazily(`^t?(\d+(?:_\d+)?)$`)
	aiPack  = lazily(`\.(tar|tgz|zip|tar\.[a-z0-9]+)$`)
)

// aiHead is the header of a task.
type aiHead struct {
	Priority  string `yaml:"priority"`
	Depends   aiList `yaml:"depends"`
	Status    string `yaml:"status"`
	Labels    aiList `yaml:"labels"`
	Children  aiList `yaml:"children_to_implement"`
	Assigned  string `yaml:"assigned_to"`
	Created   string `yaml:"created_at"`
	Updated   string `yaml:"updated_at"`
	Completed string `yaml:"completed_at"`
}

// aiList is a list, or one value where a list should be.
type aiList []string

func (l *aiList) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*l = listed(n.Value)
	}
	for _, e := range n.Content {
		*l = append(*l, e.Value) // anything else is empty, and reported as not a task
	}
	return nil
}

// listed splits a list on one line.
func listed(text string) aiList {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("[], \"'", r) })
}

// AITasksFiles are the files of its branches by path, nil without such a branch;
// a file that is too long, or a link, has no content.
type AITasksFiles struct{ Tasks, Locks, IDs map[string][]byte }

// AITasks reads the tasks, the locks and the counter of aitasks. Locks there do
// not expire. Archived tasks arrive archived, with their locks, so that a cleanup
// finds them. Times are in now's zone.
func AITasks(f AITasksFiles, now time.Time) (s Source, err error) {
	for _, archived := range []bool{false, true} { // a task in both is not archived
		for _, name := range slices.Sorted(maps.Keys(f.Tasks)) {
			if strings.HasPrefix(name, AITasksFolder) && strings.HasPrefix(name, aiArchive) == archived {
				s.addAITask(name, f.Tasks[name], archived, now)
			}
		}
	}
	if s.aiLocks(f.Locks, now); f.Locks == nil && slices.ContainsFunc(s.Tasks, func(t Task) bool { return t.Status.Open() }) {
		s.warning(AITasksLocks, "no such branch here, so no locks were imported; if this is a clone, import from its remote instead (git remote get-url origin)")
	}
	s.implementing(now)
	if text, there := f.IDs[aiCounter]; there {
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || n < 1 || n > 1e15 {
			s.warning(aiCounter, "%q is not the next number", within(string(text), 40))
		} else {
			s.Next = n
		}
	}
	if s.empty() {
		return s, fmt.Errorf("%w: no task in %s on branch %s or the one with the code, no lock on branch %s", driver.ErrMissing, AITasksFolder, AITasksData, AITasksLocks)
	}
	return s, nil
}

// aiLocks reads the locks. A folder with the name of a lock is a lock too.
func (s *Source) aiLocks(files map[string][]byte, now time.Time) {
	const suffix = "_lock.yaml"
	last := ""
	for _, name := range slices.Sorted(maps.Keys(files)) {
		where, text := name, files[name]
		if i := strings.Index(name, suffix+"/"); i >= 0 {
			where, text = name[:i+len(suffix)], nil
		}
		stem, ok := strings.CutSuffix(path.Base(where), suffix)
		if !ok || where == last {
			continue
		}
		last = where
		l := parseAILock(text, stem, now.Location())
		l.where = where
		s.addLock(l, now)
	}
}

// implementing holds the tasks that somebody works on without a lock: older
// versions had none, and aitasks offers such a task to nobody.
func (s *Source) implementing(now time.Time) {
	for _, t := range slices.Concat(s.Tasks, s.seconds) {
		if t.Status != task.InProgress || t.Archived || s.locks[t.ID] {
			continue
		}
		l := Lock{Key: t.ID, Owner: t.by, Since: t.touched, where: t.where}
		l.doubt("%s, and it has no lock", cmp.Or(t.doubt, "its status there is Implementing"))
		s.addLock(l, now)
	}
}

func (s *Source) addAITask(name string, text []byte, archived bool, now time.Time) {
	form := aiFile()
	if parent := path.Base(path.Dir(name)); strings.HasPrefix(path.Base(name), parent+"_") {
		form = aiChild()
	}
	m := form.FindStringSubmatch(path.Base(name))
	switch {
	case m == nil && aiOther().MatchString(path.Base(name)):
		s.problem(name, "its name is not that of a task")
		return
	case m == nil && archived && aiPack().MatchString(name):
		s.problem(name, "the tasks in it are not read; unpack it there to take them over")
		return
	case m == nil:
		return // plans, drafts, indexes
	}
	t := Task{where: name, Past: task.Past{Archived: archived, New: task.New{ID: "t" + m[1], Title: strings.ReplaceAll(m[2], "_", " ")}}}
	for _, doubt := range t.parseAI(text, now.Location()) {
		s.warning(name, "%s: %s", t.ID, doubt)
	}
	if s.tasks[t.ID] {
		s.seconds = append(s.seconds, t)
	}
	s.addTask(t)
}

var aiStatus = map[string]task.Status{
	"": task.Pending, "ready": task.Pending, "editing": task.Pending, "postponed": task.Blocked,
	"implementing": task.InProgress, "done": task.Completed, "folded": task.Skipped,
}

var aiPriority = map[string]int{"": 0, "high": task.High, "medium": task.Medium, "low": task.Low}

// parseAI fills in what the text of a task says, and returns what is missing. An
// archived task may lack anything.
func (t *Task) parseAI(text []byte, zone *time.Location) (missing doubts) {
	head, body, err := frontMatter(asText(text))
	if err != nil && !t.Archived && text != nil {
		missing.doubt("%v", err)
	}
	t.Description = strings.TrimSpace(strings.TrimSpace(body) + "\n\n" + rest(head))
	var h aiHead
	if err := yaml.Unmarshal([]byte(head), &h); err != nil {
		missing.doubt("%v", err)
		h = aiLines(head)
	}
	if text == nil {
		missing.doubt("%v; taken over without its text", errTooLong)
		h.Status, t.doubt = "implementing", "its status there cannot be read"
	}
	var known bool
	if t.Status, known = aiStatus[strings.ToLower(strings.TrimSpace(h.Status))]; !known {
		missing.doubt("status %q is not known", within(h.Status, 40))
		t.Status, t.BlockedReason = task.Blocked, fmt.Sprintf("its status there was %q", within(h.Status, 40))
	}
	if t.Priority, known = aiPriority[strings.ToLower(strings.TrimSpace(h.Priority))]; !known {
		missing.doubt("priority %q is not known", within(h.Priority, 40))
	}
	for _, d := range append(h.Depends, h.Children...) { // a task with children waits for them
		m := aiID().FindStringSubmatch(strings.TrimSpace(d))
		if m == nil {
			missing.doubt("depends on %q, which is not a task", within(d, 40))
			continue
		}
		t.DependsOn = append(t.DependsOn, "t"+m[1])
	}
	t.Labels = h.Labels
	t.CreatedAt, _ = stampIn(h.Created, zone)
	t.CompletedAt, _ = stampIn(h.Completed, zone)
	t.touched, _ = stampIn(h.Updated, zone)
	if t.by = h.Assigned; t.by == "-" {
		t.by = ""
	}
	return missing
}

// aiLines reads a header that is not YAML, line by line. If one of two lines says
// that somebody works on the task, as after a bad merge, somebody does.
func aiLines(head string) aiHead {
	f := lines(head)
	for line := range strings.Lines(head) {
		if name, value, _ := strings.Cut(line, ":"); name == "status" && aiStatus[strings.ToLower(strings.TrimSpace(value))] == task.InProgress {
			f["status"] = value
		}
	}
	return aiHead{
		Status: f["status"], Priority: f["priority"], Assigned: f["assigned_to"], Depends: listed(f["depends"]), Labels: listed(f["labels"]),
		Children: listed(f["children_to_implement"]), Created: f["created_at"], Updated: f["updated_at"], Completed: f["completed_at"],
	}
}

var aiKnown = []string{"priority", "depends", "status", "labels", "children_to_implement", "created_at", "updated_at", "completed_at"}

// rest returns the lines of a header that tasklock has no field for.
func rest(head string) string {
	var out strings.Builder
	keep := false
	for line := range strings.Lines(head) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimLeft(name, " \t-#") == name {
			keep = !slices.Contains(aiKnown, name) && strings.Trim(value, " \t\n\"'[]") != ""
		}
		if keep && strings.TrimSpace(line) != "" {
			out.WriteString(strings.TrimRight(line, "\n") + "\n")
		}
	}
	return out.String()
}

var errTooLong = fmt.Errorf("is a link or a folder, or has more than %d bytes", maxFile)

// frontMatter splits a document: YAML between two lines of dashes, then text. A
// document without a header is all text.
func frontMatter(text string) (head, body string, err error) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", text, errors.New("does not begin with ---")
	}
	head, body, ok = strings.Cut("\n"+rest, "\n---\n")
	if !ok {
		if head, ok = strings.CutSuffix("\n"+rest, "\n---"); !ok {
			return "\n" + rest, text, errors.New("its head has no end")
		}
	}
	return head, body, nil
}

// lines reads "name: value", line by line. Lock files are not YAML: a value may be
// a dash, or begin with any character.
func lines(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		if _, twice := fields[name]; ok && !twice {
			fields[name] = value
		}
	}
	return fields
}

func parseAILock(text []byte, stem string, zone *time.Location) (l Lock) {
	l.Key = stem
	if m := aiID().FindStringSubmatch(stem); m != nil {
		l.Key = "t" + m[1]
	}
	if text == nil {
		l.doubt("%v", errTooLong)
	}
	f := lines(asText(text))
	if m := aiID().FindStringSubmatch(f["task_id"]); m == nil || "t"+m[1] != l.Key {
		l.doubt("it says that it is of the task %q", within(f["task_id"], 40))
		if m != nil && !aiID().MatchString(stem) {
			l.Key = "t" + m[1] // a lock on "t7" is called tt7_lock.yaml there
		}
	}
	if l.Owner = f["locked_by"]; l.Owner == "-" {
		l.Owner = ""
	}
	since, err := stampIn(f["locked_at"], zone)
	l.Since = l.at("locked_at", since, err)
	if l.Host = f["hostname"]; l.Host == "-" || l.Host == "unknown" {
		l.Host = ""
	}
	l.process(f["pid"])
	return l
}

// lazily compiles an expression when it is first used: most commands use none,
// and all of them would wait for it.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
