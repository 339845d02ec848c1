package gitstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasklock/tasklock/store/driver"
)

// The files are YAML, for people and their tools. We read back only what we would
// have written, byte for byte: an edited file may mean anything, and a guess
// could free a lock.

// A record is the content of one file.
type record struct {
	key     string
	rev     int64
	written time.Time // by the clock of the writer
	by      string    // host name of the writer
	value   []byte
}

// Sizes of what a valid branch can hold.
const (
	maxRecord = 8 * driver.MaxValue // quoting makes it longer
	maxState  = 4 << 20
	maxCommit = 1 << 20
	maxTree   = 64 << 20
)

var errForm = errors.New("not written by tasklock")

func (r *record) encode() []byte {
	var b bytes.Buffer
	b.Grow(len(r.value)*2 + len(r.key) + 160)
	fmt.Fprintf(&b, "key: %s\nrev: %d\nwritten: %s\nby: %s\nvalue: ", strconv.Quote(r.key), r.rev,
		r.written.UTC().Format(time.RFC3339Nano), strconv.Quote(r.by))
	if readable(r.value) {
		_ = json.Indent(&b, r.value, "  ", "  ") // readable has seen that it is JSON
	} else {
		b.WriteString(strconv.Quote(string(r.value)))
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func decodeRecord(file []byte) (*record, error) {
	r, rest := &record{}, string(file)
	var err error
	field := func(name string) string {
		line, after, found := strings.Cut(rest, "\n")
		value, ok := strings.CutPrefix(line, name+": ")
		if !found || !ok {
			err = errForm
			return ""
		}
		rest = after
		return value
	}
	unquote := func(s string) string {
		text, bad := strconv.Unquote(s)
		if bad != nil {
			err = errForm
		}
		return text
	}
	r.key = unquote(field("key"))
	rev, badRev := strconv.ParseInt(field("rev"), 10, 64)
	written, badTime := time.Parse(time.RFC3339Nano, field("written"))
	r.rev, r.written = rev, written.UTC()
	r.by = unquote(field("by"))
	text, ok := strings.CutPrefix(rest, "value: ")
	text, ended := strings.CutSuffix(text, "\n")
	switch {
	case err != nil || badRev != nil || badTime != nil || !ok || !ended:
		return nil, errForm
	case strings.HasPrefix(text, "{"):
		var b bytes.Buffer
		if json.Compact(&b, []byte(text)) != nil {
			return nil, errForm
		}
		r.value = b.Bytes()
	default:
		r.value = []byte(unquote(text))
	}
	if err != nil || driver.CheckKey(r.key) != nil || r.rev <= 0 || !bytes.Equal(r.encode(), file) {
		return nil, errForm
	}
	return r, nil
}

// readable reports whether a value can be in the file as it is, one field on a
// line: JSON in its shortest form that is also YAML. Others are quoted.
func readable(value []byte) bool {
	if len(value) > 16<<10 || len(value) < 2 || value[0] != '{' || !utf8.Valid(value) {
		return false
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil || !bytes.Equal(compact.Bytes(), value) {
		return false
	}
	for i, r := range string(value) {
		if !strconv.IsPrint(r) {
			return false
		}
		// YAML has no pairs of surrogates.
		if r == '\\' && i+2 < len(value) && value[i+1] == 'u' && (value[i+2] == 'd' || value[i+2] == 'D') {
			return false
		}
	}
	return plainTree(json.NewDecoder(bytes.NewReader(value)))
}

// plainTree refuses what JSON allows and YAML does not: the same name twice,
// very long names; and very deep nesting, which nobody could read.
func plainTree(d *json.Decoder) bool {
	const maxDepth, maxName = 16, 128
	d.UseNumber()
	type level struct {
		names map[string]bool // nil: a list
		value bool            // a name was read, its value comes next
	}
	var stack []level
	for {
		t, err := d.Token()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		top := len(stack) - 1
		if name, ok := t.(string); ok && top >= 0 && stack[top].names != nil && !stack[top].value {
			if stack[top].names[name] || len(name) > maxName {
				return false
			}
			stack[top].names[name], stack[top].value = true, true
			continue
		}
		if top >= 0 {
			stack[top].value = false
		}
		switch t {
		case json.Delim('{'):
			stack = append(stack, level{names: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		}
		if len(stack) > maxDepth {
			return false
		}
	}
}

// state is the file that belongs to no record.
type state struct {
	id    string // of the store: another id is another store
	rev   int64
	kinds map[string]int64 // revision of the last write or deletion, by kind
}

const (
	stateFile   = "tasklock.yaml"
	stateFormat = 1
	stateHead   = "# What tasklock knows about this branch as a whole. Every file here is written by tasklock.\nformat: "
	readmeFile  = "README.md"
)

const readmeText = `# Locks and tasks

This branch is a [tasklock](https://github.com/tasklock/tasklock) store: one file for each lock, lease and task.
It shows who works on what. Do not edit or merge it; ask it with ` + "`tasklock list`" + `.
`

func (s state) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%d\nid: %s\nrevision: %d\nkinds:", stateHead, stateFormat, strconv.Quote(s.id), s.rev)
	if len(s.kinds) == 0 {
		b.WriteString(" {}")
	}
	for _, kind := range slices.Sorted(maps.Keys(s.kinds)) {
		fmt.Fprintf(&b, "\n  %s: %d", strconv.Quote(kind), s.kinds[kind])
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func decodeState(file []byte) (state, error) {
	s := state{kinds: map[string]int64{}}
	rest, ok := strings.CutPrefix(string(file), stateHead)
	lines := strings.Split(rest, "\n")
	format, err := strconv.Atoi(lines[0])
	switch {
	case !ok || err != nil || format < 1:
		return s, errForm
	case format > stateFormat:
		return s, driver.Newer(stateFile, format, stateFormat)
	case len(lines) < 4:
		return s, errForm
	}
	id, badID := strconv.Unquote(strings.TrimPrefix(lines[1], "id: "))
	rev, badRev := strconv.ParseInt(strings.TrimPrefix(lines[2], "revision: "), 10, 64)
	s.id, s.rev = id, rev
	for _, line := range lines[4:] {
		i := strings.LastIndex(line, ": ")
		if i < 2 {
			continue
		}
		kind, badKind := strconv.Unquote(line[2:i])
		rev, badRev := strconv.ParseInt(line[i+2:], 10, 64)
		if badKind != nil || badRev != nil {
			return s, errForm
		}
		s.kinds[kind] = rev
	}
	if badID != nil || badRev != nil || rev < 0 || id == "" || !bytes.Equal(s.encode(), file) {
		return s, errForm
	}
	return s, nil
}

// with returns the state after a write to the key at rev.
func (s *state) wrote(key string, rev int64) { s.kinds[driver.Kind(key)], s.rev = rev, rev }

func (s state) clone() state {
	s.kinds = maps.Clone(s.kinds)
	return s
}
