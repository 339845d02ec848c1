package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// A setting is one key of the configuration. Its value travels as text in
// the one form that check returns.
type setting struct {
	key  string // as in the files, "." between the levels
	env  string
	flag string // empty: there is none of the same meaning
	def  string // empty: none
	note string // what it is for
	kind string // "text", "duration" or "bool": what YAML must hold
	norm func(string) (string, error)
}

// settings is everything that can be configured.
var settings = []setting{
	{"store", "TASKLOCK_STORE", "store", "", "where the records are kept", "text", storeValue},
	{"owner", "TASKLOCK_OWNER", "owner", "", "whom locks belong to", "text", ownerValue},
	{"allowUnsafeFs", "TASKLOCK_ALLOW_UNSAFE_FS", "allow-unsafe-fs", "false", "accept a file system whose locks cannot be trusted", "bool", boolValue},
	{"locking.taskTimeout", "TASKLOCK_TASK_TIMEOUT", "", exact(lease.DefaultTTL("x")), "a task's lock ends after so long without a sign of life", "duration", between(lease.MinTTL, lease.MaxTTL)},
	{"locking.sectionTimeout", "TASKLOCK_SECTION_TIMEOUT", "", exact(lease.DefaultTTL("section:x")), "the same for a section", "duration", between(lease.MinTTL, lease.MaxTTL)},
	{"locking.jobTimeout", "TASKLOCK_JOB_TIMEOUT", "", exact(lease.DefaultTTL("job:x")), "the same for a job", "duration", between(lease.MinTTL, lease.MaxTTL)},
	{"locking.pathTimeout", "TASKLOCK_PATH_TIMEOUT", "", exact(lease.DefaultTTL("path:x")), "the same for a path", "duration", between(lease.MinTTL, lease.MaxTTL)},
	{"locking.waitTimeout", "TASKLOCK_WAIT_TIMEOUT", "", "30m", "how long to wait for a lock", "duration", between(lease.MinTTL, lease.MaxTTL)},
	{"locking.pollInterval", "TASKLOCK_POLL_INTERVAL", "", "5s", "how often to look where nothing notifies", "duration", between(100*time.Millisecond, time.Hour)},
	{"locking.storeTimeout", "TASKLOCK_STORE_TIMEOUT", "timeout", "", "how long to wait for a server that does not answer (git 30s, PostgreSQL 10s, etcd 3s)", "duration", between(100*time.Millisecond, time.Hour)},
	{"hooks.strict", "TASKLOCK_HOOKS_STRICT", "", "false", "a hook that cannot find out whether an edit is allowed denies it", "bool", boolValue},
}

func findSetting(key string) (setting, bool) {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return settings[i], true
}

// keysBelow returns the keys directly below a level: "" for the top.
func keysBelow(level string) []string {
	var keys []string
	for _, s := range settings {
		rest, ok := strings.CutPrefix(s.key, level)
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

func storeValue(s string) (string, error) {
	if strings.TrimSpace(s) == "" || len(s) > lease.MaxText || strings.ContainsFunc(s, func(r rune) bool { return !visible(r) }) {
		return "", fmt.Errorf("must name a store, in visible characters")
	}
	if _, place, _ := strings.Cut(s, ":"); strings.HasPrefix(s, "~/") || strings.HasPrefix(place, "~/") {
		return "", fmt.Errorf("~ means home to a shell only; write the whole path")
	}
	return s, nil
}

func ownerValue(s string) (string, error) { return s, lease.CheckOwner(s) }

func boolValue(s string) (string, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return "", fmt.Errorf("must be true or false, not %q", short(s, 40))
	}
	return strconv.FormatBool(b), nil
}

func between(low, high time.Duration) func(string) (string, error) {
	return func(s string) (string, error) {
		d, err := parseDuration(s)
		if err != nil {
			return "", err
		}
		if d < low || d > high {
			return "", fmt.Errorf("%s must be between %s and %s", short(s, 40), exact(low), exact(high))
		}
		return exact(d), nil
	}
}

// didYouMean ends an error about an unknown key with the known one that is
// spelled most alike, on whatever level, if one is.
func didYouMean(key string) string {
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
