package agent

import "strings"

// What a dollar or a backtick in a word stands for.

// dollar reads an expansion. Only variables that were set to something known
// have a value; scripts inside are kept for later.
func (l *lexer) dollar(b *builder, quoted bool) {
	rest := l.src[l.pos:]
	switch {
	case rest[0] == '`':
		l.pos++
		l.substitute(b, l.nested('`'))
	case strings.HasPrefix(rest, "$(("):
		l.arithmetic()
		b.unknown = true
	case strings.HasPrefix(rest, "$("):
		l.pos += 2
		l.substitute(b, l.nested(')'))
	case strings.HasPrefix(rest, "$'"):
		start := l.pos + 2
		for l.pos = start; l.pos < len(l.src) && l.src[l.pos] != '\''; l.pos++ {
			if l.src[l.pos] == '\\' {
				b.unknown = true
				l.pos++
			}
		}
		l.pos = min(l.pos, len(l.src))
		b.literal(l.src[start:l.pos])
		l.pos = min(len(l.src), l.pos+1)
	default:
		name, n := variable(rest)
		l.pos += n
		value, known := l.env[name]
		known = known && fill(l.room, value.text)
		switch {
		case name == "" && n == 1: // a dollar and nothing else
			b.literal("$")
		case known && !quoted && len(split(value)) > 1:
			b.unknown, b.list = true, split(value)
		case known:
			b.value(value)
		default:
			b.unknown = true
		}
	}
}

// substitute puts what a script prints in its place, where that can be told.
func (l *lexer) substitute(b *builder, script string) {
	l.subs = append(l.subs, script)
	switch list := l.out(script); len(list) {
	case 0:
		b.unknown = true
	case 1:
		b.value(list[0])
	default:
		b.unknown, b.list = true, list
	}
}

// split returns the words that a value without quotes falls into.
func split(w shellWord) (out []shellWord) {
	if w.pattern != "" {
		return []shellWord{w}
	}
	for field := range strings.FieldsSeq(w.text) {
		out = append(out, shellWord{text: field, known: true})
	}
	return out
}

// variable returns the name after a dollar and how long the expansion is.
// ${x:-y} and the like have no name that could be looked up.
func variable(s string) (name string, n int) {
	isName := func(c byte) bool {
		return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	}
	braces := strings.HasPrefix(s, "${")
	n = 1
	if braces {
		n = 2
	}
	start := n
	for n < len(s) && isName(s[n]) {
		n++
	}
	name = s[start:n]
	switch {
	case braces && n < len(s) && s[n] == '}':
		return name, n + 1
	case braces:
		if end := strings.IndexByte(s, '}'); end > 0 {
			return " ", end + 1
		}
		return " ", len(s)
	case name == "" && n < len(s) && strings.IndexByte("@*#?-$!", s[n]) >= 0:
		return " ", n + 1
	}
	return name, n
}

// nested skips a script up to the character that closes it, and returns it.
func (l *lexer) nested(closing byte) string {
	start, depth := l.pos, 0
	cmd, subs, docs := l.cmd, l.subs, l.docs
	l.docs, l.deep = nil, l.deep+1
	defer func() { l.cmd, l.subs, l.docs, l.deep = cmd, subs, docs, l.deep-1 }()
	for l.pos < len(l.src) && l.deep < maxDeep {
		switch c := l.src[l.pos]; {
		case c == '\\':
			l.pos++
		case c == '\'' && closing != '`':
			if end := strings.IndexByte(l.src[l.pos+1:], '\''); end >= 0 {
				l.pos += end + 1
			}
		case c == '"' && closing == ')':
			l.skipDouble()
			continue
		case closing == ')' && strings.HasPrefix(l.src[l.pos:], "<<") && !strings.HasPrefix(l.src[l.pos:], "<<<"):
			l.redirection()
			continue
		case c == '\n' && len(l.docs) > 0:
			l.pos++
			l.readDocs()
			continue
		case c == closing && depth == 0:
			l.pos++
			return l.src[start : l.pos-1]
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		}
		l.pos++
	}
	l.pos = len(l.src)
	return l.src[start:]
}

// skipDouble skips what stands between double quotes, scripts within included.
func (l *lexer) skipDouble() {
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; {
		case c == '\\':
			l.pos++
		case c == '"':
			l.pos++
			return
		case strings.HasPrefix(l.src[l.pos:], "$("):
			l.pos += 2
			l.nested(')')
			l.pos--
		}
	}
	l.pos = min(l.pos, len(l.src))
}

// arithmetic skips $((…)), in which << is no here-document.
func (l *lexer) arithmetic() {
	depth := 0
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch l.src[l.pos] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			l.pos++
			return
		}
	}
}
