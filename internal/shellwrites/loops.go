package shellwrites

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// Loops and case.

// loop follows for, once for each value.
func (s *shell) loop(c *syntax.ForClause) string {
	var out strings.Builder
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		values := s.params
		if l.InPos.IsValid() {
			values = s.fields(l.Items...)
		}
		for i, v := range values {
			if i == maxTurns || s.r.over() {
				s.r.unsure("a loop has too many turns")
				break
			}
			s.vars[l.Name.Value] = text(v)
			out.WriteString(s.stmts(c.Do))
		}
	case *syntax.CStyleLoop:
		cfg := s.config()
		if l.Init != nil {
			_, _ = expand.Arithm(cfg, l.Init)
		}
		for range maxTurns {
			if l.Cond != nil {
				if n, err := expand.Arithm(cfg, l.Cond); n == 0 || err != nil {
					break
				}
			}
			if out.WriteString(s.stmts(c.Do)); s.r.over() {
				break
			}
			if l.Post != nil {
				_, _ = expand.Arithm(cfg, l.Post)
			}
		}
	}
	return out.String()
}

// while follows "while read", once for each line; of other loops one turn is seen.
func (s *shell) while(c *syntax.WhileClause) string {
	names, raw, ok := s.reads(c.Cond)
	if !ok {
		return s.stmts(c.Cond) + s.stmts(c.Do)
	}
	var out strings.Builder
	lines := strings.FieldsFunc(s.in, func(c rune) bool { return c == '\n' || c == 0 })
	s.in = unknown
	for i, line := range lines {
		if i == maxTurns || s.r.over() {
			s.r.unsure("a loop has too many turns")
			break
		}
		s.readInto(names, line, raw)
		out.WriteString(s.stmts(c.Do))
	}
	return out.String()
}

// reads finds "read NAME…" as the condition of a loop.
func (s *shell) reads(cond []*syntax.Stmt) (names []string, raw, ok bool) {
	if len(cond) == 0 {
		return nil, false, false
	}
	st := cond[len(cond)-1]
	if b, is := st.Cmd.(*syntax.BinaryCmd); is { // read f || [ -n "$f" ]
		st = b.X
	}
	call, is := st.Cmd.(*syntax.CallExpr)
	if !is || len(call.Args) == 0 || call.Args[0].Lit() != "read" {
		return nil, false, false
	}
	args := s.fields(call.Args[1:]...)
	raw = hasFlag(args, 'r')
	return operands(args, "-d", "-u", "-t", "-n", "-N", "-p", "-i", "-a"), raw, true
}

func (s *shell) readInto(names []string, line string, raw bool) {
	if len(names) == 0 {
		names = []string{"REPLY"}
	}
	values := expand.ReadFields(s.config(), line, len(names), raw)
	for i, n := range names {
		value := ""
		if i < len(values) {
			value = values[i]
		}
		_ = s.Set(n, text(value))
	}
}

// choose follows the branches of case that may fit.
func (s *shell) choose(c *syntax.CaseClause) string {
	word := s.literal(c.Word)
	var out strings.Builder
	for _, item := range c.Items {
		fits := false
		for _, p := range item.Patterns {
			s.prepare(p)
			pat, err := expand.Pattern(s.config(), p)
			fits = fits || err != nil || !known(word) || !known(pat) || matches(pat, word)
		}
		if !fits {
			continue
		}
		out.WriteString(s.stmts(item.Stmts))
		if item.Op == syntax.Break && known(word) {
			break
		}
	}
	return out.String()
}

// matches reports whether a pattern of the shell means a text.
func matches(pat, text string) bool { return matcher(pat)(text) }

func matcher(pat string) func(text string) bool {
	if expr, err := pattern.Regexp(pat, pattern.EntireString); err == nil {
		if re, err := regexp.Compile(expr); err == nil {
			return re.MatchString
		}
	}
	return func(string) bool { return false }
}
