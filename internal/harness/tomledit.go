package harness

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/pelletier/go-toml/v2"
)

// tomlTable is a table in a TOML document, inserted as a block of text. We read the
// document before and after, because a harness does not start with one that cannot
// be read, or that has a table twice.
type tomlTable struct {
	path []string
	*block
}

var codexServer = &tomlTable{[]string{"mcp_servers", "tasklock"}, &block{
	begin: "# tasklock:begin", end: "# tasklock:end",
	text: "[mcp_servers.tasklock]\ncommand = \"tasklock\"\nargs = [\"mcp\"]",
}}

func (t *tomlTable) install(text []byte) ([]byte, error) {
	rest := t.block.remove(text)
	before, err := parseTOML(rest)
	if err != nil {
		return nil, err
	}
	if t.take(before) { // somebody's own is as good
		return rest, nil
	}
	out := t.block.install(text)
	after, err := parseTOML(out)
	if err != nil || !t.take(after) || !reflect.DeepEqual(before, after) {
		return nil, fmt.Errorf("there is no place for a table in it; write by hand:\n%s", t.text)
	}
	return out, nil
}

func (t *tomlTable) remove(text []byte) ([]byte, error) {
	out := t.block.remove(text)
	before, err := parseTOML(text)
	if err != nil { // perhaps because of ours
		_, err = parseTOML(out)
		return out, err
	}
	after, err := parseTOML(out)
	if err != nil {
		return nil, err
	}
	t.take(before)
	t.take(after)
	if !reflect.DeepEqual(before, after) {
		return nil, fmt.Errorf("what follows the line %q belongs to the table above it: give it a table of its own first", t.end)
	}
	return out, nil
}

// take takes our table out of a document, with the tables around it that are then
// empty, and reports whether it was there.
func (t *tomlTable) take(doc map[string]any) bool {
	around, at := []map[string]any{doc}, doc
	for _, key := range t.path[:len(t.path)-1] {
		inner, ok := at[key].(map[string]any)
		if !ok {
			return false
		}
		at = inner
		around = append(around, at)
	}
	_, there := at[t.path[len(t.path)-1]]
	for i := len(around) - 1; i >= 0 && (i == len(around)-1 || len(around[i+1]) == 0); i-- {
		delete(around[i], t.path[i])
	}
	return there
}

func parseTOML(text []byte) (map[string]any, error) {
	doc := map[string]any{}
	err := toml.Unmarshal(text, &doc)
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		return nil, fmt.Errorf("line %d is not TOML: %w", line, err)
	}
	return doc, err
}
