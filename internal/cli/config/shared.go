package config

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/internal/repo"
)

// The file [repo.SharedName] is tracked, so a stranger may have written it: it may
// say little, and the store that it names counts only if that can do no harm, or
// was trusted.

// branchHead begins the file of the same name on the branch of a store on a git
// remote, which somebody may have checked out.
const branchHead = "# What tasklock knows about this branch as a whole."

// maxShared bounds it.
const maxShared = 64 << 10

// mayShare is what the file may hold.
var mayShare = []string{"store", "locking.taskTimeout", "locking.sectionTimeout", "locking.jobTimeout", "locking.pathTimeout", "locking.waitTimeout", "locking.storeTimeout", "hooks.strict"}

// SharedFile is the file that counts in a folder: that of its worktree, or where
// its branch has none, or in .git, that of the main worktree. Empty: not in a
// repository, or in a bare one.
func SharedFile(p place.Place) string {
	top, home := p.Tree.Top, p.Tree.Home
	if top == p.Tree.Git {
		top = home
	}
	if p.Kind != place.Repository || top == p.Tree.Git {
		return ""
	}
	file := filepath.Join(top, repo.SharedName)
	if of := filepath.Join(home, repo.SharedName); !repo.Exists(file) && home != p.Tree.Git && repo.Exists(of) {
		return of
	}
	return file
}

// ReadShared returns the values of the file; none if it does not exist.
func ReadShared(path string) ([]entry, error) {
	fi, err := os.Lstat(path)
	switch {
	case err != nil && repo.Absent(err):
		return nil, nil
	case err == nil && fi.Mode()&fs.ModeSymlink != 0:
		return nil, &Error{File: path, Msg: "is a symbolic link, which is not followed; put the file itself there"}
	case err == nil && fi.Size() > maxShared:
		return nil, &Error{File: path, Msg: fmt.Sprintf("has %d bytes, at most %d", fi.Size(), maxShared)}
	}
	b, err := readSmall(path)
	if err != nil || bytes.HasPrefix(b, []byte(branchHead)) {
		return nil, err
	}
	doc, err := parseYAML(path, b)
	if err != nil {
		return nil, err
	}
	entries, err := entriesOf(path, doc)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch {
		case !slices.Contains(mayShare, e.key):
			return nil, &Error{File: path, Line: e.line, Msg: e.key + " is not allowed in this file, because others can change it; set it for yourself: tasklock config set --user"}
		case e.key == "store" && HasPassword(e.text):
			return nil, &Error{File: path, Line: e.line, Msg: "store: holds a password, which everybody who has the repository could read; name the store without it"}
		}
	}
	return entries, nil
}

// HasPassword reports whether a URL has a secret.
func HasPassword(s string) bool {
	if WithoutPassword(s) != s {
		return true
	}
	plain, err := url.QueryUnescape(s)
	return err != nil || strings.Contains(strings.ToLower(plain), "password")
}

// SharedStore is the store that the repository names for all its clones.
type SharedStore struct {
	File  string
	Value string // as it is written there
	url   string // what it means here
	home  string // of the repository
	Free  bool   // it can do no harm
}

// addShared reads the file of the repository.
func (c *Config) addShared(p place.Place) error {
	path := SharedFile(p)
	if path == "" {
		return nil
	}
	entries, err := ReadShared(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.key == "hooks.strict" && c.StrictHooks() {
			continue // who wants it for all repositories is not overruled
		}
		v := value{text: e.text, origin: fmt.Sprintf("%s:%d", path, e.line), file: path}
		if e.key == "store" {
			s := NewSharedStore(p, path, e.text)
			c.Shared, v.url = &s, s.url
		}
		c.values[e.key] = v
	}
	return nil
}

// NewSharedStore finds out what a value means. Paths count from the main
// worktree, so that all worktrees mean the same store.
func NewSharedStore(p place.Place, file, value string) SharedStore {
	s := SharedStore{File: file, Value: value, url: value, home: p.Tree.Home}
	scheme, path, ok := strings.Cut(value, ":")
	if !ok || len(scheme) == 1 {
		scheme, path = "sqlite", value
	}
	switch scheme {
	case "sqlite", "file":
		path = filepath.FromSlash(strings.TrimPrefix(path, "//"))
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.Tree.Home, path)
		}
		s.url = scheme + ":" + path
		s.Free = p.Tree.Home != p.Tree.Git && tame(p.Tree.Home, path)
	case "git":
		remote, _, _ := strings.Cut(path, "#")
		switch {
		case p.Tree.HasRemote(remote):
			s.Free = true
		case strings.HasPrefix(path, "."):
			s.url = "git:" + filepath.Join(p.Tree.Home, path)
		}
	}
	return s
}

// tame reports whether a path lies in a worktree by every name it could have:
// not in what git keeps there, and not behind a symbolic link.
func tame(home, path string) bool {
	rel, err := filepath.Rel(home, path)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return false
	}
	for part := range strings.SplitSeq(filepath.ToSlash(strings.ToLower(rel)), "/") {
		odd := strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' || r == '~' })
		if odd || strings.TrimRight(part, ".") == ".git" {
			return false
		}
	}
	real, err := repo.Real(path)
	return err == nil && real == filepath.Join(repo.Canonical(home), rel)
}

// means is what was looked at when the value was trusted: the same text may come
// to mean another place, behind a link.
func (s SharedStore) means() string {
	scheme, path, _ := strings.Cut(s.url, ":")
	if scheme == "git" && !filepath.IsAbs(path) {
		return s.url
	}
	if real, err := repo.Real(path); err == nil && slices.Contains([]string{"sqlite", "file", "git"}, scheme) {
		return scheme + ":" + real
	}
	return s.url
}

// UntrustedError: the repository names a store that the user has not trusted.
type UntrustedError struct {
	File, Value string
}

func (e *UntrustedError) Problem(c problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.Setup, Code: "UNTRUSTED_STORE", Next: c.Line("config", "trust")}
}

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("%s names the store %s; others can change that file, and you have not trusted this store yet; to trust it: tasklock config trust", e.File, WithoutPassword(e.Value))
}

// WithoutPassword hides the secrets of a URL. An unreadable URL may have them anywhere.
// Forges take a token for the user.
func WithoutPassword(s string) string {
	u, err := url.Parse(s)
	scheme, _, remote := strings.Cut(s, "://")
	switch {
	case err == nil && u.Opaque != "": // git:https://…
		outer, inner, _ := strings.Cut(s, ":")
		return outer + ":" + WithoutPassword(inner)
	case err != nil && remote:
		return scheme + "://…"
	case err != nil:
		return s
	case strings.Contains(u.RawQuery, "password"):
		pairs := strings.Split(u.RawQuery, "&")
		for i, pair := range pairs {
			if key, _, _ := strings.Cut(pair, "="); strings.Contains(key, "password") {
				pairs[i] = key + "=xxxxx"
			}
		}
		u.RawQuery = strings.Join(pairs, "&")
	case u.User == nil:
		return s
	case u.Scheme == "http" || u.Scheme == "https":
		u.User = url.User("xxxxx")
	}
	return u.Redacted()
}
