package lease

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits of a request.
const (
	MaxKey   = 512 // bytes of a key
	MaxOwner = 512 // bytes of an owner
	MaxText  = 4096
	MaxKeys  = 16 // keys of one lease: a commit guards six records for each
	MinTTL   = 100 * time.Millisecond
	MaxTTL   = 30 * 24 * time.Hour

	maxNamed   = 100 // keys that one release, renewal or break names
	maxMaxHold = 365 * 24 * time.Hour
)

// Kind is the kind of a key. A bare key is a task; only these prefixes exist, any
// other colon belongs to the name.
type Kind string

// The kinds of keys.
const (
	Task    Kind = "task"
	Section Kind = "section"
	Job     Kind = "job"
	Path    Kind = "path"
	Pool    Kind = "pool" // see pool.go
)

// prefixes are the kinds with a prefix.
var prefixes = []Kind{Section, Job, Path, Pool}

// Key is the key of that kind with a name.
func (k Kind) Key(name string) string {
	if k == Task {
		return name
	}
	return string(k) + ":" + name
}

// KindOf returns the kind of a key and the name without its prefix.
func KindOf(key string) (Kind, string) {
	if kind, name, ok := strings.Cut(key, ":"); ok && slices.Contains(prefixes, Kind(kind)) {
		return Kind(kind), name
	}
	return Task, key
}

// DefaultTTL is how long a lease on the key lasts without a heartbeat, unless its
// store is in git.
func DefaultTTL(key string) time.Duration { return DefaultTimes.Of(key) }

// Times are how long leases last without a heartbeat by default.
type Times struct {
	Task, Section, Job, Path time.Duration // of plain holders, by the kind of the key
	Attached                 time.Duration // holders that renew
	Ticket                   time.Duration // waiters
}

// The two tables. SlowTimes is for a store in git, where a heartbeat costs a push
// and clocks differ by minutes.
var (
	DefaultTimes = Times{Task: 60 * time.Minute, Section: 120 * time.Minute, Job: 5 * time.Minute, Path: 60 * time.Minute, Attached: 5 * time.Minute, Ticket: 30 * time.Second}
	SlowTimes    = Times{Task: 12 * time.Hour, Section: 12 * time.Hour, Job: time.Hour, Path: 12 * time.Hour, Attached: time.Hour, Ticket: 10 * time.Minute}
)

// TimesOf are the times of stores whose URL has this scheme.
func TimesOf(scheme string) Times {
	if scheme == "git" {
		return SlowTimes
	}
	return DefaultTimes
}

// Of is the time of plain holders of these keys: the longest, that of a task
// without keys.
func (t Times) Of(keys ...string) (longest time.Duration) {
	times := map[Kind]time.Duration{Task: t.Task, Section: t.Section, Job: t.Job, Path: t.Path, Pool: t.Task}
	for _, key := range keys {
		kind, _ := KindOf(key)
		longest = max(longest, times[kind])
	}
	return cmp.Or(longest, t.Task)
}

// placeKept is how long a lapsed ticket keeps its place.
const placeKept = 5 * time.Minute

// CheckKey normalises a key (Unicode NFC) or says which rule it breaks.
func CheckKey(key string) (string, error) {
	bad := func(rule string) (string, error) { return "", &InvalidError{What: "key " + quote(key), Rule: rule} }
	if !utf8.ValidString(key) {
		return bad("is not valid UTF-8")
	}
	key = norm.NFC.String(key)
	kind, name := KindOf(key)
	if like := meantKind(key); like != "" && like != key {
		return bad("did you mean " + like + "?")
	}
	switch {
	case name == "":
		return bad("must not be empty")
	case len(key) > MaxKey:
		return bad(fmt.Sprintf("has %d bytes, at most %d", len(key), MaxKey))
	case strings.HasPrefix(key, "-"):
		return bad("must not begin with '-'")
	case strings.TrimSpace(name) != name:
		return bad("must not begin or end with a space")
	}
	for _, r := range key {
		if !plain(r) {
			return bad(fmt.Sprintf("must not hold the character %U", r))
		}
	}
	if kind == Path {
		name = strings.TrimPrefix(name, "/") // an absolute path, of a file outside a repository
	}
	for _, part := range strings.Split(name, "/") {
		if part == "" || part == "." || part == ".." {
			return bad("must not have an empty part, '.' or '..' between slashes")
		}
	}
	if kind == Pool {
		if rule := checkSlot(key); rule != "" {
			return bad(rule)
		}
	}
	if kind == Path {
		if _, err := ParseGlob(name); err != nil {
			return "", err
		}
	}
	return key, nil
}

// meantKind returns a key that begins with a reserved prefix in another case, or
// with spaces around it, in its right form; "" for any other key.
func meantKind(key string) string {
	prefix, name, ok := strings.Cut(key, ":")
	kind := Kind(strings.ToLower(strings.TrimSpace(prefix)))
	name = strings.TrimSpace(name)
	if !ok || name == "" || !slices.Contains(prefixes, kind) {
		return ""
	}
	return kind.Key(name)
}

// plain reports whether r is visible and stays in its place: no control, no
// zero-width, no bidirectional or otherwise unprintable character.
func plain(r rune) bool {
	return unicode.IsPrint(r) && r != utf8.RuneError &&
		!unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// checkKeys normalises, sorts and deduplicates the keys of a lease.
func checkKeys(keys []string) ([]string, error) {
	out, err := namedKeys(keys)
	if err != nil {
		return nil, err
	}
	return out, checkCount(out)
}

func checkCount(keys []string) error {
	if len(keys) > MaxKeys {
		return &InvalidError{What: fmt.Sprintf("%d keys", len(keys)), Rule: fmt.Sprintf("a lease has at most %d keys", MaxKeys)}
	}
	return nil
}

// namedKeys is checkKeys for keys that may belong to several leases.
func namedKeys(keys []string) ([]string, error) {
	if len(keys) == 0 {
		return nil, &InvalidError{What: "key", Rule: "at least one is needed"}
	}
	out := make([]string, 0, len(keys))
	for _, k := range keys {
		k, err := CheckKey(k)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > maxNamed {
		return nil, &InvalidError{What: fmt.Sprintf("%d keys", len(out)), Rule: fmt.Sprintf("at most %d at once", maxNamed)}
	}
	return out, nil
}

// CheckOwner says which rule an owner's name breaks. Odd characters are stored as
// given; the code that prints them cleans them.
func CheckOwner(owner string) error {
	bad := func(rule string) error { return &InvalidError{What: "owner " + quote(owner), Rule: rule} }
	switch {
	case owner == "":
		return bad("must not be empty")
	case len(owner) > MaxOwner:
		return bad(fmt.Sprintf("has %d bytes, at most %d", len(owner), MaxOwner))
	case !utf8.ValidString(owner) || strings.ContainsRune(owner, 0):
		return bad("is not valid text")
	case slices.Contains(strings.Split(owner, "/"), ""):
		return bad("'/' means child of and must stand between two names")
	}
	return nil
}

// checkID says which rule a request id breaks: it becomes part of a record key.
func checkID(id string) error {
	if id == "" || len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r == '/' || r == ' ' || !plain(r) }) {
		return &InvalidError{What: "request id " + quote(id), Rule: "must have 1 to 128 visible characters and no '/'"}
	}
	return nil
}

func checkText(what, s string) error {
	switch {
	case len(s) > MaxText:
		return &InvalidError{What: what, Rule: fmt.Sprintf("has %d bytes, at most %d", len(s), MaxText)}
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return &InvalidError{What: what, Rule: "is not valid text"}
	}
	return nil
}

// CheckTTL says whether a ttl is within bounds.
func CheckTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return &InvalidError{What: "ttl " + ttl.String(), Rule: "must be between 100ms and 720h (30 days)"}
	}
	return nil
}

// descends reports whether owner is parent or one of its descendants.
func descends(owner, parent string) bool {
	return owner == parent || strings.HasPrefix(owner, parent+"/")
}

// leaseOwner is the owner part of a lease's full name "<owner>/<id>".
func leaseOwner(lease string) string {
	if i := strings.LastIndexByte(lease, '/'); i > 0 {
		return lease[:i]
	}
	return lease
}

// NewID returns a random name that is safe in keys and owners.
func NewID() string { return strings.ToLower(rand.Text()[:16]) }

func quote(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
