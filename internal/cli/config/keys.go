package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
)

// A Setting is one key of the configuration. Its value travels as text in
// the one form that check returns.
type Setting struct {
	Key  string // as in the files, "." between the levels
	Env  string
	flag string // empty: there is none of the same meaning
	def  string // empty: none
	Note string // what it is for
	kind string // "text", "duration" or "bool": what YAML must hold
	Norm func(string) (string, error)
}

// Settings is everything that can be configured.
var Settings = []Setting{
	{"store", "TASKLOCK_STORE", "store", "", "the URL of the store", "text", StoreValue},
	{"owner", "TASKLOCK_OWNER", "owner", "", "your owner", "text", ownerValue},
	{"allowUnsafeFs", "TASKLOCK_ALLOW_UNSAFE_FS", "allow-unsafe-fs", "false", "accept a file system with unreliable locks", "bool", boolValue},
	{"locking.taskTimeout", "TASKLOCK_TASK_TIMEOUT", "", term.Exact(lease.DefaultTTL("x")), "a task's lock expires after this long without a heartbeat", "duration", between(lease.MinTTL, lease.MaxTTL)},
	{"locking.sectionTimeout", "TASKLOCK_SECTION_TIMEOUT", "", term.Exact(lease.DefaultTTL("section:x")), "the same for a section", "duration", between(lease.MinTTL, lease.MaxTTL)},
	{"locking.jobTimeout", "TASKLOCK_JOB_TIMEOUT", "", term.Exact(lease.DefaultTTL("job:x")), "the same for a job", "duration", between(lease.MinTTL, lease.MaxTTL)},
	{"locking.pathTimeout", "TASKLOCK_PATH_TIMEOUT", "", term.Exact(lease.DefaultTTL("path:x")), "the same for a path", "duration", between(lease.MinTTL, lease.MaxTTL)},
	{"locking.waitTimeout", "TASKLOCK_WAIT_TIMEOUT", "", "30m", "how long to wait for a lock", "duration", between(lease.MinTTL, lease.MaxTTL)},
	{"locking.pollInterval", "TASKLOCK_POLL_INTERVAL", "", "5s", "how often to look if the store does not notify", "duration", between(100*time.Millisecond, time.Hour)},
	{"locking.storeTimeout", "TASKLOCK_STORE_TIMEOUT", "timeout", "", "how long to wait for a silent server (git 30s, PostgreSQL and https 10s, etcd 3s)", "duration", between(100*time.Millisecond, time.Hour)},
	{"hooks.strict", "TASKLOCK_HOOKS_STRICT", "", "false", "hooks deny what they cannot judge", "bool", boolValue},
}

// Find returns the setting of a key.
func Find(key string) (Setting, bool) {
	i := slices.IndexFunc(Settings, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return Settings[i], true
}

// keysBelow returns the keys directly below a level: "" for the top.
func keysBelow(level string) []string {
	var keys []string
	for _, s := range Settings {
		rest, ok := strings.CutPrefix(s.Key, level)
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if !slices.Contains(keys, level+name) {
			keys = append(keys, level+name)
		}
	}
	return keys
}

// StoreValue checks the name of a store.
func StoreValue(s string) (string, error) {
	if strings.TrimSpace(s) == "" || len(s) > lease.MaxText || strings.ContainsFunc(s, func(r rune) bool { return !term.Visible(r) }) {
		return "", fmt.Errorf("must name a store, in visible characters")
	}
	if _, place, _ := strings.Cut(s, ":"); strings.HasPrefix(s, "~/") || strings.HasPrefix(place, "~/") {
		return "", fmt.Errorf("only a shell understands ~; write the absolute path")
	}
	return s, nil
}

func ownerValue(s string) (string, error) { return s, lease.CheckOwner(s) }

func boolValue(s string) (string, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return "", fmt.Errorf("must be true or false, not %q", term.Short(s, 40))
	}
	return strconv.FormatBool(b), nil
}

func between(low, high time.Duration) func(string) (string, error) {
	return func(s string) (string, error) {
		d, err := term.ParseDuration(s)
		if err != nil {
			return "", err
		}
		if d < low || d > high {
			return "", fmt.Errorf("%s must be between %s and %s", term.Short(s, 40), term.Exact(low), term.Exact(high))
		}
		return term.Exact(d), nil
	}
}

// DidYouMean ends an error about an unknown key with the known one that is
// spelled most alike, on whatever level, if one is.
func DidYouMean(key string) string {
	name := key[strings.LastIndexByte(key, '.')+1:]
	best, distance := "", 1+len(name)/3
	for _, known := range slices.Concat(keysBelow(""), keysBelow("locking."), keysBelow("hooks.")) {
		d := edits(strings.ToLower(name), strings.ToLower(known[strings.LastIndexByte(known, '.')+1:]))
		if d < distance {
			best, distance = known, d
		}
	}
	if best == "" {
		return ""
	}
	return ", did you mean " + best + "?"
}

// edits counts the characters to insert, delete or replace between a and b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// SettingView is a setting for people and programs.
type SettingView struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// View is the value of a setting, and its origin.
func (c *Config) View(s Setting) SettingView {
	v := c.values[s.Key]
	if s.Key == "store" {
		if v.text, _ = c.Store(); c.untrusted != nil {
			return SettingView{s.Key, c.Shared.Value, v.origin + " (not trusted: tasklock config trust)"}
		}
	}
	return SettingView{s.Key, v.text, v.origin}
}
