package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// styled is text of whoever wrote it, and how to colour it. The printer cleans
// it.
type styled struct {
	text  string
	style style
}

// row makes one row of a table. A field is styled text, or anything else for
// its plain text.
func row(fields ...any) []styled {
	out := make([]styled, len(fields))
	for i, f := range fields {
		if s, ok := f.(styled); ok {
			out[i] = s
		} else {
			out[i] = normal.of(fmt.Sprint(f))
		}
	}
	return out
}

// columns aligns rows by what is seen of them: clean text, characters counted,
// colour outside of the count. The last column is not padded.
func columns(rows [][]styled, colour bool) []string {
	var width []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(clean(c.text)))
		}
	}
	lines := make([]string, len(rows))
	for n, row := range rows {
		var b strings.Builder
		for i, c := range row {
			text := clean(c.text)
			b.WriteString(c.style.paint(text, colour))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(text)+2))
			}
		}
		lines[n] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// A style is an SGR parameter; the empty one paints nothing.
type style string

const (
	normal style = ""
	strong style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// of is text in this style.
func (s style) of(text string) styled { return styled{text, s} }

func (s style) paint(text string, colour bool) string {
	if !colour || s == normal || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
