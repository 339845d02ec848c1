package term

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text is a text of any author, and its colour. The printer cleans it.
type Text struct {
	text  string
	style Style
}

// Row makes one row of a table. A field is styled text, or any value for its plain
// text.
func Row(fields ...any) []Text {
	out := make([]Text, len(fields))
	for i, f := range fields {
		if s, ok := f.(Text); ok {
			out[i] = s
		} else {
			out[i] = Normal.Of(fmt.Sprint(f))
		}
	}
	return out
}

// columns aligns rows by what is visible: clean text, characters counted without
// colour. The last column is not padded.
func columns(rows [][]Text, colour bool) []string {
	var width []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(Clean(c.text)))
		}
	}
	lines := make([]string, len(rows))
	for n, row := range rows {
		var b strings.Builder
		for i, c := range row {
			text := Clean(c.text)
			b.WriteString(c.style.paint(text, colour))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(text)+2))
			}
		}
		lines[n] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// A Style is an SGR parameter; the empty one paints nothing.
type Style string

const (
	Normal Style = ""
	Strong Style = "1"
	Faint  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Of is text in this style.
func (s Style) Of(text string) Text { return Text{text, s} }

func (s Style) paint(text string, colour bool) string {
	if !colour || s == Normal || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
