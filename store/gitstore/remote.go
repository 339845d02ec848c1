package gitstore

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/tasklock/tasklock/store/driver"
)

// An InvalidError is a malformed remote or branch. It is a driver.ErrInvalid.
type InvalidError struct {
	What string // "remote" or "branch", and its name
	Rule string
}

func (e *InvalidError) Error() string { return e.What + ": " + e.Rule }

// Is makes errors.Is(err, driver.ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == driver.ErrInvalid }

// A place is a remote that git may be asked to use.
type place struct {
	url     string        // what git is given
	show    string        // the same without credentials: for people, and the cache's name
	secrets []string      // never shown
	header  string        // authorization that the user's repository holds for this url
	login   *url.Userinfo // of http(s): not in url, which every user of the machine can see in the list of processes
}

var schemes = []string{"file", "ssh", "http", "https"}

var scpForm = lazily(`^(?:[A-Za-z0-9._~+-]+@)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):`)

// resolve finds out what a remote is: a URL, host:path, the name of a remote
// in the work tree at dir, or a folder. It refuses what git would take for an
// option or for a program to run.
func resolve(ctx context.Context, g *git, remote, dir string) (place, error) {
	if err := checkRemote(remote); err != nil {
		return place{}, err
	}
	if isURL(remote) {
		return newPlace(remote), nil
	}
	if remoteName().MatchString(remote) && remote != "." && remote != ".." {
		if p, ok, err := named(ctx, g, remote, dir); ok || err != nil {
			return p, err
		}
	}
	path := remote
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return place{}, err
	}
	if _, err := os.Stat(path); err != nil && !strings.ContainsAny(remote, `/\`) {
		return place{}, fmt.Errorf("%w: there is no remote %q in %s, and no such folder; see: git remote -v", driver.ErrInvalid, remote, dir)
	}
	return newPlace(path), nil
}

var remoteName = lazily(`^[A-Za-z0-9._][A-Za-z0-9._-]*$`)

// named looks a remote up in the user's repository. Reading a value runs
// nothing there; the value is checked like any other.
func named(ctx context.Context, g *git, name, dir string) (p place, ok bool, err error) {
	config := func(args ...string) string {
		out, err := g.run(ctx, append([]string{"-C", dir}, args...)...)
		if err != nil {
			return "" // not set, or no repository
		}
		return strings.TrimSuffix(out, "\n")
	}
	target := config("config", "--get", "remote."+name+".url")
	if target == "" {
		return place{}, false, ctx.Err()
	}
	if err := checkRemote(target); err != nil {
		return place{}, false, fmt.Errorf("remote %q of %s: %w", name, dir, err)
	}
	if !isURL(target) && !filepath.IsAbs(target) {
		target = filepath.Join(config("rev-parse", "--show-toplevel"), target)
	}
	p = newPlace(target)
	if strings.HasPrefix(target, "http") { // CI systems leave credentials here
		p.header = config("config", "--get-urlmatch", "http.extraHeader", p.url)
	}
	return p, true, nil
}

// isURL reports whether remote is a URL or host:path, and not a path.
func isURL(remote string) bool {
	if strings.Contains(remote, "://") {
		return true
	}
	drive := len(remote) > 1 && remote[1] == ':' && filepath.VolumeName(remote) != ""
	return scpForm().MatchString(remote) && !drive
}

func checkRemote(remote string) error {
	bad := func(rule string) error {
		return &InvalidError{What: fmt.Sprintf("remote %q", redactURL(clean(remote))), Rule: rule}
	}
	switch {
	case remote == "":
		return bad("must be a URL, host:path, the name of a remote, or a folder")
	case strings.HasPrefix(remote, "-"):
		return bad("must not begin with -")
	case strings.ContainsFunc(remote, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }):
		return bad("must be one line of text")
	}
	if before, _, ok := strings.Cut(remote, "::"); ok && !strings.ContainsAny(before, "[/") { // an IPv6 address has brackets
		return bad("must not name a helper program (::)")
	}
	scheme, rest, ok := strings.Cut(remote, "://")
	if !ok {
		if host, _, isSCP := strings.Cut(remote, ":"); isSCP && isURL(remote) {
			if _, h, user := strings.Cut(host, "@"); user && strings.HasPrefix(h, "-") || strings.HasPrefix(host, "-") {
				return bad("host must not begin with -")
			}
		}
		return nil
	}
	switch {
	case !slices.Contains(schemes, scheme):
		return bad("scheme must be one of " + strings.Join(schemes, ", "))
	case rest == "" || strings.HasPrefix(rest, "-") || strings.Contains(strings.SplitN(rest, "/", 2)[0], "@-"):
		return bad("has no host")
	}
	if u, err := url.Parse(remote); err != nil || u.Host == "" && scheme != "file" {
		return bad("is not a URL")
	}
	return nil
}

func newPlace(target string) place {
	p := place{url: target, show: redactURL(target)}
	u, err := url.Parse(target)
	if err != nil || u.User == nil || !strings.Contains(target, "://") {
		return p
	}
	if password, ok := u.User.Password(); ok {
		p.secrets = append(p.secrets, password, url.QueryEscape(password), url.PathEscape(password))
	}
	if strings.HasPrefix(u.Scheme, "http") {
		p.secrets = append(p.secrets, u.User.Username())
		p.login, u.User = u.User, nil
		p.url = u.String()
	}
	return p
}

// answer is a credential helper that knows the login of one URL.
const answer = `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$TASKLOCK_GIT_USER" "$TASKLOCK_GIT_PASSWORD"; }; f`

// logIn gives git the user name and the password of the URL, for this server
// only. If there is a password it does not ask the user's own helpers, so that
// they do not store it.
func (p place) logIn(g *git) {
	if p.login == nil {
		return
	}
	u, err := url.Parse(p.url)
	if err != nil {
		return
	}
	section := "credential." + u.Scheme + "://" + u.Host + "."
	g.configure(section+"username", p.login.Username())
	if password, ok := p.login.Password(); ok {
		g.env = append(g.env, "TASKLOCK_GIT_USER="+p.login.Username(), "TASKLOCK_GIT_PASSWORD="+password)
		g.configure(section+"helper", "")
		g.configure(section+"helper", answer)
	}
}

var (
	httpUser = lazily(`(?i)(https?://)[^\s/]*@`)
	password = lazily(`(?i)([a-z+]+://[^\s/:@]*):[^\s/]*@`)
)

// redactURL takes credentials out of every URL in a text. In http(s) the user
// name alone may be a token.
func redactURL(text string) string {
	return password().ReplaceAllString(httpUser().ReplaceAllString(text, "$1***@"), "$1:***@")
}

// clean makes foreign text harmless on a terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && r != ' ' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// DefaultBranch holds the records unless another is named.
const DefaultBranch = "tasklock"

// reserved branches belong to people's work or to forges.
var reserved = []string{"main", "master", "trunk", "develop", "HEAD", "FETCH_HEAD", "gh-pages"}

// checkBranch checks a name against git's rules for branches, and against
// branches that a store would ruin.
func checkBranch(name string) error {
	bad := func(rule string) error {
		return &InvalidError{What: fmt.Sprintf("branch %q", clean(name)), Rule: rule}
	}
	switch {
	case name == "" || len(name) > 200:
		return bad("must have 1 to 200 characters")
	case slices.ContainsFunc(reserved, func(r string) bool { return strings.EqualFold(r, name) }):
		return bad("is not for a store; use a branch of its own")
	case strings.HasPrefix(name, "refs/") || strings.HasPrefix(name, "heads/"):
		return bad("must be named without refs/heads/")
	case strings.HasPrefix(name, "-"), strings.HasPrefix(name, "/"), strings.HasSuffix(name, "/"), strings.HasSuffix(name, "."), name == "@":
		return bad("has a forbidden first or last character")
	case strings.Contains(name, ".."), strings.Contains(name, "@{"), strings.Contains(name, "//"):
		return bad("must not contain .., // or @{")
	case strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r == 0x7f || !unicode.IsPrint(r) || strings.ContainsRune(`~^:?*[\`, r)
	}):
		return bad(`must not contain spaces, control characters or any of ~^:?*[\`)
	}
	for _, part := range strings.Split(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return bad("no part may begin with a dot or end in .lock")
		}
	}
	return nil
}

// lazily compiles an expression when it is first used: most commands use none,
// and all of them would wait for it.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
