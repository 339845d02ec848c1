package agent

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A small reader of POSIX shell, enough to see which files a command line
// writes. It runs nothing and never fails: what it does not understand it
// leaves out, and what only a running shell knows (variables from elsewhere,
// the output of commands) it does not guess.

// shellWord is one word after quoting is undone.
type shellWord struct {
	text    string
	pattern string      // the word as a pattern; "" where it has no wildcard
	there   bool        // the pattern means files that are there, not any that could be
	known   bool        // false: part of it is known only when it runs
	list    []shellWord // what a command prints here, where that can be told
}

// shellCommand is one simple command: words and redirections.
type shellCommand struct {
	words   []shellWord
	writes  []shellWord // files that redirections write
	heredoc string
	input   []shellWord // the names in what it reads, where they can be told
	op      string      // what ended it: ";", "(", ")", "|", …
}

// maxShell bounds what is read of one command line, and what variables add.
const maxShell = 1 << 20

// lexer cuts a script into commands.
type lexer struct {
	src  string
	pos  int
	env  map[string]shellWord            // variables whose values are known
	room *int                            // see shell
	out  func(script string) []shellWord // what a script prints, nil: nobody knows
	cmd  shellCommand
	subs []string  // scripts inside $(…) and backticks
	docs []heredoc // that begin after the next newline
	deep int       // scripts in scripts
}

// maxDeep bounds scripts in scripts: behind it nothing is read.
const maxDeep = 100

type heredoc struct {
	end  string
	tabs bool // "<<-": leading tabs do not count
}

func newLexer(src string, env map[string]shellWord, room *int, out func(string) []shellWord) *lexer {
	if len(src) > maxShell {
		src = src[:maxShell]
	}
	return &lexer{src: src, env: env, room: room, out: out}
}

// next returns the next command; more is false at the end.
func (l *lexer) next() (cmd shellCommand, more bool) {
	l.cmd = shellCommand{}
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch {
		case c == ' ' || c == '\t' || c == '\r':
			l.pos++
		case strings.HasPrefix(l.src[l.pos:], "\\\n"):
			l.pos += 2
		case c == '\n':
			l.pos++
			l.readDocs()
			l.cmd.op = ";"
			return l.cmd, true
		case c == '#':
			for l.pos < len(l.src) && l.src[l.pos] != '\n' {
				l.pos++
			}
		case (c == '<' || c == '>') && l.inTest():
			l.pos++
		case c == '<' || c == '>' || c == '&' && l.pos+1 < len(l.src) && l.src[l.pos+1] == '>':
			l.redirection()
		case strings.IndexByte(";&|()", c) >= 0:
			op := l.operator()
			l.cmd.op = op
			return l.cmd, true
		default:
			start := l.pos
			w := l.word()
			if l.pos == start { // cannot be; but never stand still
				l.pos++
				continue
			}
			if strings.Trim(l.src[start:l.pos], "0123456789") == "" && l.pos < len(l.src) && (l.src[l.pos] == '<' || l.src[l.pos] == '>') {
				continue // the number of a file, as in 2>
			}
			if w.list != nil {
				l.cmd.words = append(l.cmd.words, w.list...)
				continue
			}
			l.cmd.words = append(l.cmd.words, w)
		}
	}
	l.cmd.op = ";"
	return l.cmd, len(l.cmd.words)+len(l.cmd.writes) > 0
}

// inTest reports whether we are between [[ and ]], where < and > compare.
func (l *lexer) inTest() bool {
	n := len(l.cmd.words)
	return n > 0 && l.cmd.words[n-1].text != "]]" && slices.ContainsFunc(l.cmd.words, func(w shellWord) bool { return w.text == "[[" })
}

func (l *lexer) operator() string {
	for _, op := range []string{"&&", "||", ";;", "|&"} {
		if strings.HasPrefix(l.src[l.pos:], op) {
			l.pos += len(op)
			return op
		}
	}
	l.pos++
	return l.src[l.pos-1 : l.pos]
}

// redirection reads an operator with its word.
func (l *lexer) redirection() {
	rest := l.src[l.pos:]
	for _, op := range []string{"&>>", "<<<", "<<-", "&>", ">>", ">|", "<>", ">&", "<&", "<<", "<(", ">(", ">", "<"} {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		if op == "<(" || op == ">(" {
			l.pos += 2
			script := l.nested(')')
			l.subs = append(l.subs, script)
			l.cmd.words = append(l.cmd.words, shellWord{})
			if op == "<(" {
				l.cmd.input = l.out(script)
			}
			return
		}
		l.pos += len(op)
		for l.pos < len(l.src) && (l.src[l.pos] == ' ' || l.src[l.pos] == '\t') {
			l.pos++
		}
		start := l.pos
		w := l.word()
		switch {
		case op == "<<" || op == "<<-":
			l.docs = append(l.docs, heredoc{strings.NewReplacer(`'`, "", `"`, "", `\`, "").Replace(l.src[start:l.pos]), op == "<<-"})
		case op == "<<<" && w.known:
			l.cmd.input = split(w)
		case op == "<" || op == "<<<" || op == "<&":
		case op == ">&" && strings.Trim(w.text, "0123456789-") == "": // another number
		default:
			l.cmd.writes = append(l.cmd.writes, w)
		}
		return
	}
}

// readDocs takes the here-documents that begin in this line.
func (l *lexer) readDocs() {
	var doc strings.Builder
	for _, d := range l.docs {
		for l.pos < len(l.src) {
			line, _, _ := strings.Cut(l.src[l.pos:], "\n")
			l.pos = min(len(l.src), l.pos+len(line)+1)
			if d.tabs {
				line = strings.TrimLeft(line, "\t")
			}
			if strings.TrimRight(line, "\r") == d.end {
				break
			}
			doc.WriteString(line)
			doc.WriteByte('\n')
		}
	}
	l.cmd.heredoc += doc.String()
	l.docs = nil
}

// builder collects a word.
type builder struct {
	text, pattern strings.Builder
	wild, unknown bool
	there         bool
	list          []shellWord
}

// literal adds characters that stand for themselves.
func (b *builder) literal(s string) {
	b.text.WriteString(s)
	for _, r := range s {
		if strings.ContainsRune(`*?[]{}\`, r) {
			r = '?' // a pattern cannot say it otherwise
		}
		b.pattern.WriteRune(r)
	}
}

func (b *builder) wildcard(text, pattern string) {
	b.wild = true
	b.text.WriteString(text)
	if !strings.HasSuffix(b.pattern.String(), "*") || pattern != "*" {
		b.pattern.WriteString(pattern)
	}
}

// value adds the value of a variable, or what a command prints.
func (b *builder) value(w shellWord) {
	if w.pattern == "" {
		b.literal(w.text)
		return
	}
	b.wild, b.there = true, b.there || w.there
	b.text.WriteString(w.text)
	b.pattern.WriteString(w.pattern)
}

func (b *builder) word() shellWord {
	w := shellWord{text: b.text.String(), known: !b.unknown}
	if b.text.Len() == 0 {
		w.list = b.list
	}
	if b.wild {
		w.pattern, w.there = b.pattern.String(), b.there
	}
	return w
}

// word reads one word, up to a character that ends it.
func (l *lexer) word() shellWord {
	var b builder
	first := true
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch {
		case strings.IndexByte(" \t\r\n;&|()<>", c) >= 0:
			return b.word()
		case c == '\'':
			end := strings.IndexByte(l.src[l.pos+1:], '\'')
			if end < 0 {
				end = len(l.src) - l.pos - 1
			}
			b.literal(l.src[l.pos+1 : l.pos+1+end])
			l.pos = min(len(l.src), l.pos+end+2)
		case c == '"':
			l.pos++
			l.double(&b)
		case c == '\\':
			if l.pos+1 < len(l.src) && l.src[l.pos+1] != '\n' {
				_, n := utf8.DecodeRuneInString(l.src[l.pos+1:])
				b.literal(l.src[l.pos+1 : l.pos+1+n])
				l.pos += n - 1
			}
			l.pos = min(len(l.src), l.pos+2)
		case c == '$' || c == '`':
			l.dollar(&b, false)
		case c == '~' && first && l.env["HOME"].text != "" && (l.pos+1 == len(l.src) || strings.IndexByte("/ \t\n;&|)", l.src[l.pos+1]) >= 0):
			b.literal(l.env["HOME"].text)
			l.pos++
		case c == '*' || c == '?':
			b.wildcard(string(c), string(c))
			l.pos++
		case c == '[' || c == '{':
			l.group(&b, c)
		default:
			_, n := utf8.DecodeRuneInString(l.src[l.pos:])
			b.literal(l.src[l.pos : l.pos+n])
			l.pos += n
		}
		first = false
	}
	return b.word()
}

// maxGroup bounds how far the end of a group is looked for.
const maxGroup = 1 << 10

// group reads [abc] as one unknown character, {a,b} as any.
func (l *lexer) group(b *builder, open byte) {
	end, pattern := byte(']'), "?"
	if open == '{' {
		end, pattern = '}', "*"
	}
	n := strings.IndexByte(l.src[l.pos:min(len(l.src), l.pos+maxGroup)], end)
	inside := ""
	if n > 0 {
		inside = l.src[l.pos : l.pos+n+1]
	}
	if n <= 1 || strings.ContainsAny(inside, " \t\n;&|()<>'\"$`") || open == '{' && !strings.ContainsAny(inside, ",.") {
		b.literal(string(open))
		l.pos++
		return
	}
	b.wildcard(inside, pattern)
	l.pos += n + 1
}

// double reads what stands between double quotes.
func (l *lexer) double(b *builder) {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; c {
		case '"':
			l.pos++
			return
		case '\\':
			if l.pos+1 < len(l.src) {
				if next := l.src[l.pos+1]; strings.IndexByte("$`\"\\\n", next) >= 0 {
					if next != '\n' {
						b.literal(string(next))
					}
					l.pos += 2
					continue
				}
			}
			b.literal(`\`)
			l.pos++
		case '$', '`':
			l.dollar(b, true)
		default:
			_, n := utf8.DecodeRuneInString(l.src[l.pos:])
			b.literal(l.src[l.pos : l.pos+n])
			l.pos += n
		}
	}
}
