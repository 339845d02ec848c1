package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Settings of harnesses belong to people. We change them as text: we insert one
// piece at one place, and taking it out again leaves the file byte for byte as it
// was; order, spaces, comments and unknown keys stay.

// jsonNode is a value with the place of its text.
type jsonNode struct {
	start, end int
	key        string      // of a member of an object
	begin      int         // where it begins with its key
	items      []*jsonNode // values of an object, or of an array
	open       byte        // '{', '[' or 0
}

// parseJSON reads a whole document, which must be an object.
func parseJSON(text []byte) (*jsonNode, error) {
	text = plainJSON(text)
	var any map[string]json.RawMessage
	if err := json.Unmarshal(text, &any); err != nil {
		var bad *json.SyntaxError
		if errors.As(err, &bad) {
			return nil, fmt.Errorf("line %d is not JSON: %w", 1+bytes.Count(text[:min(int(bad.Offset), len(text))], []byte("\n")), err)
		}
		return nil, fmt.Errorf("is not a JSON object: %w", err)
	}
	return nodeOf(text, json.NewDecoder(bytes.NewReader(text))), nil
}

// nodeOf reads the next value of text that is known to be valid.
func nodeOf(text []byte, dec *json.Decoder) *jsonNode {
	start := func() int { // of the next token
		rest := text[dec.InputOffset():]
		return len(text) - len(bytes.TrimLeft(rest, " \t\r\n,:"))
	}
	n := &jsonNode{start: start()}
	if open, ok := token(dec).(json.Delim); ok {
		n.open = byte(open)
		for dec.More() {
			begin, key := start(), ""
			if n.open == '{' {
				key = token(dec).(string)
			}
			item := nodeOf(text, dec)
			item.begin, item.key = begin, key
			n.items = append(n.items, item)
		}
		token(dec) // the closing bracket
	}
	n.end = int(dec.InputOffset())
	return n
}

func token(dec *json.Decoder) json.Token {
	t, _ := dec.Token()
	return t
}

// at follows keys; nil where there is no such member.
func (n *jsonNode) at(path ...string) *jsonNode {
	for _, key := range path {
		if n == nil {
			return nil
		}
		i := n.index(key)
		if i < 0 {
			return nil
		}
		n = n.items[i]
	}
	return n
}

func (n *jsonNode) index(key string) int {
	for i, item := range slices.Backward(n.items) { // of two the last counts
		if n.open == '{' && item.key == key {
			return i
		}
	}
	return -1
}

// insertJSON puts an item at the end of an object (with its key) or an array; if
// there are comments, at its beginning, because a comment belongs to the item before
// it. tight: right after its bracket.
func insertJSON(text []byte, n *jsonNode, key, value string, depth int, tight bool) []byte {
	unit := indentOf(text)
	indent := strings.Repeat(unit, depth+1)
	first := len(n.items) > 0 && (tight || !bytes.Equal(plainJSON(text), text))
	var b bytes.Buffer
	at := n.start + 1
	if len(n.items) > 0 && !first {
		at = n.items[len(n.items)-1].end
		b.WriteByte(',')
	}
	if !tight && (len(n.items) > 0 || depth == 0) {
		b.WriteString("\n" + indent)
	} // else it is empty, and nothing between its bracket and ours tells remove that it was there
	if n.open == '{' {
		b.WriteString(jsonText(key) + ": ")
	}
	_ = json.Indent(&b, []byte(value), indent, unit)
	if first {
		b.WriteByte(',')
	}
	piece := bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte(newline(text)))
	return bytes.Join([][]byte{text[:at], piece, text[at:]}, nil)
}

// cutJSON undoes insertJSON. Comments around the item stay.
func cutJSON(text []byte, n *jsonNode, i int) []byte {
	plain := plainJSON(text)
	start, from, to := n.items[i].begin, n.start+1, n.items[i].end
	comma := func(at int) int { return at + bytes.IndexByte(plain[at:], ',') }
	without := func(from, to int) []byte { return append(bytes.Clone(text[:from]), text[to:]...) }
	switch {
	case i > 0:
		from = n.items[i-1].end
		if c := comma(from); !bytes.Equal(plain[from:start], text[from:start]) { // a comment between
			text = without(start, to)
			return without(c, c+1)
		}
	case len(n.items) > 1:
		to = comma(to) + 1
		if !bytes.Equal(plain[from:start], text[from:start]) {
			from = start
		}
	}
	return without(from, to)
}

// plainJSON is the text with spaces in place of comments, of a comma after the last
// item, and of a byte order mark, which some harnesses accept. Positions stay the
// same.
func plainJSON(text []byte) []byte {
	out := bytes.Clone(text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' && out[i] != '\r' {
				out[i] = ' '
			}
		}
	}
	if bytes.HasPrefix(out, []byte("\ufeff")) {
		blank(0, 3)
	}
	before, last, comma := byte(0), byte(0), -1 // the two marks before this one, and where a comma was
	for i := 0; i < len(out); {
		end := i + 1
		switch c := out[i]; {
		case c == '"':
			for end < len(out) && out[end] != '"' {
				if out[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(out))
		case bytes.HasPrefix(out[i:], []byte("//")):
			end = lineEnd(out, i)
			blank(i, end)
		case bytes.HasPrefix(out[i:], []byte("/*")):
			n := bytes.Index(out[i+2:], []byte("*/"))
			if n < 0 {
				return out // not closed: it is not JSON
			}
			end = i + 2 + n + 2
			blank(i, end)
		case (c == '}' || c == ']') && last == ',' && before != ',' && before != '{' && before != '[':
			blank(comma, comma+1)
		case c == ',':
			comma = i
		}
		if c := out[i]; strings.IndexByte(" \t\r\n", c) < 0 {
			before, last = last, c
		}
		i = end
	}
	return out
}

func lineEnd(text []byte, from int) int {
	if n := bytes.IndexByte(text[from:], '\n'); n >= 0 {
		return from + n
	}
	return len(text)
}

// indentOf is how the document indents: the spaces before its first key.
func indentOf(text []byte) string {
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimLeft(line, " \t")
		if len(trimmed) < len(line) && len(bytes.TrimSpace(trimmed)) > 0 && trimmed[0] == '"' {
			return string(line[:len(line)-len(trimmed)])
		}
	}
	return "  "
}

// sameJSON compares two texts by what they say.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	xs, _ := json.Marshal(x)
	ys, _ := json.Marshal(y)
	return bytes.Equal(xs, ys)
}

// Setting is the text of a member of a JSON document, comments or not; empty
// where there is none.
func Setting(text []byte, path ...string) string {
	root, err := parseJSON(text)
	if err != nil {
		return ""
	}
	if n := root.at(path...); n != nil {
		return string(text[n.start:n.end])
	}
	return ""
}
