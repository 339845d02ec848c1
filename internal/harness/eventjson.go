package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
)

// An event may carry a whole file, and a hook has a few milliseconds. So its JSON is
// read once: one search skips the text between two quotes, and only the members that
// a hook needs are decoded.

var (
	errNoJSON  = errors.New("the event has no JSON")
	errBadJSON = errors.New("is not valid")
)

// maxUnread is how much is kept of a text that no hook needs. [leftOut] replaces the
// rest.
const maxUnread = 64 << 10

const leftOut = "left out: no hook reads it"

// ReadEvent reads one JSON value from in; a harness may leave the pipe open. It
// leaves out long texts that no hook needs, such as the content of a file.
func ReadEvent(in io.Reader) ([]byte, error) {
	v := &jsonExtent{text: make([]byte, 0, 2*maxUnread)}
	for total := 0; ; {
		if len(v.text) == cap(v.text) {
			v.text = slices.Grow(v.text, max(1<<20, len(v.text)))
		}
		n, err := in.Read(v.text[len(v.text):cap(v.text)])
		v.text, total = v.text[:len(v.text)+n], total+n
		whole := v.more()
		switch {
		case total >= MaxEvent:
			return nil, fmt.Errorf("the event has more than %d bytes", MaxEvent)
		case whole:
			return bytes.TrimSpace(v.text[:v.pos]), nil
		case err == io.EOF && len(bytes.TrimSpace(v.text)) == 0:
			return nil, errNoJSON
		case err == io.EOF && v.depth == 0 && !v.inText: // a number, say
			return bytes.TrimSpace(v.text), nil
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
			fallthrough
		case err != nil:
			return nil, fmt.Errorf("the event's JSON: %w", err)
		}
		if v.inText && len(v.text)-v.from > maxUnread && !v.wanted() {
			v.leaveOut()
		}
	}
}

// jsonExtent finds the end of a JSON value in text that may still grow.
type jsonExtent struct {
	text   []byte
	pos    int // what is before it has been seen
	depth  int
	inText bool
	from   int // where the text at pos began
}

// more looks at the new text, and reports whether the value is complete: text[:pos].
// Any value but an object, list or text ends with the input.
func (v *jsonExtent) more() bool {
	for v.pos < len(v.text) {
		if v.inText {
			i := bytes.IndexByte(v.text[v.pos:], '"')
			if i < 0 {
				v.pos = len(v.text)
				return false
			}
			v.pos += i + 1
			if v.inText = escaped(v.text[v.from : v.pos-1]); !v.inText && v.depth == 0 {
				return true
			}
			continue
		}
		c := v.text[v.pos]
		v.pos++
		switch c {
		case '"':
			v.inText, v.from = true, v.pos
		case '{', '[':
			v.depth++
		case '}', ']':
			if v.depth--; v.depth <= 0 {
				return true
			}
		}
	}
	return false
}

// wanted reports whether a hook may need the text at pos: a member of that name, or
// one of a list.
func (v *jsonExtent) wanted() bool {
	before, ok := bytes.CutSuffix(bytes.TrimSpace(v.text[:v.from-1]), []byte(":"))
	if !ok {
		return true
	}
	before = bytes.TrimSuffix(bytes.TrimSpace(before), []byte(`"`))
	name := before[bytes.LastIndexByte(before, '"')+1:]
	return bytes.IndexByte(name, '\\') >= 0 || slices.Contains(eventNames, string(name))
}

// eventNames are all members that a hook may ask for.
var eventNames = append(namesOf(payload{}), namesOf(toolInput{})...)

func namesOf(v any) (names []string) {
	for t, i := reflect.TypeOf(v), 0; i < t.NumField(); i++ {
		names = append(names, t.Field(i).Tag.Get("json"))
	}
	return names
}

// leaveOut forgets what was read of the text at pos.
func (v *jsonExtent) leaveOut() {
	odd := escaped(v.text[v.from:])
	v.text = append(v.text[:v.from], leftOut...)
	if odd {
		v.text = append(v.text, '\\')
	}
	v.pos = len(v.text)
}

// escaped reports whether the character behind text is escaped: an odd number of
// backslashes precedes it.
func escaped(text []byte) bool {
	odd := false
	for i := len(text) - 1; i >= 0 && text[i] == '\\'; i-- {
		odd = !odd
	}
	return odd
}

// members calls each for the members of a JSON object, with their undecoded
// values. Values are checked where they are decoded.
func members(data []byte, each func(name string, value []byte) error) error {
	data = bytes.TrimSpace(data)
	if len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' {
		return errBadJSON
	}
	rest := bytes.TrimSpace(data[1 : len(data)-1])
	for len(rest) > 0 {
		var name string
		key, after, err := cutValue(rest)
		if err == nil {
			err = json.Unmarshal(key, &name)
		}
		if err != nil || len(after) == 0 || after[0] != ':' {
			return errBadJSON
		}
		value, after, err := cutValue(after[1:])
		if err != nil {
			return err
		}
		if err := each(name, value); err != nil {
			return err
		}
		switch {
		case len(after) == 0:
			return nil
		case after[0] != ',' || len(after) == 1:
			return errBadJSON
		}
		rest = bytes.TrimSpace(after[1:])
	}
	return nil
}

// cutValue cuts the first value off text, without the spaces around it.
func cutValue(text []byte) (value, rest []byte, err error) {
	text = bytes.TrimSpace(text)
	v := &jsonExtent{text: text}
	switch {
	case len(text) == 0:
		return nil, nil, errBadJSON
	case text[0] == '"' || text[0] == '{' || text[0] == '[':
		if !v.more() {
			return nil, nil, errBadJSON
		}
	default: // a number, true, false, null
		for v.pos < len(text) && bytes.IndexByte([]byte(",:}] \t\r\n"), text[v.pos]) < 0 {
			v.pos++
		}
		if !json.Valid(text[:v.pos]) {
			return nil, nil, errBadJSON
		}
	}
	return text[:v.pos], bytes.TrimSpace(text[v.pos:]), nil
}

// decode fills the fields of a struct from the members of a JSON object that they
// name. It skips other members and does not look into json.RawMessage; all other
// fields decode themselves.
func decode(data []byte, into any) error {
	fields := map[string]any{}
	v := reflect.ValueOf(into).Elem()
	for i := range v.NumField() {
		fields[v.Type().Field(i).Tag.Get("json")] = v.Field(i).Addr().Interface()
	}
	return members(data, func(name string, value []byte) error {
		switch f := fields[name].(type) {
		case nil:
			return nil
		case *json.RawMessage:
			*f = value
			return nil
		default:
			return f.(json.Unmarshaler).UnmarshalJSON(value)
		}
	})
}
