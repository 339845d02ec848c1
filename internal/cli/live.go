package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// redraw replaces the last line of a terminal, cut to what fits.
func redraw(w io.Writer, text string) {
	width := 80
	if f, ok := w.(*os.File); ok {
		if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 {
			width = cols
		}
	}
	fmt.Fprint(w, "\r"+short(clean(text), width-1)+"\x1b[K")
}

// erase clears the last line of a terminal.
func erase(w io.Writer) { fmt.Fprint(w, "\r\x1b[K") }
