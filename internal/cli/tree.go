package cli

import (
	"strings"
)

// A drawing is made of lines with branches before them. Each node is drawn with
// what is below it once; where it comes again, a mark says so. That ends circles
// too, and bounds how much is drawn, together with these:
const (
	treeLines = 1000
	treeDepth = 40
)

// branches are the parts of a drawing.
type branches struct{ more, last, through, none string }

var (
	lineBranches  = branches{"├── ", "└── ", "│   ", "    "}
	plainBranches = branches{"|-- ", "`-- ", "|   ", "    "}
)

// branchesFor draws with lines where they can be shown: on a terminal that reads
// UTF-8.
func (a *App) branchesFor(p *printer) branches {
	locale := a.Env("LC_ALL")
	for _, name := range []string{"LC_CTYPE", "LANG"} {
		if locale == "" {
			locale = a.Env(name)
		}
	}
	locale = strings.ToLower(locale)
	if p.wide && (strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")) {
		return lineBranches
	}
	return plainBranches
}

// tree draws what is below some nodes.
type tree struct {
	p     *printer
	b     branches
	label func(id string) string
	below func(id string) []string

	drawn map[string]bool
	lines int
}

// draw draws the roots, one after the other. It reports whether all of it was
// drawn.
func (t *tree) draw(roots []string) bool {
	t.drawn = map[string]bool{}
	for _, id := range roots {
		t.node(id, "", "", 0)
	}
	return t.lines <= treeLines
}

func (t *tree) node(id, branch, indent string, depth int) {
	if t.lines++; t.lines > treeLines {
		return
	}
	below, mark := t.below(id), ""
	switch {
	case len(below) == 0:
	case t.drawn[id]:
		below, mark = nil, " (see above)"
	case depth == treeDepth:
		below, mark = nil, " (and more below it)"
	}
	t.drawn[id] = true
	t.p.line("%s%s%s", branch, t.label(id), mark)
	for i, child := range below {
		if i == len(below)-1 {
			t.node(child, indent+t.b.last, indent+t.b.none, depth+1)
		} else {
			t.node(child, indent+t.b.more, indent+t.b.through, depth+1)
		}
	}
}
