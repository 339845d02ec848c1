package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Settings of harnesses belong to people. They are changed as text: what is put
// in is one piece at one place, and taking it out again leaves the file byte
// for byte as it was; order, spaces and unknown keys stay.

// jsonNode is a value with the place of its text.
type jsonNode struct {
	start, end int
	keys       []string    // of an object
	keyStarts  []int       // where each key begins
	items      []*jsonNode // values of an object, or of an array
	open       byte        // '{', '[' or 0
}

// parseJSON reads a whole document, which must be an object.
func parseJSON(text []byte) (*jsonNode, error) {
	var any map[string]json.RawMessage
	if err := json.Unmarshal(text, &any); err != nil {
		var bad *json.SyntaxError
		if errors.As(err, &bad) {
			return nil, fmt.Errorf("line %d is not JSON: %w", 1+bytes.Count(text[:min(int(bad.Offset), len(text))], []byte("\n")), err)
		}
		return nil, fmt.Errorf("is not a JSON object: %w", err)
	}
	p := jsonScanner{text: text}
	return p.value(), nil
}

// jsonScanner walks over text that is known to be valid.
type jsonScanner struct {
	text []byte
	pos  int
}

func (p *jsonScanner) space() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *jsonScanner) value() *jsonNode {
	p.space()
	n := &jsonNode{start: p.pos}
	switch c := p.text[p.pos]; c {
	case '{', '[':
		n.open = c
		p.pos++
		for p.space(); p.text[p.pos] != c+2; p.space() { // '}' and ']' stand two after their openers
			if p.text[p.pos] == ',' {
				p.pos++
				p.space()
			}
			if c == '{' {
				start := p.pos
				p.scalar()
				var key string
				_ = json.Unmarshal(p.text[start:p.pos], &key)
				n.keys, n.keyStarts = append(n.keys, key), append(n.keyStarts, start)
				p.space()
				p.pos++ // the colon
			}
			n.items = append(n.items, p.value())
		}
		p.pos++
	default:
		p.scalar()
	}
	n.end = p.pos
	return n
}

// scalar skips a string, number or word.
func (p *jsonScanner) scalar() {
	if p.text[p.pos] != '"' {
		for p.pos < len(p.text) && strings.IndexByte(" \t\r\n,]}", p.text[p.pos]) < 0 {
			p.pos++
		}
		return
	}
	for p.pos++; p.text[p.pos] != '"'; p.pos++ {
		if p.text[p.pos] == '\\' {
			p.pos++
		}
	}
	p.pos++
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
	for i := len(n.keys) - 1; i >= 0; i-- { // of two the last counts
		if n.keys[i] == key {
			return i
		}
	}
	return -1
}

// itemStart is where an item with its key begins.
func (n *jsonNode) itemStart(i int) int {
	if n.open == '{' {
		return n.keyStarts[i]
	}
	return n.items[i].start
}

// insertJSON puts an item at the end of an object (with its key) or an array.
func insertJSON(text []byte, n *jsonNode, key, value string, depth int) []byte {
	unit := indentOf(text)
	indent := strings.Repeat(unit, depth+1)
	var b bytes.Buffer
	at := n.start + 1
	if len(n.items) > 0 {
		at = n.items[len(n.items)-1].end
		b.WriteByte(',')
	}
	b.WriteString("\n" + indent)
	if n.open == '{' {
		name, _ := json.Marshal(key)
		b.Write(name)
		b.WriteString(": ")
	}
	_ = json.Indent(&b, []byte(value), indent, unit)
	if len(n.items) == 0 && n.end-n.start == 2 && depth > 0 {
		b.WriteString("\n" + strings.Repeat(unit, depth)) // "{}" was in one line
	}
	return bytes.Join([][]byte{text[:at], b.Bytes(), text[at:]}, nil)
}

// cutJSON takes an item out, the other way round.
func cutJSON(text []byte, n *jsonNode, i int) []byte {
	from, to := n.start+1, n.items[i].end
	switch {
	case i > 0:
		from = n.items[i-1].end
	case len(n.items) > 1:
		from, to = n.itemStart(0), n.itemStart(1)
	}
	return append(bytes.Clone(text[:from]), text[to:]...)
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
