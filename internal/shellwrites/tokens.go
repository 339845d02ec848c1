package shellwrites

import (
	"slices"
	"strings"
)

// Code in other languages is cut into names, texts and the rest.

// token is a piece of code: kind 'a' a name, '"' a text, 'p' anything else.
type token struct {
	kind byte
	text string
}

func at(list []token, i int) token {
	if i < 0 || i >= len(list) {
		return token{}
	}
	return list[i]
}

// tokens cuts code into its pieces.
func tokens(src string, l language) (out []token) {
	isName := func(c byte) bool {
		return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	}
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '\n':
			out = append(out, token{'p', "\n"})
			i++
		case strings.HasPrefix(src[i:], l.comment):
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case strings.HasPrefix(src[i:], "/*") && l.comment == "//":
			if end := strings.Index(src[i+2:], "*/"); end >= 0 {
				i += end + 4
			} else {
				i = len(src)
			}
		case strings.IndexByte(l.quotes, c) >= 0:
			body, n := quotedText(src[i:], l)
			if k := len(out); k > 0 && out[k-1].kind == 'a' && l.triple && strings.Trim(strings.ToLower(out[k-1].text), "rbuf") == "" {
				if strings.ContainsAny(out[k-1].text, "fF") && strings.Contains(body, "{") {
					body = unknown
				}
				out = out[:k-1] // r"…", f"…"
			}
			if c == '`' && strings.Contains(body, "${") || c == '"' && !l.triple && l.comment == "#" && strings.ContainsAny(body, "$#@") && l.quotes != `"` {
				body = unknown
			}
			out = append(out, token{'"', body})
			i += n
		case isName(c):
			n := i
			for n < len(src) && isName(src[n]) {
				n++
			}
			out = append(out, token{'a', src[i:n]})
			i = n
		default:
			out = append(out, token{'p', src[i : i+1]})
			i++
		}
	}
	return slices.Clip(out)
}

// quotedText reads a text in quotes, and how long it is.
func quotedText(src string, l language) (string, int) {
	q := src[:1]
	if l.triple && strings.HasPrefix(src, strings.Repeat(q, 3)) {
		if end := strings.Index(src[3:], strings.Repeat(q, 3)); end >= 0 {
			return src[3 : 3+end], end + 6
		}
		return unknown, len(src)
	}
	var b strings.Builder
	for i := 1; i < len(src); i++ {
		switch {
		case src[i] == '\\' && i+1 < len(src):
			i++
			if src[i] == 'n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(src[i])
			}
		case src[i] == q[0]:
			return b.String(), i + 1
		default:
			b.WriteByte(src[i])
		}
	}
	return unknown, len(src)
}
