package cli

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the commands print into their golden files")

// globalFlags are in the root's file.
var globalFlags = regexp.MustCompile(`\nGlobal Flags:\n(.+\n)+`)

// TestHelp compares the help of every command with its file in testdata/help. After
// a change of a help text, "go test ./internal/cli -run Help -update" writes the
// files anew; their difference is what a reviewer reads.
func TestHelp(t *testing.T) {
	golden := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(Help())) {
		args := strings.Fields(path)[1:]
		code, stdout, stderr := mainWith(t, nil, append(args, "--help")...)
		if code != 0 || !strings.Contains(stdout, "Usage:") || stderr != "" {
			t.Errorf("%s --help: exit %d, %q, %q", path, code, stdout, stderr)
		}
		file := filepath.Join("testdata", "help", strings.ReplaceAll(path, " ", "-")+".golden")
		golden[file] = true
		compare(t, file, globalFlags.ReplaceAllString(stdout, ""))
	}
	files, _ := filepath.Glob(filepath.Join("testdata", "help", "*"))
	for _, file := range files {
		if golden[file] {
			continue
		}
		if *update {
			_ = os.Remove(file)
		} else {
			t.Errorf("%s: there is no such command", file)
		}
	}
}

// compare requires that a golden file holds text, or makes it so.
func compare(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != text {
		t.Errorf("%s differs (%v): if the new text is right, run this test with -update\n%s", file, err, text)
	}
}
