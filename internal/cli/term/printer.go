// Package term prints for people: lines, tables, trees, durations and shell words.
// Clean makes every text safe for a terminal, because others wrote some of it. The
// package knows nothing of commands and stores.
package term

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// Printer collects lines for one writer and writes them at once. Every
// argument is cleaned on its way in.
type Printer struct {
	W      io.Writer
	buf    bytes.Buffer
	Colour bool
	Wide   bool // a terminal: tables with a head and relative times
	UTF8   bool // one that can draw lines
	Dry    bool // nothing was changed: verbs say what would be
	Now    time.Time
}

// Did is the verb of a change, or of what would be one.
func (p *Printer) Did(did, would string) Text {
	if p.Dry {
		return Yellow.Of(would)
	}
	return Green.Of(did)
}

// Line adds one line. The arguments are cleaned, the format is not.
func (p *Printer) Line(format string, args ...any) {
	for i, arg := range args {
		switch v := arg.(type) {
		case Text:
			args[i] = v.style.paint(Clean(v.text), p.Colour)
		case string:
			args[i] = Clean(v)
		case error:
			args[i] = Clean(v.Error())
		case fmt.Stringer:
			args[i] = Clean(v.String())
		}
	}
	fmt.Fprintf(&p.buf, format+"\n", args...)
}

// Table prints rows under a head on a terminal, and otherwise fields separated by
// tabs, for scripts.
func (p *Printer) Table(head []string, rows [][]Text) {
	if !p.Wide {
		for _, row := range rows {
			fields := make([]string, len(row))
			for i, c := range row {
				fields[i] = Clean(c.text)
			}
			p.buf.WriteString(strings.Join(fields, "\t") + "\n")
		}
		return
	}
	top := make([]Text, len(head))
	for i, h := range head {
		top[i] = Faint.Of(h)
	}
	for _, l := range columns(append([][]Text{top}, rows...), p.Colour) {
		p.buf.WriteString(l + "\n")
	}
}

// List is Table; if there are no rows, people read none.
func (p *Printer) List(none string, head []string, rows [][]Text) {
	if len(rows) == 0 && p.Wide {
		p.Line("%s", none)
		return
	}
	p.Table(head, rows)
}

// Fields are names with values.
type Fields [][2]string

// Add adds a field, if it has a value.
func (f *Fields) Add(name, value string) {
	if value != "" {
		*f = append(*f, [2]string{name, value})
	}
}

// Fields prints names and values, one pair a line.
func (p *Printer) Fields(rows Fields) {
	table := make([][]Text, len(rows))
	for i, r := range rows {
		table[i] = Row(Faint.Of(r[0]+":"), r[1])
	}
	for _, l := range columns(table, p.Colour) {
		p.buf.WriteString(l + "\n")
	}
}

// Text prints lines as they are, each cleaned.
func (p *Printer) Text(s string) {
	for line := range strings.Lines(s) {
		p.Line("%s", strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    "))
	}
}

// When prints an instant relative and absolute: "in 57m (2026-…Z)".
func (p *Printer) When(t time.Time) string {
	return p.Relative(t) + " (" + Stamp(t) + ")"
}

// Relative prints an instant as people say it: "in 57m", "2h ago".
func (p *Printer) Relative(t time.Time) string {
	if d := t.Sub(p.Now); d > 0 {
		return "in " + Rough(d)
	}
	return Rough(p.Now.Sub(t)) + " ago"
}

// Flush writes what was collected.
func (p *Printer) Flush() error {
	_, err := p.W.Write(p.buf.Bytes())
	p.buf.Reset()
	return err
}
