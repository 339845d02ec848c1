package term

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes foreign text safe to print: owners, reasons, paths and the text of a
// store may have terminal escapes. Control characters appear in caret notation,
// everything else that is invisible or moves its neighbours as \u{…}, bytes that
// are not text as \x{…}. The result is one line.
//
// All text for people passes through here; JSON has Escape.
func Clean(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x{%02x}`, s[i])
		case r < ' ':
			b.WriteByte('^')
			b.WriteByte(byte(r) + '@')
		case r == 0x7f:
			b.WriteString("^?")
		case !Visible(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plain is the common case: nothing to do.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Visible reports whether r shows as itself and does not affect the rest of the
// line: no control (C1 included), no direction mark, no zero width, no blank but a
// space.
func Visible(r rune) bool {
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0:
		return false // letters and marks without a glyph
	}
	return unicode.IsGraphic(r) && !unicode.Is(unicode.Cf, r)
}

// Escape does for encoded JSON what Clean does for text. Such characters occur only
// inside strings, where \uXXXX means the same.
func Escape(encoded []byte) []byte {
	if plain(string(bytes.TrimRight(encoded, "\n"))) {
		return encoded
	}
	var b bytes.Buffer
	for _, r := range string(encoded) {
		switch {
		case r == '\n' || Visible(r):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// Short cuts text to n characters.
func Short(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Plural counts things whose plural ends in s.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
