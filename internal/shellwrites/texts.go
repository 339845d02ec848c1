package shellwrites

import (
	"regexp"
	"strings"
	"sync"
)

// Programs that edit texts by a script in their own language: sed, awk, vim, perl.

// sedWrites finds the files that w commands and flags name.
var sedWrites = sync.OnceValue(func() (out []*regexp.Regexp) {
	address := `(?m)(?:^|[;{])[ \t]*(?:\d+|\$|/[^/\n]*/)?(?:,(?:\d+|\$|/[^/\n]*/))?[ \t]*`
	out = append(out, regexp.MustCompile(address+`w[ \t]+([^\s;}]+)[ \t]*$`))
	for _, d := range []string{"/", "|", "#", ","} {
		part := regexp.QuoteMeta(d) + `(?:[^` + d + `\\\n]|\\.)*`
		out = append(out, regexp.MustCompile(address+"s"+part+part+regexp.QuoteMeta(d)+`[gpIiMme0-9]*w[ \t]+([^\s;}]+)[ \t]*$`))
	}
	return out
})

func (s *shell) sed(_ string, args []string) string {
	flags, ops := getopt(args, false, "-e", "-f", "-i=", "--expression", "--file", "--line-length")
	if flags.has("-l") && len(ops) > 0 && isAmount(ops[0]) { // -l 5; on BSD -l takes no value
		ops = ops[1:]
	}
	scripts := append(flags.values("-e", "--expression"), mapped(flags.values("-f", "--file"), s.content)...)
	if len(scripts) == 0 && len(ops) > 0 {
		scripts, ops = ops[:1], ops[1:]
	}
	for _, script := range scripts {
		for _, re := range sedWrites() {
			for _, m := range re.FindAllStringSubmatch(script, -1) {
				s.write(m[1])
			}
		}
	}
	if flags.has("-i", "--in-place") {
		s.editInPlace(ops, flags.values("-i", "--in-place"))
		return ""
	}
	if len(ops) > 0 || len(scripts) != 1 {
		return unknown
	}
	if m := regexp.MustCompile(`^s([/|#,])(.*?)[/|#,](.*?)[/|#,]$`).FindStringSubmatch(scripts[0]); m != nil && !strings.ContainsAny(m[3], `\&`) {
		return replaced(s.in, m[2], m[3])
	}
	return unknown
}

// editInPlace notes files that are edited, and copies of what they were, which have
// one of these endings.
func (s *shell) editInPlace(files, endings []string) {
	for _, ending := range endings {
		s.write(files...)
		if strings.Contains(ending, "*") {
			continue
		}
		for _, f := range files {
			s.write(f + ending)
		}
	}
}

// replaced is what a simple s command makes of each line.
func replaced(in, pat, with string) string {
	re, err := regexp.Compile(pat)
	if err != nil || !known(in) {
		return unknown
	}
	var out strings.Builder
	for line := range strings.Lines(in) {
		if at := re.FindStringIndex(line); at != nil {
			line = line[:at[0]] + with + line[at[1]:]
		}
		out.WriteString(line)
	}
	return out.String()
}

func mapped(list []string, f func(string) string) (out []string) {
	for _, e := range list {
		out = append(out, f(e))
	}
	return out
}

// awk notes what its program prints into files, and the commands that it runs.
func (s *shell) awk(_ string, args []string) string {
	vars := map[string]string{}
	for _, v := range values(args, 'v', "--assign") {
		if name, value, ok := strings.Cut(v, "="); ok {
			vars[name] = value
		}
	}
	ops := operands(args, "-v", "-F", "-f", "-i", "--assign", "--field-separator", "--file", "--include")
	programs := mapped(values(args, 'f', "--file"), s.content)
	if len(programs) == 0 && len(ops) > 0 {
		programs, ops = ops[:1], ops[1:]
	}
	for _, p := range programs {
		s.awkProgram(p, vars)
	}
	for _, lib := range append(values(args, 'i', "--include"), values(args, 0, "--include")...) {
		if lib == "inplace" {
			s.write(ops...)
		}
	}
	return unknown
}

func (s *shell) awkProgram(src string, vars map[string]string) {
	toks := tokens(src, awkWords)
	for i := range toks {
		if t := &toks[i]; t.kind == 'a' { // a name with a value that is known
			if v, ok := vars[t.text]; ok {
				*t = token{'"', v}
			}
		}
	}
	for i, t := range toks {
		if t.kind == 'a' && t.text == "system" && at(toks, i+2).kind == '"' && at(toks, i+3).text == ")" {
			s.sub().script(toks[i+2].text)
		}
		if t.kind != 'a' || t.text != "print" && t.text != "printf" {
			continue
		}
		depth := 0
		for j := i + 1; j < len(toks); j++ {
			switch u := toks[j]; {
			case u.kind == '"' || u.kind == 'a':
			case u.text == "(" || u.text == "[":
				depth++
			case u.text == ")" || u.text == "]":
				depth--
			case u.text == ";" || u.text == "}" || u.text == "\n":
				depth = -1
			case u.text == ">" && depth == 0:
				if at(toks, j+1).text == ">" && at(toks, j+1).kind == 'p' {
					j++
				}
				if to := at(toks, j+1); to.kind == '"' && endsStatement(at(toks, j+2)) {
					s.write(to.text)
				}
				depth = -1
			case u.text == "|" && depth == 0:
				if to := at(toks, j+1); to.kind == '"' {
					s.sub().script(to.text)
				}
				depth = -1
			}
			if depth < 0 {
				break
			}
		}
	}
}

func endsStatement(t token) bool {
	return t.kind == 0 || t.kind == 'p' && strings.Contains(";}\n)", t.text)
}

// saving finds the commands of vim and ed that write.
var saving = compiled(`(?m)^[\s:]*(?:%|\d+(?:,\d+)?|1,\$|sil(?:ent)?!?\s+)?\s*(?:(w|wq|wa|wqa|wall|x|xa|xit|up|update|write)!?)(?:[ \t]+([^\s|]+))?[ \t]*$`)

// editor follows vim, ex and ed by the commands that they are given.
func (s *shell) editor(name string, args []string) {
	valued := []string{"-c", "--cmd", "-S", "-u", "-U", "-i", "-p"}
	if (name == "vim" || name == "nvim" || name == "vi") && !hasFlag(args, 'e', 'E') {
		valued = append(valued, "-s", "-T")
	}
	flags, ops := getopt(args, false, valued...)
	commands := append(flags.values("-c", "--cmd"), mapped(flags.values("-S", "-s"), s.content)...)
	var files []string
	for _, a := range ops {
		if command, ok := strings.CutPrefix(a, "+"); ok {
			commands = append(commands, command)
		} else {
			files = append(files, a)
		}
	}
	if (name == "ed" || name == "ex" || hasFlag(args, 'e', 'E', 's')) && known(s.in) {
		commands = append(commands, s.in)
	}
	if hasFlag(args, 'R') {
		return
	}
	for _, c := range commands {
		for _, part := range append([]string{c}, strings.Split(c, "|")...) {
			for _, m := range saving().FindAllStringSubmatch(part, -1) {
				if m[2] != "" {
					s.write(m[2])
				} else {
					s.write(files...)
				}
			}
		}
	}
}

// perl and ruby edit in place, or run code.
func (s *shell) perl(name string, args []string) {
	valued := []string{"-e", "-E", "-I", "-i=", "-M=", "-m=", "-F=", "-C="}
	l := perlCode
	if name == "ruby" {
		l, valued = rubyCode, append(valued, "-r", "-C")
	}
	flags, files := getopt(args, true, valued...) // what follows a program in a file is for that program
	codes, edited := flags.values("-e", "-E"), files
	if len(codes) == 0 && len(files) > 0 {
		edited = files[1:] // the first is the program
	}
	s.editInPlace(edited, flags.values("-i"))
	if len(codes) == 0 && (len(files) == 0 || files[0] == "-") && known(s.in) {
		codes = append(codes, s.in)
	}
	for _, c := range codes {
		s.codeText(l, c)
	}
}
