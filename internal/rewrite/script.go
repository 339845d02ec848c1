package rewrite

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// script is a text that a shell reads, and where its bytes stand in the command. The
// text may be a quoted part of the command.
type script struct {
	text       string
	begin, end []int // of each byte, -1 where nothing can be put; nil: the text is the whole command
	tail       int   // inside of empty quotes at the end, 0: there are none
}

// of is the source of a node.
func (s script) of(n syntax.Node) string { return s.text[n.Pos().Offset():n.End().Offset()] }

// before is the place in the command to insert text before byte i of the script; -1:
// there is none.
func (s script) before(i int) int {
	switch {
	case s.begin == nil:
		return i
	case i < len(s.begin):
		return s.begin[i]
	case s.tail > 0:
		return s.tail
	}
	return -1
}

// behind is the place to insert text behind byte i-1 of the script.
func (s script) behind(i int) int {
	if s.begin == nil || i == 0 || s.end[i-1] < 0 {
		return s.before(i)
	}
	return s.end[i-1]
}

// inner is the text of a word that is all in quotes, apart from escaped quotes
// between them. A variable in double quotes stays as it is written, because only the
// running shell knows its value; ok is false for any other expansion.
func (s script) inner(word *syntax.Word) (out script, ok bool) {
	var text strings.Builder
	add := func(t string, from, to int) { // bytes of the script
		text.WriteString(t)
		for i := range len(t) {
			b, e := from, to
			if len(t) == to-from {
				b, e = from+i, from+i+1
			}
			out.begin, out.end = append(out.begin, s.before(b)), append(out.end, s.behind(e))
		}
	}
	for _, part := range word.Parts {
		from, to := int(part.Pos().Offset()), int(part.End().Offset())
		out.tail = 0
		switch p := part.(type) {
		case *syntax.SglQuoted:
			if p.Dollar {
				return script{}, false
			}
			if p.Value == "" {
				out.tail = s.before(from + 1)
			}
			add(s.text[from+1:to-1], from+1, to-1)
		case *syntax.DblQuoted:
			if p.Dollar || !doubleQuoted(s, p, add) {
				return script{}, false
			}
		case *syntax.Lit:
			if t := s.text[from:to]; t != `\'` && t != `\"` {
				return script{}, false
			}
			text.WriteByte(s.text[from+1])
			out.begin, out.end = append(out.begin, -1), append(out.end, -1)
		default:
			return script{}, false
		}
	}
	out.text = text.String()
	return out, out.text != ""
}

// doubleQuoted adds what stands in double quotes, without the backslashes that escape.
func doubleQuoted(s script, q *syntax.DblQuoted, add func(t string, from, to int)) bool {
	for _, part := range q.Parts {
		from, to := int(part.Pos().Offset()), int(part.End().Offset())
		switch p := part.(type) {
		case *syntax.ParamExp:
			if !single(p) || p.Exp != nil || p.Repl != nil || p.Slice != nil || p.Index != nil {
				return false
			}
			add(s.text[from:to], from, to)
		case *syntax.Lit:
			for i := from; i < to; i++ {
				n := 1
				if s.text[i] == '\\' && i+1 < to && strings.IndexByte("$`\"\\\n", s.text[i+1]) >= 0 {
					n = 2
				}
				if c := s.text[i+n-1]; n == 1 || c != '\n' {
					add(string(c), i, i+n)
				}
				i += n - 1
			}
		default:
			return false
		}
	}
	return true
}

// single reports whether an expansion in double quotes is one word.
func single(p *syntax.ParamExp) bool {
	if p.Param == nil || p.Param.Value == "@" || p.Names != 0 {
		return false
	}
	if index, ok := p.Index.(*syntax.Word); ok && index.Lit() == "@" {
		return false
	}
	return true
}

// literal is the text of a word; ok is false if the shell puts something into it.
func literal(word *syntax.Word) (text string, ok bool) {
	var b strings.Builder
	for _, part := range word.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(unescaped(p.Value, ""))
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, in := range p.Parts {
				lit, ok := in.(*syntax.Lit)
				if !ok || p.Dollar {
					return "", false
				}
				b.WriteString(unescaped(lit.Value, "$`\"\\\n"))
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// unescaped takes away the backslashes before these characters; all, if none are
// given.
func unescaped(text, only string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (only == "" || strings.IndexByte(only, text[i+1]) >= 0) {
			if i++; text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// spreads reports whether a word may become several, or none.
func spreads(word *syntax.Word) bool {
	for _, part := range word.Parts {
		switch p := part.(type) {
		case *syntax.Lit, *syntax.SglQuoted, *syntax.ArithmExp, *syntax.ProcSubst, *syntax.ExtGlob:
		case *syntax.DblQuoted:
			for _, in := range p.Parts {
				if e, ok := in.(*syntax.ParamExp); ok && !single(e) {
					return true
				}
			}
		default:
			return true
		}
	}
	return false
}

// start is the text of the first part of a word; empty if the shell decides it.
func start(word *syntax.Word) string {
	if len(word.Parts) == 0 {
		return ""
	}
	if text, ok := literal(&syntax.Word{Parts: word.Parts[:1]}); ok {
		return text
	}
	return ""
}

// bareFlag reports whether a word is a flag without quotes, expansions or a value.
func bareFlag(word *syntax.Word) bool {
	text := word.Lit()
	return strings.HasPrefix(text, "-") && text != "-" && text != "--" && !strings.Contains(text, "=")
}
