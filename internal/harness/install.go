package harness

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// A File is one file of a project in which a harness finds us. Install and Remove
// change its text; both are idempotent.
type File struct {
	Path     string // relative to the root of the project
	What     string // what we put there, for people
	ByHand   string // the command that does the same for one person elsewhere, if there is one
	Guidance bool   // for the model, and shared by the harnesses that read it there
	Former   bool   // only an earlier setup may have put something there: Install leaves it alone

	entries []entry    // in JSON
	empty   string     // the document that a file which was not there begins with
	block   *block     // in other text
	table   *tomlTable // in TOML
	whole   string     // the file is all ours
}

// blank is the beginning of a document that did not exist; Remove recognises it.
func (f File) blank() string {
	if f.empty != "" {
		return f.empty
	}
	return "{\n}\n"
}

// Install returns the text with our part. The text of a missing file is nil.
func (f File) Install(text []byte) ([]byte, error) {
	switch {
	case f.Former:
		return text, nil
	case f.whole != "":
		if text != nil && !bytes.Contains(text, []byte(wholeMark)) {
			return nil, errors.New("the file is there and is not ours")
		}
		return []byte(f.whole), nil
	case f.block != nil:
		return f.block.install(text), nil
	case f.table != nil:
		return f.table.install(text)
	}
	there := string(text) == f.blank()
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte(f.blank())
	}
	for _, e := range f.entries {
		var err error
		e.tight = there
		if text, err = e.install(text); err != nil {
			return nil, err
		}
	}
	_, err := parseJSON(text) // never write what cannot be read
	return text, err
}

// Remove returns the text without what is ours; nil if only that was in it.
func (f File) Remove(text []byte) ([]byte, error) {
	switch {
	case text == nil:
		return nil, nil
	case f.whole != "" && bytes.Contains(text, []byte(wholeMark)):
		return nil, nil
	case f.whole != "":
		return text, nil
	case f.block != nil:
		return f.block.remove(text), nil
	case f.table != nil:
		return f.table.remove(text)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return text, nil
	}
	made := bytes.HasPrefix(text, []byte("{\n")) && string(text) != f.blank() // else it was there: what is put into it stands behind its bracket
	for _, e := range slices.Backward(f.entries) {
		var err error
		if text, err = e.remove(text); err != nil {
			return nil, err
		}
	}
	if made && string(text) == f.blank() {
		return nil, nil
	}
	return text, nil
}

// In reports whether the text holds something of ours.
func (f File) In(text []byte) bool {
	rest, err := f.Remove(text)
	return text != nil && err == nil && !bytes.Equal(rest, text)
}

// Exclude is the file that lists what git ignores in this clone alone.
// The names count from the root of a worktree.
func Exclude(harness string, names []string) File {
	return File{Path: "info/exclude", What: "the names of these files", block: &block{
		begin: "# tasklock:begin " + harness, end: "# tasklock:end " + harness, text: "/" + strings.Join(names, "\n/"),
	}}
}
