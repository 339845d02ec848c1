package lease

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// A Glob is a set of files: what a path lock covers, or what somebody is about to
// touch. Paths have "/" between their parts and are relative to the repository;
// outside of one they begin with "/".
//
//   - "*" matches any characters within one part, "?" one, and "**", alone
//     between slashes, any number of parts, even none.
//   - A name whose last part has no wildcard is a file or a folder: it covers
//     itself and everything below.
//   - A name whose last part has one covers its matches and nothing below:
//     "src/*.go" does not cover src/a.go/b; "src/**" covers everything.
//
// Upper and lower case count as the same, because on many file systems they
// are, and a lock must mean the same on all machines that share it.
type Glob struct{ parts []part }

// part is one part of a path, its characters folded; wildcards are negative.
type part []rune

const (
	anyRun  rune = -1 - iota // *
	anyRune                  // ?
	anyDeep                  // **, then the only one
)

func (p part) deep() bool { return len(p) == 1 && p[0] == anyDeep }

// ParseGlob reads the name of a path lock, without "path:".
func ParseGlob(name string) (Glob, error) {
	bad := func(rule string) (Glob, error) { return Glob{}, &InvalidError{What: "path " + quote(name), Rule: rule} }
	if i := strings.IndexAny(name, `[]{}\`); i >= 0 {
		return bad(fmt.Sprintf("'%c' is not supported: use '?' in its place, or '*'", name[i]))
	}
	name, g := fromRoot(norm.NFC.String(name))
	for text := range strings.SplitSeq(name, "/") {
		switch {
		case text == "" || text == "." || text == "..":
			return bad("must not have an empty part, '.' or '..' between slashes")
		case text == "**":
			g.parts = append(g.parts, part{anyDeep})
			continue
		case strings.Contains(text, "**"):
			return bad("'**' must stand alone between slashes")
		}
		p := fold(text)
		for i, r := range p {
			switch r {
			case '*':
				p[i] = anyRun
			case '?':
				p[i] = anyRune
			}
		}
		g.parts = append(g.parts, p)
	}
	if g.parts[len(g.parts)-1].literal() {
		g.parts = append(g.parts, part{anyDeep})
	}
	return g, nil
}

// File is the set of one file with any characters in its name.
func File(path string) Glob {
	path, g := fromRoot(norm.NFC.String(path))
	for text := range strings.SplitSeq(path, "/") {
		if text != "" && text != "." {
			g.parts = append(g.parts, fold(text))
		}
	}
	return g
}

// fromRoot cuts the "/" off an absolute path. It counts as a part, so that "/x"
// and "x" are two files.
func fromRoot(path string) (rest string, g Glob) {
	rest, whole := strings.CutPrefix(path, "/")
	if whole {
		g.parts = append(g.parts, part("/"))
	}
	return rest, g
}

// Tree is the set of a file or folder and everything below it.
func Tree(path string) Glob {
	g := File(path)
	g.parts = append(g.parts, part{anyDeep})
	return g
}

func (p part) literal() bool {
	for _, r := range p {
		if r < 0 {
			return false
		}
	}
	return true
}

// fold returns the characters of a name, each as the smallest of those that
// differ from it only in case.
func fold(text string) part {
	p := part(text)
	for i, r := range p {
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			p[i] = min(p[i], other)
		}
	}
	return p
}

// Overlaps reports whether some file is in both sets. Most globs differ in a name
// before the first wildcard, so it compares those first: a hook compares thousands
// of locks with a thousand files while an agent waits.
func (g Glob) Overlaps(h Glob) bool {
	a, b := g.parts, h.parts
	for len(a) > 0 && len(b) > 0 && a[0].literal() && b[0].literal() {
		if !slices.Equal(a[0], b[0]) {
			return false
		}
		a, b = a[1:], b[1:]
	}
	return meet(a, b, part.meets, part.deep)
}

// covers reports whether g has every file of h, as far as a comparison part by part
// shows. It may return false where a closer look would find true.
func (g Glob) covers(h Glob) bool {
	for i, p := range g.parts {
		switch {
		case p.deep() && i == len(g.parts)-1:
			return true
		case i >= len(h.parts):
			return false
		case slices.Equal(p, h.parts[i]):
		case h.parts[i].deep() || p.deep():
			return false
		case len(p) == 1 && p[0] == anyRun:
		case !h.parts[i].literal() || !p.meets(h.parts[i]):
			return false
		}
	}
	return len(g.parts) == len(h.parts)
}

func (p part) meets(q part) bool {
	return meet(p, q, func(a, b rune) bool { return a == b || a == anyRune || b == anyRune }, func(r rune) bool { return r == anyRun })
}

// meet reports whether two patterns have a text in common. Parts of a path and
// characters of a part follow one rule: an element matches one element that is
// the same, a run matches any number of them. Row i says for which beginnings of b
// there is a text that the first i elements of a match too.
func meet[E any](a, b []E, same func(E, E) bool, run func(E) bool) bool {
	row := make([]bool, len(b)+1)
	row[0] = true
	for j, e := range b {
		row[j+1] = row[j] && run(e)
	}
	for _, x := range a {
		next := make([]bool, len(b)+1)
		next[0] = row[0] && run(x)
		for j, y := range b {
			switch {
			case run(x), run(y): // one of them ends here, or goes on over the other's element
				next[j+1] = row[j+1] || next[j]
			default:
				next[j+1] = row[j] && same(x, y)
			}
		}
		row = next
	}
	return row[len(b)]
}
