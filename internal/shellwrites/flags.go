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
