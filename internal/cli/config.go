package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store/driver"
)

// Config is what a run of the command is configured to do: for each setting
// the value of the first place that has one of flags, environment, project
// file, the repository's tasklock.yaml, user file, default; and which place that
// was.
type Config struct {
	place  place.Place // of the store where nobody names one
	values map[string]configValue

	shared    *sharedStore // what the repository names for all its clones
	untrusted error        // why that may not be used, where it would count
	ofLease   bool         // the store is that of the lease which the command runs under
}

// configValue is one setting and where it comes from: "--store",
// "TASKLOCK_STORE", "/path/config.yaml:3" or "default".
type configValue struct {
	text   string
	origin string
	file   string // set where a file said it
	url    string // of a store: what text means, where that is known already
}

const (
	originDefault = "default"
	originFar     = "default for git"
)

// configInput is what the configuration is made from.
type configInput struct {
	Place place.Place
	Env   func(string) string // nil: empty
	Flags map[string]string   // what was given on the command line, by flag name without dashes
}

// ConfigError says what is wrong with a configuration and where. Nothing was
// changed. File may also be the name of a variable; Line 0 means the whole.
type ConfigError struct {
	File string
	Line int
	Msg  string
}

func (e *ConfigError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
	}
	return e.File + ": " + e.Msg
}

// Problem names a command that works with the mistake still there.
func (e *ConfigError) Problem(c problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.Setup, Code: "INVALID_CONFIG", Next: c.Line("config", "path")}
}

// loadConfig reads the files, which need not exist, and lays environment and
// flags over them. One wrong value anywhere is an error, also where a stronger
// place overrides it: it would surprise on another day.
func loadConfig(in configInput) (*Config, error) {
	env := in.Env
	if env == nil {
		env = func(string) string { return "" }
	}
	c := defaultConfig(in.Place)
	if err := c.addFile(userConfigFile(env)); err != nil {
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
	if !c.far() {
		return
	}
	for key, ttl := range map[string]time.Duration{
		"locking.taskTimeout": lease.Far.Task, "locking.sectionTimeout": lease.Far.Section, "locking.jobTimeout": lease.Far.Job,
		"locking.pathTimeout": lease.Far.Path,
	} {
		if c.values[key].origin == originDefault {
			c.values[key] = configValue{text: exact(ttl), origin: originFar}
		}
	}
}

// withoutFiles is the configuration as far as flags and environment say it, for
// who must go on although a file is wrong.
func withoutFiles(in configInput) *Config {
	c := defaultConfig(in.Place)
	_ = c.addEnv(in.Env)
	_ = c.addFlags(in.Flags)
	return c
}

// far reports a store on a git remote.
func (c *Config) far() bool {
	url, _ := c.Store()
	return isGit(url)
}

// Times are how long leases in this store last where nobody says otherwise.
func (c *Config) Times() lease.Times {
	url, _ := c.Store()
	t := timesOf(url)
	t.Task, t.Section, t.Job, t.Path = c.TTL(lease.Task), c.TTL(lease.Section), c.TTL(lease.Job), c.TTL(lease.Path)
	return t
}

func defaultConfig(p place.Place) *Config {
	c := &Config{place: p, values: map[string]configValue{}}
	for _, s := range settings {
		c.values[s.key] = configValue{text: s.def, origin: originDefault}
	}
	return c
}

func (c *Config) addFile(path string) error {
	if path == "" {
		return nil
	}
	doc, err := readConfigFile(path)
	if err != nil {
		return err
	}
	for _, e := range doc {
		c.values[e.key] = configValue{text: e.text, origin: fmt.Sprintf("%s:%d", path, e.line), file: path}
	}
	return nil
}

func (c *Config) addEnv(env func(string) string) error {
	for _, s := range settings {
		given := env(s.env)
		if given == "" {
			continue
		}
		text, err := s.norm(given)
		if err != nil {
			return &ConfigError{File: s.env, Msg: err.Error()}
		}
		c.values[s.key] = configValue{text: text, origin: s.env}
	}
	return nil
}

func (c *Config) addFlags(flags map[string]string) error {
	for _, s := range settings {
		given, ok := flags[s.flag]
		if s.flag == "" || !ok {
			continue
		}
		text, err := s.norm(given)
		if err != nil {
			return &lease.InvalidError{What: "--" + s.flag, Rule: err.Error()}
		}
		c.values[s.key] = configValue{text: text, origin: "--" + s.flag}
	}
	return nil
}

// origin tells where a value comes from, and which file holds it, if one does.
func (c *Config) origin(key string) (from, file string) {
	return c.values[key].origin, c.values[key].file
}

// files are those that say something that counts.
func (c *Config) files() (names []string) {
	for _, s := range settings {
		if f := c.values[s.key].file; f != "" && !slices.Contains(names, f) {
			names = append(names, f)
		}
	}
	return names
}

// useLease makes the store that of the lease which the command runs under.
func (c *Config) useLease(url string) error {
	text, err := storeValue(url)
	if err != nil {
		return &ConfigError{File: leaseStoreEnv, Msg: err.Error()}
	}
	c.values["store"] = configValue{text: text, origin: leaseStoreEnv}
	c.untrusted, c.ofLease = nil, true
	c.addTimes()
	return nil
}

// Store returns the URL of the store. named tells that somebody chose it: then
// a store that is missing is an error, not an empty one.
func (c *Config) Store() (url string, named bool) {
	v := c.values["store"]
	switch {
	case v.text == "":
		return c.place.URL(), false
	case c.untrusted != nil:
		return "untrusted:", true // which nobody can open
	case v.url != "":
		return v.url, true
	}
	if v.file == "" {
		return v.text, true
	}
	return anchor(v.text, filepath.Dir(v.file)), true
}

// Where is Store, or why no store can be meant: nobody names one, and there is
// no place for one, or there are two.
func (c *Config) Where() (url string, named bool, err error) {
	if url, named = c.Store(); !named {
		return url, named, c.place.Problem()
	}
	return url, named, c.untrusted
}

// Why tells which choice the store is.
func (c *Config) Why() string {
	if v := c.values["store"]; v.text != "" {
		return "named by " + v.origin
	}
	return c.place.Why()
}

// users reports whether the store is the one of the user, which serves all
// folders that have none.
func (c *Config) users() bool {
	_, named := c.Store()
	return !named && c.place.Kind == place.User
}

// anchor makes the path in a URL start at the folder of the file that holds
// it: the same file must mean the same store wherever a command is run.
func anchor(url, dir string) string {
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

// reanchor makes a URL whose path starts at one folder mean the same in a file
// whose paths start at another; without that one the path is absolute.
func reanchor(url, from, to string) string {
	full := anchor(url, from)
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

// Owner is the owner that flag, environment or a file names; empty if none.
func (c *Config) Owner() string { return c.values["owner"].text }

// fileOwner is the owner that a file names, where nothing stronger does.
func (c *Config) fileOwner() string {
	if v := c.values["owner"]; v.file != "" {
		return v.text
	}
	return ""
}

// TTL is how long a lock on a key of the kind lasts without a sign of life.
func (c *Config) TTL(kind lease.Kind) time.Duration {
	switch kind {
	case lease.Section:
		return c.duration("locking.sectionTimeout")
	case lease.Job:
		return c.duration("locking.jobTimeout")
	case lease.Path:
		return c.duration("locking.pathTimeout")
	}
	return c.duration("locking.taskTimeout")
}

// WaitTimeout is how long acquire waits unless told otherwise.
func (c *Config) WaitTimeout() time.Duration { return c.duration("locking.waitTimeout") }

// PollInterval is how often a waiter looks where nothing notifies it.
func (c *Config) PollInterval() time.Duration { return c.duration("locking.pollInterval") }

// StoreTimeout is how long a command waits for a server that does not answer.
// 0: the driver's default.
func (c *Config) StoreTimeout() time.Duration {
	if c.values["locking.storeTimeout"].text == "" {
		return 0
	}
	return c.duration("locking.storeTimeout")
}

// opens is how a command opens its store.
func (c *Config) opens() *driver.OpenOptions {
	return &driver.OpenOptions{AllowUnsafeFS: c.AllowUnsafeFS(), Poll: c.PollInterval(), Timeout: c.StoreTimeout()}
}

// StrictHooks denies what a hook cannot judge.
func (c *Config) StrictHooks() bool { return c.values["hooks.strict"].text == "true" }

// AllowUnsafeFS accepts a file system whose locks cannot be trusted.
func (c *Config) AllowUnsafeFS() bool { return c.values["allowUnsafeFs"].text == "true" }

func (c *Config) duration(key string) time.Duration {
	d, err := parseDuration(c.values[key].text)
	if err != nil {
		panic("configuration: " + key + " was not checked: " + err.Error())
	}
	return d
}

// userConfigFile is the file of the user; empty when the environment tells no
// place for it. A relative XDG_CONFIG_HOME counts as none, as its
// specification says.
func userConfigFile(env func(string) string) string {
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
