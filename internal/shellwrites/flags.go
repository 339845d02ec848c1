package shellwrites

import (
	"slices"
	"strings"
)

// The words of a command line: flags, their values, and the others.

// operands returns the words that are neither flags nor the values of those
// that take one.
func operands(args []string, valued ...string) (out []string) {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return append(out, args[i+1:]...)
		case slices.Contains(valued, a):
			i++
		case strings.HasPrefix(a, "-") && a != "-":
		default:
			out = append(out, a)
		}
	}
	return out
}

// has reports whether one of the flags is given, also with a value attached.
func has(args []string, flags ...string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		for _, f := range flags {
			if a == f || strings.HasPrefix(f, "--") && strings.HasPrefix(a, f+"=") {
				return true
			}
		}
	}
	return false
}

// hasFlag reports whether a letter is among joined short flags.
func hasFlag(args []string, letters ...byte) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if len(a) < 2 || a[0] != '-' || a[1] == '-' {
			continue
		}
		for _, l := range letters {
			if strings.IndexByte(a, l) > 0 {
				return true
			}
		}
	}
	return false
}

// values returns the values of a flag: attached, or the word behind it; the
// letter may be the last of several.
func values(args []string, letter byte, long string) (out []string) {
	for i, a := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case long != "" && strings.HasPrefix(a, long+"="):
			out = append(out, a[len(long)+1:])
		case long != "" && a == long:
			out = append(out, next)
		case letter == 0 || len(a) < 2 || a[0] != '-' || a[1] == '-':
		case a[len(a)-1] == letter:
			out = append(out, next)
		case a[1] == letter:
			out = append(out, a[2:])
		}
	}
	return out
}

// given are the flags that a command line has, in their order.
type given []struct{ name, value string }

func (g given) has(names ...string) bool { return g.values(names...) != nil }

// values are those of the flags of these names; empty, where one has none.
func (g given) values(names ...string) (out []string) {
	for _, f := range g {
		if slices.Contains(names, f.name) {
			out = append(out, f.value)
		}
	}
	return out
}

// getopt reads a command line as getopt(3) does: letters may be joined, and a value
// may be attached. The valued flags take a value; one with "=" behind it takes only an
// attached one. For a program that runs another one, it ends at the first operand.
func getopt(args []string, carries bool, valued ...string) (flags given, operands []string) {
	next := func() (word string) {
		if len(args) > 0 {
			word, args = args[0], args[1:]
		}
		return word
	}
	for len(args) > 0 {
		a := next()
		name, value, attached := strings.Cut(a, "=")
		switch {
		case a == "--":
			return flags, append(operands, args...)
		case len(a) < 2 || a[0] != '-':
			if operands = append(operands, a); carries {
				return flags, append(operands, args...)
			}
		case a[1] == '-' || slices.Contains(valued, a):
			if !attached && slices.Contains(valued, name) {
				value = next()
			}
			flags = append(flags, given{{name, value}}...)
		default:
			for letters := a[1:]; letters != ""; {
				name, value, letters = "-"+letters[:1], "", letters[1:]
				if takes := slices.Contains(valued, name); takes || slices.Contains(valued, name+"=") {
					if value, letters = letters, ""; takes && value == "" {
						value = next()
					}
				}
				flags = append(flags, given{{name, value}}...)
			}
		}
	}
	return flags, operands
}

// last is the value that counts of those that a flag was given, or else another one.
func last(values []string, otherwise string) string {
	if n := len(values); n > 0 {
		return values[n-1]
	}
	return otherwise
}

// orHere is for programs that look into their folder if they are given no path.
func orHere(paths []string) []string {
	if len(paths) == 0 {
		return []string{"."}
	}
	return paths
}

// afterDashes returns what follows "--", and whether there is one.
func afterDashes(args []string) ([]string, bool) {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[i+1:], true
	}
	return nil, false
}
