package shellwrites

import (
	"maps"
	"slices"
	"strings"
)

// Code in other languages on the command line. The reader finds paths that the code
// opens for writing, removes or moves. It distinguishes texts and comments from code,
// and knows variables whose value is a text; it computes nothing else.

// code reads what an interpreter is given: behind one of these flags, or on standard
// input. A program in a file is not read.
func (s *shell) code(l language, args []string, evaluates ...string) {
	flags, files := getopt(args, true, append(evaluates, "-m", "-r", "--require", "--import", "-W", "-X")...)
	codes := flags.values(evaluates...)
	if stdin := len(files) == 0 || files[0] == "-"; stdin && codes == nil && !flags.has("-m") && known(s.in) {
		codes = []string{s.in}
	}
	for _, c := range codes {
		s.codeText(l, c)
	}
}

// codeText finds the calls in code that write.
func (s *shell) codeText(l language, src string) {
	in := s.sub()
	in.in = unknown
	in.codeTokens(l, tokens(src, l), map[string]string{}, map[string]string{})
}

// codeTokens goes through code. It knows the variables whose value is a text or a path
// object.
func (s *shell) codeTokens(l language, toks []token, texts, paths map[string]string) {
	for i, t := range toks {
		if name, list, end := l.loop(toks, i); end > 0 {
			for _, text := range list {
				if s.r.steps += 1 + len(toks)/10; s.r.over() {
					return
				}
				more := maps.Clone(texts)
				more[name] = text
				s.codeTokens(l, toks[end:], more, maps.Clone(paths))
			}
			return
		}
		if t.kind != 'a' {
			continue
		}
		if eq := at(toks, i+1); eq.kind == 'p' && eq.text == "=" && at(toks, i+2).text != "=" {
			delete(texts, t.text)
			delete(paths, t.text)
			if v := at(toks, i+2); v.kind == '"' && !at(toks, i+3).joins() {
				texts[t.text] = v.text
			} else if p, n := l.object(toks, i+2, texts); n > 0 && !at(toks, n).joins() {
				paths[t.text] = p
			}
			continue
		}
		if p, ok := paths[t.text]; ok {
			s.methods(l, toks, i+1, p)
		}
		if p, n := l.object(toks, i, texts); n > 0 {
			s.methods(l, toks, n, p)
		}
		s.calls(l, toks, i, texts)
	}
}

// loop reads for NAME in ["x", "y"], and returns where its body begins.
func (l language) loop(toks []token, i int) (name string, list []string, end int) {
	if !l.triple || at(toks, i).kind != 'a' || at(toks, i).text != "for" || at(toks, i+1).kind != 'a' || at(toks, i+2).text != "in" ||
		at(toks, i+3).kind != 'p' || !strings.Contains("[(", at(toks, i+3).text) {
		return "", nil, 0
	}
	for n := i + 4; n < len(toks); n++ {
		switch t := toks[n]; {
		case t.kind == '"':
			list = append(list, t.text)
		case t.kind == 'p' && (t.text == "," || t.text == "\n"):
		case t.kind == 'p' && (t.text == "]" || t.text == ")") && at(toks, n+1).text == ":" && len(list) > 0:
			return toks[i+1].text, list, n + 2
		default:
			return "", nil, 0
		}
	}
	return "", nil, 0
}

// joins reports whether a token behind a text makes another text of it: + or a call.
func (t token) joins() bool {
	return t.kind == 'p' && strings.Contains("+%./", t.text) || t.kind == '"'
}

// object reads Path("x"), and returns where it ends.
func (l language) object(toks []token, i int, texts map[string]string) (path string, end int) {
	if at(toks, i).kind == 'a' && at(toks, i+1).text == "." { // pathlib.Path
		i += 2
	}
	if !slices.Contains(l.path, at(toks, i).text) || at(toks, i).kind != 'a' || at(toks, i+1).text != "(" || at(toks, i+3).text != ")" {
		return "", 0
	}
	p, ok := value(at(toks, i+2), texts)
	if !ok {
		return "", 0
	}
	n := i + 4
	for at(toks, n).text == "/" && at(toks, n).kind == 'p' { // Path("a") / "b"
		part, ok := value(at(toks, n+1), texts)
		if !ok {
			return "", 0
		}
		p, n = p+"/"+part, n+2
	}
	return p, n
}

func value(t token, texts map[string]string) (string, bool) {
	if t.kind == '"' {
		return t.text, true
	}
	v, ok := texts[t.text]
	return v, ok && t.kind == 'a'
}

// methods notes what is done with a path object.
func (s *shell) methods(l language, toks []token, i int, path string) {
	for at(toks, i).text == ")" { // (Path("a") / "b").write_text
		i++
	}
	if at(toks, i).text != "." || at(toks, i+2).text != "(" {
		return
	}
	switch name := at(toks, i+1).text; {
	case name == "open":
		if mode := at(toks, i+3); mode.kind == '"' && writing(mode.text) {
			s.write(path)
		}
	case slices.Contains(l.method, name):
		s.write(path)
		if to := at(toks, i+3); (name == "rename" || name == "replace") && to.kind == '"' {
			s.write(to.text)
		}
	}
}

func writing(mode string) bool {
	return len(mode) > 0 && len(mode) < 5 && strings.ContainsAny(mode, "wax+>")
}

// calls notes what one function of the language writes.
func (s *shell) calls(l language, toks []token, i int, texts map[string]string) {
	name, from := toks[i].text, i+1
	bracket := at(toks, from).text == "(" && at(toks, from).kind == 'p'
	if bracket {
		from++
	} else if at(toks, from).kind != '"' || l.triple { // perl: unlink "x"
		return
	}
	method := at(toks, i-1).text == "." && at(toks, i-1).kind == 'p'
	of := at(toks, i-2)
	args := arguments(toks, from, texts)
	arg := func(n int) string {
		if n < len(args) {
			return args[n]
		}
		return unknown
	}
	switch {
	case slices.Contains(l.open, name):
		s.opens(l, name, of, method, args)
	case l.triple && method && of.kind != 'a': // "x".replace(…)
	case l.triple && (name == "replace" || name == "remove" || name == "copy" || name == "rename") && (!method || of.text != "os" && of.text != "shutil"):
	case l.triple && name == "run" && method && of.text != "subprocess":
	case l.newline && !l.triple && (name == "write" || name == "delete" || name == "new") && of.text != "File" && of.text != "IO":
	default:
		p := l.writes[name]
		if p&first != 0 {
			s.changes(name, arg(0))
		}
		if p&second != 0 {
			s.tree(arg(1))
		}
		if slices.Contains(l.commands, name) {
			s.runs(toks, from, arg(0), args)
		}
	}
}

// changes notes the first path of a function: gone, or written.
func (s *shell) changes(name, path string) {
	for _, begin := range []string{"rm", "re", "un", "mv", "move", "delete"} {
		if strings.HasPrefix(name, begin) {
			s.gone(path)
			return
		}
	}
	s.write(path)
}

// opens notes a file that is opened with a mode for writing.
func (s *shell) opens(l language, name string, of token, method bool, args []string) {
	if l.triple && method && !slices.Contains([]string{"io", "codecs", "gzip", "builtins", "os"}, of.text) || l.newline && !l.triple && of.text != "File" && of.text != "IO" {
		return
	}
	for n, a := range args {
		if n == 0 || !known(a) {
			continue
		}
		mode := strings.TrimPrefix(a, "mode=")
		if l.comment == "#" && !l.newline { // perl: open(F, ">", "x"), open(F, ">x")
			if file := strings.TrimLeft(a, "+> "); strings.HasPrefix(a, ">") || strings.HasPrefix(a, "+>") {
				if file == "" && n+1 < len(args) {
					file = args[n+1]
				}
				s.write(file)
			}
			continue
		}
		if n <= 2 && writing(mode) {
			s.write(args[0])
			return
		}
	}
}

// runs follows a command that code runs: a line, or its words in a list.
func (s *shell) runs(toks []token, from int, line string, args []string) {
	if at(toks, from).text == "[" {
		var words []string
		for i := from + 1; i < len(toks) && at(toks, i).text != "]"; i++ {
			switch t := toks[i]; t.kind {
			case '"':
				words = append(words, t.text)
			case 'a':
				words = append(words, unknown)
			}
		}
		if len(words) > 0 {
			s.r.nested(func() string { return s.sub().call(words) })
		}
		return
	}
	if len(args) > 1 && known(args[1]) && !strings.Contains(line, " ") && !strings.Contains(args[1], "=") { // system("rm", "x")
		s.r.nested(func() string { return s.sub().call(args) })
		return
	}
	if known(line) {
		s.sub().script(line)
	}
}

// arguments are the texts between brackets, unknown where one is computed.
func arguments(toks []token, from int, texts map[string]string) (out []string) {
	depth := 0
	var now []token
	flush := func() {
		if len(now) == 0 {
			return
		}
		v := unknown
		if t, ok := value(now[0], texts); ok && len(now) == 1 {
			v = t
		} else if len(now) == 3 && now[0].kind == 'a' && now[1].text == "=" && now[2].kind == '"' {
			v = now[0].text + "=" + now[2].text
		}
		out, now = append(out, v), nil
	}
	for i := from; i < len(toks) && len(out) < 20; i++ {
		t := toks[i]
		mark := ""
		if t.kind == 'p' {
			mark = t.text
		}
		switch mark {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
		if depth < 0 || depth == 0 && mark == ";" {
			break
		}
		if depth == 0 && mark == "," {
			flush()
		} else if mark != "\n" {
			now = append(now, t)
		}
	}
	flush()
	return out
}
