package gitstore

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// An oid names an object of git, in hex: 40 digits, or 64 in a repository of
// the newer kind.
type oid string

func parseOID(s string) (oid, bool) {
	_, err := hex.DecodeString(s)
	return oid(s), err == nil && (len(s) == 40 || len(s) == 64)
}

// How many decoded objects are kept in memory.
const (
	maxTrees   = 2000
	maxRecords = 50_000
)

// Errors of reading one object.
var (
	errCache = errors.New("the cache is incomplete") // it can be filled again
	errHuge  = errors.New("too large")
)

// objects is the object store of the cache. It writes and reads small new objects
// itself, without a process for each: git's format of one file for an object is
// public and simple. git unpacks what it has packed.
type objects struct {
	dir string // the "objects" folder
	cat *catFile

	mu      sync.Mutex
	hex     int // digits of an oid
	deflate *zlib.Writer
	bulk    *bulk // where put puts, if not into files
	trees   map[oid]*folder
	records map[oid]*record
}

func newObjects(gitDir string, cat *catFile) *objects {
	o := &objects{dir: filepath.Join(gitDir, "objects"), cat: cat, hex: 40}
	o.forget()
	return o
}

// forget drops the decoded objects.
func (o *objects) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trees, o.records = map[oid]*folder{}, map[oid]*record{}
}

// setFormat makes our object ids as long as the server's.
func (o *objects) setFormat(id oid) {
	if id != "" {
		o.mu.Lock()
		o.hex = len(id)
		o.mu.Unlock()
	}
}

func (o *objects) format() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hex
}

func (o *objects) hasher() hash.Hash {
	if o.hex == 64 {
		return sha256.New()
	}
	return sha1.New()
}

// put writes an object unless it exists. It syncs nothing: the cache can be
// lost, the server has what counts.
func (o *objects) put(kind string, body []byte) (oid, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	head := []byte(kind + " " + strconv.Itoa(len(body)) + "\x00")
	h := o.hasher()
	_, _ = h.Write(head)
	_, _ = h.Write(body)
	id := oid(hex.EncodeToString(h.Sum(nil)))
	if o.bulk != nil {
		return id, o.bulk.add(o, id, kind, body)
	}
	path := o.path(id)
	if fi, err := os.Stat(path); err == nil && fi.Size() > 0 {
		return id, nil
	}
	tmp, err := os.CreateTemp(o.dir, "tmp_obj_")
	if err != nil {
		return "", err
	}
	if err = errors.Join(o.write(tmp, head, body), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = os.Rename(tmp.Name(), path)
		}
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return "", err
	}
	return id, nil
}

func (o *objects) write(f io.Writer, parts ...[]byte) error {
	if o.deflate == nil {
		o.deflate, _ = zlib.NewWriterLevel(f, zlib.BestSpeed)
	}
	o.deflate.Reset(f)
	for _, p := range parts {
		if _, err := o.deflate.Write(p); err != nil {
			return err
		}
	}
	return o.deflate.Close()
}

func (o *objects) path(id oid) string { return filepath.Join(o.dir, string(id[:2]), string(id[2:])) }

// get reads one object of the kind, of at most max bytes.
func (o *objects) get(id oid, kind string, max int64) ([]byte, error) {
	if body, err := o.loose(id, kind, max); err == nil || errors.Is(err, errHuge) {
		return body, err
	}
	var body []byte
	err := o.cat.get([]oid{id}, kind, max, func(_ int, b []byte) error { body = b; return nil })
	return body, err
}

// loose reads an object that has a file of its own.
func (o *objects) loose(id oid, kind string, max int64) ([]byte, error) {
	f, err := os.Open(o.path(id))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	z, err := zlib.NewReader(f)
	if err != nil {
		return nil, err
	}
	head := make([]byte, 0, 32)
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(z, one); err != nil {
			return nil, err
		}
		if one[0] == 0 {
			break
		}
		if head = append(head, one[0]); len(head) == cap(head) {
			return nil, errCache
		}
	}
	name, digits, _ := strings.Cut(string(head), " ")
	size, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || name != kind {
		return nil, errCache
	}
	if size > max {
		return nil, errHuge
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(z, body); err != nil {
		return nil, err
	}
	_, err = z.Read(make([]byte, 1)) // the checksum comes with the end
	if !errors.Is(err, io.EOF) {
		return nil, errCache
	}
	return body, nil
}

// An entry is one line of a tree.
type entry struct {
	name string
	dir  bool
	id   oid
}

// errEntry names an entry that no store has: a link, a program, a submodule.
type errEntry struct{ name, mode string }

func (e errEntry) Error() string { return fmt.Sprintf("%s has mode %s", e.name, e.mode) }

func parseTree(body []byte, hexLen int) ([]entry, error) {
	var list []entry
	for len(body) > 0 {
		head, rest, ok := bytes.Cut(body, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		if !ok || !named || len(rest) < hexLen/2 {
			return nil, errCache
		}
		e := entry{name: name, dir: mode == "40000", id: oid(hex.EncodeToString(rest[:hexLen/2]))}
		if !e.dir && mode != "100644" {
			return nil, errEntry{name, mode}
		}
		list, body = append(list, e), rest[hexLen/2:]
	}
	return list, nil
}

func encodeTree(list []entry) []byte {
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.sortName(), b.sortName()) })
	var b bytes.Buffer
	for _, e := range list {
		mode := "100644"
		if e.dir {
			mode = "40000"
		}
		raw, _ := hex.DecodeString(string(e.id))
		fmt.Fprintf(&b, "%s %s\x00%s", mode, e.name, raw)
	}
	return b.Bytes()
}

// sortName gives git's order, in which a folder's name ends in a slash.
func (e entry) sortName() string {
	if e.dir {
		return e.name + "/"
	}
	return e.name
}

// A folder is a tree that was read. It is shared and never changed.
type folder struct {
	list []entry
	at   map[string]int // by name; git's order is not that of the names
}

func newFolder(list []entry) *folder {
	f := &folder{list: list, at: make(map[string]int, len(list))}
	for i, e := range list {
		f.at[e.name] = i
	}
	return f
}

// entries is a copy of the list, by name; empty without a folder.
func (f *folder) entries() map[string]entry {
	all := map[string]entry{}
	if f != nil {
		for _, e := range f.list {
			all[e.name] = e
		}
	}
	return all
}

func (f *folder) find(name string) (entry, bool) {
	i, ok := f.at[name]
	if !ok {
		return entry{}, false
	}
	return f.list[i], true
}

// tree reads a tree, once.
func (o *objects) tree(id oid) (*folder, error) {
	o.mu.Lock()
	f, ok := o.trees[id]
	o.mu.Unlock()
	if ok {
		return f, nil
	}
	body, err := o.get(id, "tree", maxTree)
	if err != nil {
		return nil, err
	}
	list, err := parseTree(body, len(id))
	if err != nil {
		return nil, err
	}
	f = newFolder(list)
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.trees) > maxTrees {
		clear(o.trees)
	}
	o.trees[id] = f
	return f, nil
}
