package gitstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/internal/local"
)

// A cache is this machine's copy of one branch, in its own folder:
//
//	repo/       a bare repository, with nothing of the user's
//	known.json  the last state of the branch, and when it was seen
//	checked     its time is that of the last answer of the server
//	gate, turn  see Store
//
// All of it may be deleted: then this machine forgets how far the branch was,
// and every record looks as if it were written now.
type cache struct {
	dir  string
	repo string
}

func newCache(dir string) *cache { return &cache{dir: dir, repo: filepath.Join(dir, "repo")} }

// known is what this machine last saw of the branch.
type known struct {
	Remote  string   `json:"remote"` // for people who look
	Branch  string   `json:"branch"`
	Tip     oid      `json:"tip,omitempty"`
	Tree    oid      `json:"tree,omitempty"`
	Rev     int64    `json:"rev"`
	ID      string   `json:"id"` // of the store
	Seen    []seen   `json:"seen"`
	Domains []string `json:"domains"` // of the clocks in Seen
}

// seen says when this machine first saw a revision. A record of a revision
// in between was first seen with the next one.
type seen struct {
	Rev    int64 `json:"rev"`
	Wall   int64 `json:"wall"`
	Awake  int64 `json:"awake"`
	Domain int   `json:"domain"`
}

// How many sightings are kept. When there are more, every other of the old ones
// is dropped, which makes the records of that time look a little younger.
const (
	maxSeen  = 192
	keepSeen = 64
)

// saw notes that the store is at rev now. With another id everything is new.
func (k *known) saw(id string, rev int64, now local.Stamp) {
	if k.ID != id {
		k.ID, k.Seen, k.Domains = id, nil, nil
	}
	if n := len(k.Seen); n > 0 && k.Seen[n-1].Rev >= rev {
		return
	}
	if len(k.Seen) >= maxSeen {
		old, recent := k.Seen[:maxSeen-keepSeen], k.Seen[maxSeen-keepSeen:]
		var thin []seen
		for i := 1; i < len(old); i += 2 {
			thin = append(thin, old[i])
		}
		k.Seen = append(thin, recent...)
	}
	d := slices.Index(k.Domains, now.Domain)
	if d < 0 {
		d, k.Domains = len(k.Domains), append(slices.Clone(k.Domains), now.Domain)
	}
	k.Seen = append(slices.Clone(k.Seen), seen{Rev: rev, Wall: now.Wall, Awake: now.Awake, Domain: d})
}

// first returns when a record of that revision was first seen here.
func (k *known) first(rev int64, now local.Stamp) time.Time {
	i, _ := slices.BinarySearchFunc(k.Seen, rev, func(s seen, rev int64) int {
		if s.Rev < rev {
			return -1
		}
		return 1
	})
	if i == len(k.Seen) {
		return time.Unix(0, now.Wall).UTC()
	}
	s := k.Seen[i]
	st := local.Stamp{Wall: s.Wall, Awake: s.Awake}
	if s.Domain >= 0 && s.Domain < len(k.Domains) {
		st.Domain = k.Domains[s.Domain]
	}
	return st.Time(now)
}

func (c *cache) knownFile() string { return filepath.Join(c.dir, "known.json") }

// load returns what is known: nothing if the file is missing, or unreadable
// after a loss of power.
func (c *cache) load() (*known, error) {
	text, err := os.ReadFile(c.knownFile())
	k := &known{}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k, nil
	case err != nil:
		return nil, err
	}
	if json.Unmarshal(bytes.TrimSpace(text), k) != nil {
		return &known{}, nil
	}
	return k, nil
}

// save writes what is known and points the repository's one reference at the
// tip: git then knows what not to fetch and what not to clean away.
func (c *cache) save(k *known) error {
	fault.Point("git.known")
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if k.Tip != "" {
		if err := overwrite(c.ref(), []byte(k.Tip+"\n")); err != nil {
			return err
		}
	}
	if err := replace(c.knownFile(), text); err != nil {
		return err
	}
	c.checked()
	return nil
}

func replace(path string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "new-*.lock") // git does not take it for a reference
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// overwrite writes a file in place, because some file systems flush a renamed
// file to the disk. The file always has the same length, is read only with the
// gate, and may be lost.
func overwrite(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	return errors.Join(err, f.Close())
}

// checked notes that the server has just confirmed what is known.
func (c *cache) checked() {
	path := filepath.Join(c.dir, "checked")
	if touch(path) == nil {
		return
	}
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		_ = f.Close()
	}
}

func (c *cache) checkedAt() time.Time { return touched(filepath.Join(c.dir, "checked")) }

// touch sets the time of a file to now.
func touch(path string) error {
	now := time.Now()
	return os.Chtimes(path, now, now)
}

// touched is the time of a file, zero if there is none.
func touched(path string) time.Time {
	if fi, err := os.Stat(path); err == nil {
		return fi.ModTime().UTC()
	}
	return time.Time{}
}

// ready makes the repository if there is none for object ids of that length. It
// does not use git init, which would copy hooks and settings from the user's
// templates.
func (c *cache) ready(hexLen int) error {
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if hexLen == 64 {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n"
	}
	path := filepath.Join(c.repo, "config")
	switch text, err := os.ReadFile(path); {
	case err == nil && string(text) == config:
		return nil
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		if err := c.clear(); err != nil {
			return err
		}
	}
	for _, d := range []string{"objects/pack", "objects/info", "refs/tasklock", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(c.repo, filepath.FromSlash(d)), 0o700); err != nil {
			return err
		}
	}
	if err := replace(filepath.Join(c.repo, "HEAD"), []byte("ref: refs/heads/none\n")); err != nil {
		return err
	}
	return replace(path, []byte(config)) // last: it says that all is there
}

// blank reports whether the repository has no objects yet.
func (c *cache) blank() bool {
	_, err := os.Lstat(c.ref())
	return err != nil
}

func (c *cache) ref() string { return filepath.Join(c.repo, "refs", "tasklock", "tip") }

// clear empties the repository, and keeps what is known.
func (c *cache) clear() error {
	old, err := os.MkdirTemp(c.dir, "old-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(old) }()
	if err := os.Rename(c.repo, filepath.Join(old, "repo")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// crowded reports whether git should pack loose objects. One folder in 256 is
// sample enough.
func (c *cache) crowded() bool {
	loose, _ := os.ReadDir(filepath.Join(c.repo, "objects", "17"))
	packs, _ := os.ReadDir(filepath.Join(c.repo, "objects", "pack"))
	return len(loose) > 10 || len(packs) > 60
}

// tidy packs the repository and drops what is no longer part of the branch.
func (c *cache) tidy(ctx context.Context, g *git) {
	ctx, cancel := limit(ctx, max(g.timeout, DefaultTimeout)) // packing does not wait for the server
	defer cancel()
	_, _ = g.run(ctx, "-c", "gc.packRefs=false", "-c", "gc.cruftPacks=false", "-c", "gc.reflogExpire=now",
		"gc", "--quiet", "--prune=10.minutes.ago") // another time, if not now
}

// openCache checks the folder and what lies in it.
func openCache(dir string) (*cache, error) {
	if _, err := local.Dir(dir, local.DirOptions{Create: true, AllowUnsafeFS: true}); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	c := newCache(dir)
	if err := local.SubDir(c.repo); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	for _, name := range []string{"gate", "turn", "known.json", "checked"} {
		if _, err := local.File(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("cache: %w", err)
		}
	}
	return c, nil
}

// cacheDir is the folder for the cache of a branch, unless another is named.
func cacheDir(base string, p place, branch string) (string, error) {
	if base == "" {
		home, err := os.UserCacheDir()
		if err != nil { // no home: a reboot may delete it, the server has everything
			home = filepath.Join(os.TempDir(), fmt.Sprintf("tasklock-%d", os.Geteuid()))
		}
		base = filepath.Join(home, "tasklock", "git")
	}
	base, err := filepath.Abs(base)
	return filepath.Join(base, digest(p.show + "\x00" + branch)[:24]), err
}
