package host

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// Parent returns the parent of a process, and the visible words of the process's
// own command line. The name that the process gave itself comes first.
func Parent(pid int) (parent int, words []string, err error) {
	if !procIsOurs() {
		return 0, nil, errors.New("/proc belongs to another pid namespace")
	}
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	line, err := os.ReadFile(dir + "stat")
	if err != nil {
		return 0, nil, err
	}
	text := string(line)
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	f := strings.Fields(text[end+1:])
	if open < 0 || end < open || len(f) < 2 {
		return 0, nil, errors.New("short stat line")
	}
	if parent, err = strconv.Atoi(f[1]); err != nil {
		return 0, nil, err
	}
	words = []string{text[open+1 : end]}
	if args, err := os.ReadFile(dir + "cmdline"); err == nil {
		words = append(words, strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")...)
	}
	return parent, words, nil
}
