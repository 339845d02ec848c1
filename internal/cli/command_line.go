package cli

import (
	"slices"
	"strings"
)

// commandLine returns a tasklock command line that can be typed as it stands. It
// repeats --owner and --store where the caller gave them; only a password is left
// for the caller to fill in.
func (a *App) commandLine(args ...string) string {
	words := []string{"tasklock"}
	words = append(words, args...)
	var global []string
	if aboutItself(args) {
		return quotedLine(words)
	}
	if a.StoreURL != "" {
		global = append(global, "--store", withoutPassword(a.StoreURL))
	}
	if a.Owner != "" {
		global = append(global, "--owner", a.Owner)
	}
	if a.Timeout != "" {
		global = append(global, "--timeout", a.Timeout)
	}
	if a.UnsafeFS {
		global = append(global, "--allow-unsafe-fs")
	}
	end := slices.Index(words, "--")
	if end < 0 {
		end = len(words)
	}
	return quotedLine(slices.Insert(words, end, global...))
}

// aboutItself reports whether a command asks no store and names no owner.
func aboutItself(args []string) bool {
	return args[0] == "version" || args[len(args)-1] == "--help" || len(args) > 1 && args[0] == "config" && args[1] == "set"
}

func quotedLine(words []string) string {
	for i, w := range words {
		words[i] = shellQuote(w)
	}
	return strings.Join(words, " ")
}

// shellQuote quotes a word for a POSIX shell, where that is needed.
func shellQuote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("@%_+=:,./-", r))
	}) {
		return s
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return !visible(r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	// What cannot be shown is spelled out, in the way bash, zsh and ksh read it.
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
