package term

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// IsTerminal reports whether a stream is one.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Redraw replaces the last line of a terminal, cut to what fits.
func Redraw(w io.Writer, text string) {
	width := 80
	if f, ok := w.(*os.File); ok {
		if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 {
			width = cols
		}
	}
	fmt.Fprint(w, "\r"+Short(Clean(text), width-1)+"\x1b[K")
}

// Erase clears the last line of a terminal.
func Erase(w io.Writer) { fmt.Fprint(w, "\r\x1b[K") }

// Bar is a bar of how much is done: [=====>      ].
func Bar(done, total int) string {
	const width = 26
	n := 0
	if total > 0 {
		n = min(done, total) * (width - 1) / total
	}
	return "[" + strings.Repeat("=", n) + ">" + strings.Repeat(" ", width-1-n) + "]"
}
