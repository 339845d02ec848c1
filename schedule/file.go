package schedule

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// MaxFile is how large a file of jobs may be.
const MaxFile = 8 << 20

// file is what a file of jobs may hold.
type file struct {
	Jobs map[string]fileJob `yaml:"jobs"`
}

type fileJob struct {
	Cron        string            `yaml:"cron"`
	Zone        string            `yaml:"tz"`
	Command     []string          `yaml:"command"`
	Dir         string            `yaml:"dir"`
	Env         map[string]string `yaml:"env"`
	Pool        string            `yaml:"pool"`
	TTL         duration          `yaml:"ttl"`
	MaxRun      duration          `yaml:"max-run"`
	Jitter      duration          `yaml:"jitter"`
	Misfire     Misfire           `yaml:"misfire"`
	Overlap     Overlap           `yaml:"overlap"`
	OnCrash     OnCrash           `yaml:"on-crash"`
	MaxAttempts int               `yaml:"max-attempts"`
	Keep        int               `yaml:"keep"`
	KeepFor     duration          `yaml:"keep-for"`
}

// duration is text with a unit: a bare number could mean anything.
type duration time.Duration

// UnmarshalYAML refuses numbers.
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v <= 0 {
		return fmt.Errorf("line %d: %q is not a duration like 30s, 5m or 1h", n.Line, n.Value)
	}
	*d = duration(v)
	return nil
}

// FileError says what is wrong with a file of jobs, and in which line.
type FileError struct {
	Line int // 0: not known
	Why  string
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.Why
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Why)
}

// ParseFile reads a YAML file of jobs. It refuses unknown keys.
func ParseFile(data []byte) ([]Job, error) {
	if len(data) > MaxFile {
		return nil, &FileError{Why: "the file has more than 8 MB"}
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, yamlError(err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var f file
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlError(err)
	}
	if err := dec.Decode(&file{}); !errors.Is(err, io.EOF) {
		return nil, &FileError{Why: "the file has more than one document"}
	}
	names, ok := jobNodes(&root)
	if !ok { // an empty file would remove all with --prune
		return nil, &FileError{Why: "needs the key jobs with a job for each name; {} is none"}
	}
	var jobs []Job
	for _, at := range names {
		in := f.Jobs[at.Value]
		j := Job{
			Name: at.Value, Cron: in.Cron, Zone: in.Zone, Command: in.Command, Dir: in.Dir, Env: in.Env, Pool: in.Pool,
			TTL: time.Duration(in.TTL), MaxRun: time.Duration(in.MaxRun), Jitter: time.Duration(in.Jitter),
			Misfire: in.Misfire, Overlap: in.Overlap, OnCrash: in.OnCrash, MaxAttempts: in.MaxAttempts,
			Keep: in.Keep, KeepFor: time.Duration(in.KeepFor),
		}
		if len(j.Command) == 0 {
			return nil, &FileError{at.Line, fmt.Sprintf("job %s: needs a command, as a list of words", j.Name)}
		}
		j, err := j.normal()
		if err != nil {
			return nil, &FileError{at.Line, err.Error()}
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// jobNodes are the names of the jobs, in the order of the file, if it has a map
// of them.
func jobNodes(root *yaml.Node) (names []*yaml.Node, ok bool) {
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil, false
	}
	top := root.Content[0].Content
	for i := 0; i+1 < len(top); i += 2 {
		if top[i].Value != "jobs" {
			continue
		}
		ok = top[i+1].Kind == yaml.MappingNode
		for k := 0; k+1 < len(top[i+1].Content); k += 2 {
			names = append(names, top[i+1].Content[k])
		}
	}
	return names, ok
}

// yamlError is the parser's first error, in our words.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var several *yaml.TypeError
	if errors.As(err, &several) {
		text = several.Errors[0]
	}
	out := &FileError{Why: text}
	if n, _ := fmt.Sscanf(text, "line %d:", &out.Line); n == 1 {
		_, out.Why, _ = strings.Cut(text, ": ")
	}
	if name, ok := strings.CutPrefix(out.Why, "field "); ok {
		name, _, _ = strings.Cut(name, " ")
		out.Why = fmt.Sprintf("unknown key %q", name)
	}
	if what, ok := strings.CutPrefix(out.Why, "cannot unmarshal "); ok {
		into := strings.LastIndex(what, " into ")
		_, value, _ := strings.Cut(what[:max(0, into)], " ") // behind its type
		out.Why = strings.TrimPrefix(value+": must be "+expected(what[into+1:]), ": ")
	}
	return out
}

// expected says which YAML a Go type expects.
func expected(into string) string {
	switch {
	case strings.HasSuffix(into, "[]string"):
		return "a list of words, like [./digest, --all]"
	case strings.HasSuffix(into, " int"):
		return "a whole number"
	case strings.Contains(into, "map[") || strings.Contains(into, "schedule.file"):
		return "a map, with a name and a colon before each value"
	}
	return "text"
}
