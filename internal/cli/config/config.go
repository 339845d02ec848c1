// Package config reads and changes what people configure: flags, environment,
// the project's file, the repository's tasklock.yaml and the user's file, in that
// order of precedence. It opens no store.
package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store/driver"
)

// Config is the configuration of one run: for each setting the first value of flags,
// environment, project file, the repository's tasklock.yaml, user file and default;
// and where that came from.
type Config struct {
	Place  place.Place // of the store where nobody names one
	values map[string]value

	Shared    *SharedStore // what the repository names for all its clones
	untrusted error        // why that may not be used, where it would count
	OfLease   bool         // the store is that of the lease which the command runs under
}

// value is one setting and where it comes from: "--store",
// "TASKLOCK_STORE", "/path/config.yaml:3" or "default".
type value struct {
	text   string
	origin string
	file   string // set where a file said it
	url    string // of a store: what text means, where that is known already
}

const (
	OriginDefault = "default"
	originFar     = "default for git"
)

// Input is what the configuration is made from.
type Input struct {
	Place place.Place
	Env   func(string) string // nil: empty
	Flags map[string]string   // what was given on the command line, by flag name without dashes
}

// Error says what is wrong with a configuration and where. Nothing was
// changed. File may also be the name of a variable; Line 0 means the whole.
type Error struct {
	File string
	Line int
	Msg  string
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
	}
	return e.File + ": " + e.Msg
}

// Problem names a command that works with the mistake still there.
func (e *Error) Problem(c problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.Setup, Code: "INVALID_CONFIG", Next: c.Line("config", "path")}
}

// Load reads the files, which need not exist, and lays environment and
// flags over them. One wrong value anywhere is an error, also where a stronger
// place overrides it: it would surprise on another day.
func Load(in Input) (*Config, error) {
	env := in.Env
	if env == nil {
		env = func(string) string { return "" }
	}
	c := defaults(in.Place)
	if err := c.addFile(UserFile(env)); err != nil {
		return nil, err
	}
	if err := c.addShared(in.Place); err != nil {
		return nil, err
	}
	if err := c.addFile(in.Place.Config()); err != nil {
		return nil, err
	}
	if err := c.addEnv(env); err != nil {
		return nil, err
	}
	if err := c.addFlags(in.Flags); err != nil {
		return nil, err
	}
	c.checkTrust(env)
	c.addTimes()
	return c, nil
}

// addTimes fits the defaults to the store.
func (c *Config) addTimes() {
	if !c.Far() {
		return
	}
	url, _ := c.Store()
	t := TimesOf(url)
	for key, ttl := range map[string]time.Duration{
		"locking.taskTimeout": t.Task, "locking.sectionTimeout": t.Section, "locking.jobTimeout": t.Job, "locking.pathTimeout": t.Path,
	} {
		if c.values[key].origin == OriginDefault {
			c.values[key] = value{text: term.Exact(ttl), origin: originFar}
		}
	}
}

// WithoutFiles is the configuration from flags and environment alone, for a command
// that must work although a file is wrong.
func WithoutFiles(in Input) *Config {
	c := defaults(in.Place)
	_ = c.addEnv(in.Env)
	_ = c.addFlags(in.Flags)
	return c
}

// Far reports whether the store is on a git remote.
func (c *Config) Far() bool {
	url, _ := c.Store()
	return IsGit(url)
}

// Times are how long leases in this store last by default.
func (c *Config) Times() lease.Times {
	url, _ := c.Store()
	t := TimesOf(url)
	t.Task, t.Section = c.duration("locking.taskTimeout"), c.duration("locking.sectionTimeout")
	t.Job, t.Path = c.duration("locking.jobTimeout"), c.duration("locking.pathTimeout")
	return t
}

func defaults(p place.Place) *Config {
	c := &Config{Place: p, values: map[string]value{}}
	for _, s := range Settings {
		c.values[s.Key] = value{text: s.def, origin: OriginDefault}
	}
	return c
}

func (c *Config) addFile(path string) error {
	if path == "" {
		return nil
	}
	doc, err := readFile(path)
	if err != nil {
		return err
	}
	for _, e := range doc {
		c.values[e.key] = value{text: e.text, origin: fmt.Sprintf("%s:%d", path, e.line), file: path}
	}
	return nil
}

func (c *Config) addEnv(env func(string) string) error {
	for _, s := range Settings {
		given := env(s.Env)
		if given == "" {
			continue
		}
		text, err := s.Norm(given)
		if err != nil {
			return &Error{File: s.Env, Msg: err.Error()}
		}
		c.values[s.Key] = value{text: text, origin: s.Env}
	}
	return nil
}

func (c *Config) addFlags(flags map[string]string) error {
	for _, s := range Settings {
		given, ok := flags[s.flag]
		if s.flag == "" || !ok {
			continue
		}
		text, err := s.Norm(given)
		if err != nil {
			return &lease.InvalidError{What: "--" + s.flag, Rule: err.Error()}
		}
		c.values[s.Key] = value{text: text, origin: "--" + s.flag}
	}
	return nil
}

// Text is a value as it was written.
func (c *Config) Text(key string) string { return c.values[key].text }

// Origin says where a value comes from, and which file has it, if one does.
func (c *Config) Origin(key string) (from, file string) {
	return c.values[key].origin, c.values[key].file
}

// Files are the files whose values count.
func (c *Config) Files() (names []string) {
	for _, s := range Settings {
		if f := c.values[s.Key].file; f != "" && !slices.Contains(names, f) {
			names = append(names, f)
		}
	}
	return names
}

// UseLease chooses the store of the lease that the command runs under.
func (c *Config) UseLease(url string) error {
	text, err := StoreValue(url)
	if err != nil {
		return &Error{File: LeaseEnv, Msg: err.Error()}
	}
	c.values["store"] = value{text: text, origin: LeaseEnv}
	c.untrusted, c.OfLease = nil, true
	c.addTimes()
	return nil
}

// Store returns the URL of the store. named tells that somebody chose it: then
// a store that is missing is an error, not an empty one.
func (c *Config) Store() (url string, named bool) {
	v := c.values["store"]
	switch {
	case v.text == "":
		return c.Place.URL(), false
	case c.untrusted != nil:
		return "untrusted:", true // which nobody can open
	case v.url != "":
		return v.url, true
	}
	if v.file == "" {
		return v.text, true
	}
	return Anchor(v.text, filepath.Dir(v.file)), true
}

// Where is Store, or why there is no store: nobody names one, and there is no place for
// one, or there are two.
func (c *Config) Where() (url string, named bool, err error) {
	if url, named = c.Store(); !named {
		return url, named, c.Place.Problem()
	}
	return url, named, c.untrusted
}

// Unmade says why a missing store may not be made here, nor count as empty: there is
// no place for it, or others have theirs on a branch.
func (c *Config) Unmade() error {
	if err := c.Unusable(); err != nil {
		return err
	}
	return c.Elsewhere()
}

// Unusable says why there is no place for a store of our own.
func (c *Config) Unusable() error {
	if _, named := c.Store(); named {
		return nil
	}
	return c.Place.Usable(c.AllowUnsafeFS())
}

// Elsewhere says that others have their store on a branch of a remote.
func (c *Config) Elsewhere() error {
	if _, named := c.Store(); named {
		return nil
	}
	if remote := c.Place.Shared(false); remote != "" {
		return &place.SharedError{Remote: remote}
	}
	return nil
}

// Why says why it is this store.
func (c *Config) Why() string {
	if v := c.values["store"]; v.text != "" {
		return "named by " + v.origin
	}
	return c.Place.Why()
}

// Users reports whether the store is the user's, which serves all folders that have
// none.
func (c *Config) Users() bool {
	_, named := c.Store()
	return !named && c.Place.Kind == place.User
}

// Anchor makes the path in a URL start at the folder of the file that holds
// it: the same file must mean the same store wherever a command is run.
func Anchor(url, dir string) string {
	scheme, path, ok := strings.Cut(url, ":")
	if !ok || len(scheme) == 1 { // a plain path, perhaps with a drive letter
		scheme, path = "", url
	}
	ours := scheme == "" || scheme == "sqlite" || scheme == "file" || scheme == "git" && strings.HasPrefix(path, ".")
	if !ours || path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "//") {
		return url
	}
	return strings.TrimPrefix(scheme+":"+filepath.Join(dir, path), ":")
}

// Reanchor makes a URL whose path starts at one folder mean the same in a file
// whose paths start at another; without that one the path is absolute.
func Reanchor(url, from, to string) string {
	full := Anchor(url, from)
	if full == url {
		return url
	}
	scheme, path, ok := strings.Cut(full, ":")
	if !ok || len(scheme) == 1 {
		scheme, path = "", full
	}
	if rel, err := filepath.Rel(to, path); err == nil && to != "" {
		path = filepath.ToSlash(rel)
		if scheme == "git" && !strings.HasPrefix(path, ".") {
			path = "./" + path
		}
	}
	return strings.TrimPrefix(scheme+":"+path, ":")
}

// FileOwner is the owner that a file names, if no flag or variable does.
func (c *Config) FileOwner() string {
	if v := c.values["owner"]; v.file != "" {
		return v.text
	}
	return ""
}

// WaitTimeout is how long acquire waits by default.
func (c *Config) WaitTimeout() time.Duration { return c.duration("locking.waitTimeout") }

// PollInterval is how often a waiter looks if nothing notifies it.
func (c *Config) PollInterval() time.Duration { return c.duration("locking.pollInterval") }

// StoreTimeout is how long a command waits for a server that does not answer.
// 0: the driver's default.
func (c *Config) StoreTimeout() time.Duration {
	if c.values["locking.storeTimeout"].text == "" {
		return 0
	}
	return c.duration("locking.storeTimeout")
}

// StrictHooks denies what a hook cannot judge.
func (c *Config) StrictHooks() bool { return c.values["hooks.strict"].text == "true" }

// AllowUnsafeFS accepts a file system with unreliable locks.
func (c *Config) AllowUnsafeFS() bool { return c.values["allowUnsafeFs"].text == "true" }

func (c *Config) duration(key string) time.Duration {
	d, err := term.ParseDuration(c.values[key].text)
	if err != nil {
		panic("configuration: " + key + " was not checked: " + err.Error())
	}
	return d
}

// UserFile is the file of the user; empty when the environment tells no
// place for it. A relative XDG_CONFIG_HOME counts as none, as its
// specification says.
func UserFile(env func(string) string) string {
	dir := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home := env("HOME")
		if home == "" {
			home, _ = os.UserHomeDir()
		}
		if !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "tasklock", "config.yaml")
}

// TimesOf are how long leases in a store last by default.
func TimesOf(url string) lease.Times { return lease.TimesOf(driver.Scheme(url)) }

// A command that runs under a lease may work in another folder with another store;
// there the key of its lease is free, or somebody else's. So run, the runner and the
// scheduler name their store in its environment, and commands about that lease ask
// there. All other commands ask the store of their folder.

// LeaseEnv names the store of the lease.
const LeaseEnv = "TASKLOCK_LEASE_STORE"

// Blame says which place of the configuration names a malformed store. A flag is
// bad input; anything else is a bad configuration.
func (c *Config) Blame(err error) error {
	var bad *lease.InvalidError
	v := c.values["store"]
	if v.origin == "--store" || !errors.As(err, &bad) && !errors.Is(err, driver.ErrInvalid) {
		return err
	}
	return &Error{File: v.origin, Msg: err.Error()}
}

// IsGit reports whether a URL names a store on a git remote.
func IsGit(url string) bool { return driver.Scheme(url) == "git" }
