package term

// A drawing is lines with branches before them. It shows each node with its
// children once; a mark replaces a repetition. That also ends cycles and limits the
// drawing, together with these:
const (
	TreeLines = 1000
	treeDepth = 40
)

// branches are the parts of a drawing.
type branches struct{ more, last, through, none string }

var (
	lineBranches  = branches{"├── ", "└── ", "│   ", "    "}
	plainBranches = branches{"|-- ", "`-- ", "|   ", "    "}
)

// tree draws what is below some nodes.
type tree struct {
	p     *Printer
	b     branches
	label func(id string) string
	below func(id string) []string

	drawn map[string]bool
	lines int
}

// Tree draws the roots with what is below them, and then the rest that is below no
// root: a cycle has none. It reports whether it drew everything.
func (p *Printer) Tree(roots, rest []string, label func(id string) string, below func(id string) []string) bool {
	t := &tree{p: p, b: plainBranches, label: label, below: below, drawn: map[string]bool{}}
	if p.UTF8 {
		t.b = lineBranches
	}
	for _, id := range roots {
		t.node(id, "", "", 0)
	}
	for _, id := range rest {
		if !t.drawn[id] {
			t.node(id, "", "", 0)
		}
	}
	return t.lines <= TreeLines
}

func (t *tree) node(id, branch, indent string, depth int) {
	if t.lines++; t.lines > TreeLines {
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
	t.p.Line("%s%s%s", branch, t.label(id), mark)
	for i, child := range below {
		if i == len(below)-1 {
			t.node(child, indent+t.b.last, indent+t.b.none, depth+1)
		} else {
			t.node(child, indent+t.b.more, indent+t.b.through, depth+1)
		}
	}
}
