package legacy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// A Lock is held by someone who works in the source.
type Lock struct {
	Key      string
	Aliases  []string // further names of the key
	Owner    string
	Since    time.Time // zero: unknown
	Until    time.Time // zero: it has no end
	Host     string
	PID      int
	Worktree string

	where string
	doubts
}

// process reads a process number; a missing one is not a doubt.
func (l *Lock) process(text string) {
	if text = strings.TrimSpace(text); text == "" || text == "-" {
		return
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n <= 0 {
		l.doubt("pid %q is not a number", within(text, 40))
		return
	}
	l.PID = int(n)
}

// at returns a time, and notes a doubt if it could not be read.
func (l *Lock) at(what string, t time.Time, err error) time.Time {
	if err != nil {
		l.doubt("%s: %v", what, err)
	}
	return t
}

// object reads the texts and numbers of as much of a JSON object as it can.
func (l *Lock) object(text string) map[string]string {
	object, fields := map[string]any{}, map[string]string{}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	err := dec.Decode(&object)
	if _, more := dec.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("something follows the object")
	}
	if err != nil {
		l.doubt("%v", err)
		fields = torn(text)
	}
	for name, value := range object {
		switch v := value.(type) {
		case string:
			fields[name] = v
		case json.Number:
			fields[name] = v.String()
		case nil:
		default:
			l.doubt("%s is neither text nor a number", within(name, 40))
		}
	}
	return fields
}

// torn finds the texts and numbers in an object that is cut or damaged.
func torn(text string) map[string]string {
	fields := map[string]string{}
	for _, m := range pair().FindAllStringSubmatch(text, -1) {
		value, err := strconv.Unquote(m[2])
		if err != nil {
			value = strings.Trim(m[2], `"`)
		}
		if _, twice := fields[m[1]]; !twice {
			fields[m[1]] = value
		}
	}
	return fields
}

var pair = lazily(`"([a-zA-Z_]+)"\s*:\s*("(?:[^"\\]|\\.)*"|[0-9]+)`)

// addLock adds a lock unless it is certainly over.
func (s *Source) addLock(l Lock, now time.Time) {
	s.mendOwner(&l)
	s.mendKey(&l)
	if l.Until.After(now.Add(lease.MaxTTL)) {
		l.doubt("lasts until %s, which cannot be right", l.Until.Format(time.RFC3339))
		l.Until = time.Time{}
	}
	if l.Since.After(now.Add(24 * time.Hour)) {
		l.doubt("was taken at %s, which cannot be right", l.Since.Format(time.RFC3339))
		l.Since = time.Time{}
	}
	if !l.Until.IsZero() && l.Until.Before(l.Since) {
		l.doubt("it ends at %s, before it begins", l.Until.Format(time.RFC3339))
		l.Until = time.Time{}
	}
	for _, text := range []*string{&l.Worktree, &l.Host} {
		if fits := within(*text, lease.MaxText); fits != *text {
			l.doubt("%q is changed to what fits here", within(*text, 40))
			*text = fits
		}
	}
	over := !l.Until.IsZero() && !l.Until.After(now)
	switch {
	case over && len(l.doubts) == 0:
		s.Expired++
		return
	case over:
		l.Until = time.Time{}
	}
	if len(l.doubts) > 0 {
		s.warning(l.where, "the lock on %s is held by %s: %s", l.Key, l.Owner, strings.Join(l.doubts, "; "))
	}
	s.locks = with(s.locks, l.Key)
	s.Locks = append(s.Locks, l)
}

// mendOwner makes a valid owner; unknown:<file> if there is none.
func (s *Source) mendOwner(l *Lock) {
	if l.Owner != "" && lease.CheckOwner(l.Owner) == nil {
		return
	}
	if name := ownerName(l.Owner); name != "" {
		l.doubt("its owner is called %s there", strconv.Quote(within(l.Owner, 60)))
		l.Owner = name
		return
	}
	l.doubt("it does not say who holds it")
	l.Owner = "unknown:" + ownerName(strings.ReplaceAll(path.Base(l.where), "/", "-"))
}

func ownerName(text string) string {
	var parts []string
	for _, part := range strings.Split(within(text, lease.MaxOwner-len("unknown:")), "/") {
		if part != "" && part != "�" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

// mendKey makes a valid key that no other lock has.
func (s *Source) mendKey(l *Lock) {
	given := l.Key
	key, err := lease.CheckKey(given)
	if err != nil {
		key = mended(given)
	}
	if s.locks[key] {
		sum := sha256.Sum256([]byte(given + "\x00" + l.where))
		key = within(key, lease.MaxKey-10) + "~" + hex.EncodeToString(sum[:4])
	}
	if key != given {
		l.doubt("its key is %s there", strconv.Quote(within(given, 60)))
	}
	l.Key = key
}

func mended(text string) string {
	plain := strings.Map(func(r rune) rune {
		if _, err := lease.CheckKey("x" + string(r) + "x"); err != nil {
			return '_'
		}
		return r
	}, within(text, lease.MaxKey/2))
	var parts []string
	for _, part := range strings.Split(plain, "/") {
		if part = strings.Trim(part, " "); part != "" && part != "." && part != ".." {
			parts = append(parts, part)
		}
	}
	key := strings.TrimLeft(strings.Join(parts, "/"), "- ")
	if key, err := lease.CheckKey(key); err == nil {
		return key
	}
	if key, err := lease.CheckKey("lock-" + strings.ReplaceAll(key, ":", "_")); err == nil {
		return key
	}
	sum := sha256.Sum256([]byte(text))
	return "lock-" + hex.EncodeToString(sum[:8])
}
