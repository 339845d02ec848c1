package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store/driver"
)

// maxSize bounds a configuration file.
const maxSize = 1 << 20

// entry is one value of a file.
type entry struct {
	key, text string
	line      int
}

// readFile returns the values of a file; none if it does not exist.
func readFile(path string) ([]entry, error) {
	b, err := readSmall(path)
	if err != nil || b == nil {
		return nil, err
	}
	doc, err := parseYAML(path, b)
	if err != nil {
		return nil, err
	}
	return entriesOf(path, doc)
}

// strangers is the error of a file in a folder that we may not enter: that is not
// a mistake in the configuration if the folder is somebody else's.
func strangers(path string, err error) error {
	dir := filepath.Dir(path)
	if fi, lerr := os.Lstat(dir); lerr == nil {
		switch uid, owned := host.Owner(fi); {
		case owned && uid == 0 && os.Geteuid() != 0:
			return fmt.Errorf("%w: %s belongs to user 0, we are %d; use a store of your own", driver.ErrDenied, dir, os.Geteuid())
		case owned && uid != os.Geteuid():
			return fmt.Errorf("%w: %s belongs to user %d, we are %d; use a store of your own", driver.ErrUnsafe, dir, uid, os.Geteuid())
		}
	}
	return &Error{File: path, Msg: cause(err)}
}

// readSmall reads a configuration file, nil if there is none. It refuses a file that a
// stranger could have written: it may name the store and the owner.
func readSmall(path string) ([]byte, error) {
	fi, err := os.Stat(path)
	switch {
	case err != nil && repo.Absent(err):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, strangers(path, err)
	case err != nil:
		return nil, &Error{File: path, Msg: cause(err)}
	case !fi.Mode().IsRegular():
		return nil, &Error{File: path, Msg: "is not a regular file"}
	case fi.Size() > maxSize:
		return nil, &Error{File: path, Msg: fmt.Sprintf("has %d bytes, at most %d", fi.Size(), maxSize)}
	}
	if err := trusted(path, fi); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{File: path, Msg: cause(err)}
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, &Error{File: path, Msg: cause(err)}
	}
	return b, nil
}

// trusted refuses a file that others may change.
func trusted(path string, fi fs.FileInfo) error {
	uid, owned := host.Owner(fi)
	switch {
	case owned && uid != 0 && uid != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to user %d, we are %d; remove it or work elsewhere", driver.ErrUnsafe, path, uid, os.Geteuid())
	case owned && fi.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("%w: everybody may write %s; run: chmod o-w %q", driver.ErrUnsafe, path, path)
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return &Error{File: path, Msg: cause(err)}
	}
	if uid, owned = host.Owner(dir); owned && uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("%w: %s belongs to user %d, we are %d; remove it or work elsewhere", driver.ErrUnsafe, filepath.Dir(path), uid, os.Geteuid())
	}
	return nil
}

// cause is what went wrong without the path, which the caller names.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// parseYAML returns the one document of a file, nil if there is none.
func parseYAML(path string, b []byte) (*yaml.Node, error) {
	if len(b) > maxSize {
		return nil, &Error{File: path, Msg: fmt.Sprintf("has more than %d bytes", maxSize)}
	}
	if !utf8.Valid(b) {
		return nil, &Error{File: path, Line: badLine(b), Msg: "is not UTF-8"}
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxError(path, err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, &Error{File: path, Line: more.Line, Msg: "a second document; only one is read"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(path, err)
	}
	if err := noAliases(path, &doc); err != nil {
		return nil, err
	}
	return &doc, nil
}

// badLine is the line of the first byte that is not UTF-8.
func badLine(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return 1 + bytes.Count(b[:i], []byte("\n"))
		}
		i += n
	}
	return 0
}

// syntaxError takes the line out of the parser's words.
func syntaxError(path string, err error) error {
	e := &Error{File: path, Msg: strings.TrimPrefix(err.Error(), "yaml: ")}
	if rest, ok := strings.CutPrefix(e.Msg, "line "); ok {
		line, text, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(line); err == nil {
			e.Line, e.Msg = n, text
		}
	}
	e.Msg, _, _ = strings.Cut(e.Msg, "\n")
	return e
}

// noAliases refuses aliases, which let a small file grow.
func noAliases(path string, n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return &Error{File: path, Line: n.Line, Msg: "anchors and aliases are not read here"}
	}
	for _, child := range n.Content {
		if err := noAliases(path, child); err != nil {
			return err
		}
	}
	return nil
}

// entriesOf checks a document against the settings.
func entriesOf(path string, doc *yaml.Node) ([]entry, error) {
	r := reader{path: path}
	if doc != nil && doc.Content[0].ShortTag() != "!!null" {
		r.mapping("", doc.Content[0])
	}
	return r.entries, r.err
}

// reader walks a document and stops at the first mistake.
type reader struct {
	path    string
	entries []entry
	err     error
}

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{File: r.path, Line: n.Line, Msg: fmt.Sprintf(format, args...)}
	}
}

// mapping reads one level: "" for the top, else with its dot at the end.
func (r *reader) mapping(level string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s must hold keys with values", cmp.Or(strings.TrimSuffix(level, "."), "the file"))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content) && r.err == nil; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := level + key.Value
		if first, twice := seen[name]; twice {
			r.fail(key, "%s is here twice, first on line %d", Quoted(name), first)
			return
		}
		seen[name] = key.Line
		r.member(level, key, value)
	}
}

func (r *reader) member(level string, key, value *yaml.Node) {
	name := level + key.Value
	s, known := Find(name)
	switch {
	case key.Kind == yaml.ScalarNode && key.Value == "_description":
		r.scalar(key, value)
	case known && strings.Contains(key.Value, "."):
		r.fail(key, "%s must be written on two levels: %s:", Quoted(name), strings.Replace(name, ".", ": ", 1))
	case key.Kind == yaml.ScalarNode && known:
		r.setting(s, value)
	case key.Kind == yaml.ScalarNode && level == "" && len(keysBelow(name+".")) > 0:
		if value.ShortTag() != "!!null" { // all below it may be commented out
			r.mapping(name+".", value)
		}
	default:
		r.fail(key, "unknown key %s%s", Quoted(name), DidYouMean(name))
	}
}

// setting reads a value in either form: plain, or with its description.
func (r *reader) setting(s Setting, n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		if n = r.described(s, n); r.err != nil {
			return
		}
	}
	want := map[string]string{"text": "!!str", "duration": "!!str", "bool": "!!bool"}[s.kind]
	tag := n.ShortTag()
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fail(n, "%s must have one value", s.Key)
	case tag == "!!null":
		r.fail(n, "%s has no value", s.Key)
	case s.kind == "duration" && (tag == "!!int" || tag == "!!float"):
		r.fail(n, "%s: %s has no unit; write it like 90s, 60m or 2h", s.Key, Quoted(n.Value))
	case tag != want:
		r.fail(n, "%s must be %s, not %s", s.Key, map[string]string{"text": "text (in quotes)", "duration": "a duration like 60m", "bool": "true or false"}[s.kind], Quoted(n.Value))
	default:
		text, err := s.Norm(n.Value)
		if err != nil {
			r.fail(n, "%s: %v", s.Key, err)
			return
		}
		r.entries = append(r.entries, entry{s.Key, text, n.Line})
	}
}

// described returns the value of the form {_description, _default, value}.
func (r *reader) described(s Setting, n *yaml.Node) *yaml.Node {
	var value *yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, v := n.Content[i], n.Content[i+1]
		if seen[key.Value] {
			r.fail(key, "%s is here twice", Quoted(s.Key+"."+key.Value))
		}
		seen[key.Value] = true
		switch key.Value {
		case "value":
			value = v
		case "_description", "_default":
			r.scalar(key, v)
		default:
			r.fail(key, "unknown key %s; %s may hold _description, _default and value", Quoted(s.Key+"."+key.Value), s.Key)
		}
	}
	if value == nil {
		r.fail(n, "%s has a description but no value", s.Key)
	}
	return value
}

func (r *reader) scalar(key, n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		r.fail(n, "%s must be text", Quoted(key.Value))
	}
}

// Quoted is what somebody wrote, in quotes and cut to one line.
func Quoted(s string) string { return strconv.Quote(term.Short(s, 60)) }
