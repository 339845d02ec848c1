package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// entry is a value in a JSON document: a member of an object, or an element of
// an array.
type entry struct {
	path  []string // the object or array around it; made where it is missing
	key   string   // of a member; empty: an element
	value string
	ours  func(json.RawMessage) bool // also one of an earlier version
}

func (e entry) install(text []byte) ([]byte, error) {
	for depth := range e.path { // make what is around it
		root, err := parseJSON(text)
		if err != nil {
			return nil, err
		}
		if root.at(e.path[:depth+1]...) == nil {
			fresh := "{}"
			if depth == len(e.path)-1 && e.key == "" {
				fresh = "[]"
			}
			around := root.at(e.path[:depth]...)
			if around.open != '{' {
				return nil, fmt.Errorf("%s is not an object", strings.Join(e.path[:depth], "."))
			}
			text = insertJSON(text, around, e.path[depth], fresh, depth)
		}
	}
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	n := root.at(e.path...)
	switch {
	case e.key != "" && n.open != '{' || e.key == "" && n.open != '[':
		return nil, fmt.Errorf("%s holds something else", strings.Join(e.path, "."))
	case e.key != "" && n.index(e.key) >= 0: // somebody's own entry is as good
		return text, nil
	case e.key == "":
		if i := e.find(text, n); i >= 0 {
			if sameJSON(plainJSON(text)[n.items[i].start:n.items[i].end], []byte(e.value)) {
				return text, nil
			}
			if text, err = e.remove(text); err != nil { // of an earlier version
				return nil, err
			}
			return e.install(text)
		}
	}
	return insertJSON(text, n, e.key, e.value, len(e.path)), nil
}

// find is the place of our element in an array, or -1.
func (e entry) find(text []byte, n *jsonNode) int {
	plain := plainJSON(text)
	return slices.IndexFunc(n.items, func(i *jsonNode) bool { return e.ours(plain[i.start:i.end]) })
}

func (e entry) remove(text []byte) ([]byte, error) {
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	n := root.at(e.path...)
	if n == nil {
		return text, nil
	}
	i := -1
	switch {
	case e.key != "" && n.open == '{':
		if i = n.index(e.key); i >= 0 && !sameJSON(plainJSON(text)[n.items[i].start:n.items[i].end], []byte(e.value)) {
			return text, nil // not as we wrote it
		}
	case e.key == "" && n.open == '[':
		i = e.find(text, n)
	}
	if i < 0 {
		return text, nil
	}
	// What was made around it goes with it.
	for depth := len(e.path); depth > 0 && len(n.items) == 1; depth-- {
		n = root.at(e.path[:depth-1]...)
		i = n.index(e.path[depth-1])
	}
	return cutJSON(text, n, i), nil
}
