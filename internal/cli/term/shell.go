package term

import (
	"strings"
)

// QuotedLine is a command line that a shell reads back as these words.
func QuotedLine(words []string) string { return strings.Join(Each(words, ShellQuote), " ") }

// Each is a text for each member of a list.
func Each[T any](list []T, text func(T) string) []string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = text(one)
	}
	return texts
}

// ShellQuote quotes a word for a POSIX shell, where that is needed.
func ShellQuote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("@%_+=:,./-", r))
	}) {
		return s
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return !Visible(r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	// Spell out invisible characters, in the form of bash, zsh and ksh.
	var b strings.Builder
	b.WriteString("$'")
	for _, c := range []byte(s) {
		switch {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			const hex = "0123456789abcdef"
			b.WriteString(`\x`)
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
