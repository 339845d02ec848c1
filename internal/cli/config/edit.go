package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"go.yaml.in/yaml/v3"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

// Edit changes one value of a configuration file and leaves the rest of
// it, comments too. It reports whether that changes anything. A file that has
// mistakes is not touched.
func Edit(ctx context.Context, f File, s Setting, text string, dryRun bool) (changed bool, err error) {
	if dryRun {
		_, changed, err := editedFile(f.Path, s, text)
		return changed, err
	}
	err = underGate(ctx, f.Gate, func() error {
		var now []byte
		if now, changed, err = editedFile(f.Path, s, text); err != nil || !changed {
			return err
		}
		return Refused(replaceFile(f.Path, now, f.Mode))
	})
	return changed && err == nil, err
}

// File is a file to change, what keeps others from changing it at the
// same time, and its mode if it is new.
type File struct {
	Path, Gate string
	Mode       fs.FileMode
}

// underGate keeps two edits at once from losing one of them.
func underGate(ctx context.Context, path string, edit func() error) error {
	gate := flock.New(path)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := gate.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return Refused(err)
	}
	defer func() { _ = gate.Unlock() }()
	return edit()
}

func editedFile(path string, s Setting, text string) (now []byte, changed bool, err error) {
	old, err := readSmall(path)
	if err != nil {
		return nil, false, err
	}
	now, err = editedYAML(path, old, s, text)
	return now, !bytes.Equal(old, now), err
}

// editedYAML returns the file's text with one value set.
func editedYAML(path string, old []byte, s Setting, text string) ([]byte, error) {
	doc, err := parseYAML(path, old)
	if err != nil {
		return nil, err
	}
	before, err := entriesOf(path, doc)
	if err != nil {
		return nil, err
	}
	for _, e := range before {
		if e.key == s.Key && e.text == text {
			return old, nil
		}
	}
	head := old // nothing but comments, if anything
	if doc == nil || doc.Content[0].ShortTag() == "!!null" {
		doc = &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	} else {
		head = nil
	}
	setValue(doc.Content[0], s, text)
	var b bytes.Buffer
	b.Write(head)
	if len(head) > 0 && head[len(head)-1] != '\n' {
		b.WriteByte('\n')
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(doc), enc.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), verifyEdit(path, b.Bytes(), before, s, text)
}

// verifyEdit reads back what would be written: the one value, and all others
// as they were.
func verifyEdit(path string, now []byte, before []entry, s Setting, text string) error {
	doc, err := parseYAML(path, now)
	if err != nil {
		return err
	}
	after, err := entriesOf(path, doc)
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, e := range after {
		got[e.key] = e.text
	}
	for _, e := range before {
		if e.key != s.Key && got[e.key] != e.text {
			return &Error{File: path, Line: e.line, Msg: "cannot be changed without changing " + e.key + "; edit it by hand"}
		}
	}
	if got[s.Key] != text {
		return &Error{File: path, Msg: s.Key + " cannot be set to " + Quoted(text) + " here; edit it by hand"}
	}
	return nil
}

// setValue puts a value below a mapping, in the form that is there already.
func setValue(m *yaml.Node, s Setting, text string) {
	for name := range strings.SplitSeq(s.Key, ".") {
		m = child(m, name)
		if m.Kind == yaml.ScalarNode && m.ShortTag() == "!!null" {
			m.Kind, m.Tag, m.Value, m.Style = yaml.MappingNode, "", "", 0
		}
	}
	if len(m.Content) > 0 {
		m = child(m, "value")
	}
	m.Kind, m.Tag, m.Value = yaml.ScalarNode, "!!str", text
	if s.kind == "bool" {
		m.Tag = "!!bool"
	}
	m.Style &= yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle
}

// child returns the value of a key, after making it if need be.
func child(m *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i+1]
		}
	}
	value := &yaml.Node{Kind: yaml.MappingNode}
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, value)
	return value
}

// replaceFile replaces the text of a file, whose mode stays.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	if fi, err := os.Stat(path); err == nil {
		mode = fi.Mode().Perm()
	}
	return host.ReplaceFile(path, mode, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// MakeFolder makes the folder of the store that belongs here.
func (c *Config) MakeFolder() error {
	if err := c.Place.Prepare(); err != nil {
		return Refused(err)
	}
	return makeFolder(c.Place.Folder)
}

// makeFolder makes the folder of a store, or of a project's settings: for its
// user alone, and ignored by git.
func makeFolder(path string) error {
	err := os.Mkdir(path, 0o700)
	made := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return Refused(err)
	}
	fi, err := os.Lstat(path)
	switch {
	case err != nil:
		return Refused(err)
	case fi.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: %s is a symbolic link; name the place it points to instead", driver.ErrUnsafe, path)
	case !fi.IsDir():
		return fmt.Errorf("%w: %s is not a folder; move it away", driver.ErrDamaged, path)
	}
	if err := ignoreInGit(path); err != nil || !made {
		return Refused(err)
	}
	return host.SyncDir(filepath.Dir(path)) // or a loss of power takes the folder, and all that is in it
}

// ignoreInGit lets git ignore a folder, unless somebody decided already.
func ignoreInGit(folder string) error {
	f, err := os.OpenFile(filepath.Join(folder, ".gitignore"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("*\n")
	return errors.Join(err, f.Close())
}

// Refused marks an error that means "not permitted".
func Refused(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return err
}

// Editable prepares the place of a file. The user's may be a link, as people
// who keep their settings in a repository have it; the project's may not.
func Editable(path string, user, dryRun bool, env func(string) string) (string, error) {
	if path == "" && user {
		return "", &Error{File: "HOME", Msg: "is not set, so the user has no configuration file"}
	}
	if user {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real, nil
		}
		if err := homeless(env); err != nil || dryRun {
			return path, err
		}
		return path, Refused(os.MkdirAll(filepath.Dir(path), 0o700))
	}
	if err := NotLinked(filepath.Dir(path), path); err != nil || dryRun {
		return path, err
	}
	return path, makeFolder(filepath.Dir(path))
}

// NotLinked refuses paths that are symbolic links.
func NotLinked(paths ...string) error {
	for _, p := range paths {
		if fi, err := os.Lstat(p); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%w: %s is a symbolic link; nothing is written through it", driver.ErrUnsafe, p)
		}
	}
	return nil
}
