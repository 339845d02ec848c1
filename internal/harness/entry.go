package harness

import (
	"fmt"
	"slices"
	"strings"
)

// entry is a value in a JSON document: a member of an object, or an element of
// an array, which holds hooks.
type entry struct {
	path  []string // the object or array around it; made where it is missing
	key   string   // of a member; empty: an element
	value string
	tight bool // in the document itself it goes right behind the bracket, which tells Remove that the file was there
}

func (e entry) install(text []byte) ([]byte, error) {
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	n, depth := root, 0
	for ; depth < len(e.path) && n.open == '{' && n.index(e.path[depth]) >= 0; depth++ {
		n = n.at(e.path[depth])
	}
	if depth < len(e.path) { // what is around it is made, in one piece with it
		if n.open != '{' {
			return nil, fmt.Errorf("%s is not an object", strings.Join(e.path[:depth], "."))
		}
		return insertJSON(text, n, e.path[depth], e.within(e.path[depth+1:]), depth, e.tight && depth == 0), nil
	}
	switch {
	case e.key != "" && n.open != '{' || e.key == "" && n.open != '[':
		return nil, fmt.Errorf("%s holds something else", strings.Join(e.path, "."))
	case e.key != "" && n.index(e.key) >= 0: // somebody's own entry is as good
		return text, nil
	case e.key == "":
		found := e.find(text, n)
		if len(found) == 1 && sameJSON(withoutOthers(plainJSON(text)[n.items[found[0]].start:n.items[found[0]].end]), []byte(e.value)) {
			return text, nil
		}
		if len(found) > 0 { // of an earlier version, or twice
			if text, err = e.remove(text); err != nil {
				return nil, err
			}
			return e.install(text)
		}
	}
	return insertJSON(text, n, e.key, e.value, depth, false), nil
}

// within is our value with the objects around it that path names, and the array.
func (e entry) within(path []string) string {
	value := e.value
	if e.key == "" {
		value = "[" + value + "]"
	} else {
		value = "{" + jsonText(e.key) + ":" + value + "}"
	}
	for _, key := range slices.Backward(path) {
		value = "{" + jsonText(key) + ":" + value + "}"
	}
	return value
}

// find are the places of the elements in an array that hold hooks of ours.
func (e entry) find(text []byte, n *jsonNode) (found []int) {
	plain := plainJSON(text)
	for i, item := range n.items {
		if mine, alone := oursIn(plain[item.start:item.end]); alone || len(mine) > 0 && item.at("hooks") != nil {
			found = append(found, i)
		}
	}
	return found
}

// remove takes our value out, every time it occurs.
func (e entry) remove(text []byte) ([]byte, error) {
	for {
		rest, err := e.removeOne(text)
		if err != nil || len(rest) == len(text) {
			return rest, err
		}
		text = rest
	}
}

func (e entry) removeOne(text []byte) ([]byte, error) {
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
		if found := e.find(text, n); len(found) > 0 {
			i = found[0]
			if mine, alone := oursIn(plainJSON(text)[n.items[i].start:n.items[i].end]); !alone { // somebody's own stays
				return cutJSON(text, n.items[i].at("hooks"), mine[0]), nil
			}
		}
	}
	if i < 0 {
		return text, nil
	}
	// Objects that we made around it go with it; existing empty ones stay.
	for depth := len(e.path); depth > 0 && len(n.items) == 1 && n.items[0].begin > n.start+1; depth-- {
		n = root.at(e.path[:depth-1]...)
		i = n.index(e.path[depth-1])
	}
	return cutJSON(text, n, i), nil
}
