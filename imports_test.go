// Package tasklock_test holds what is true of the whole tree.
package tasklock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tasklock/tasklock/"

// layers names the packages from the bottom up. A package may import those of
// the layers below its own, and nothing beside or above it. Drivers stand
// outside: they see the contract, and only commands see them.
var layers = [][]string{
	{"internal/fault", "internal/fault/plant", "internal/patience", "internal/torture/long", "internal/edge"},
	{"internal/host", "internal/repo"},
	{"internal/place", "internal/git"},
	{"store/driver", "internal/githooks", "internal/landing"},
	{"internal/local", "internal/door", "store/driver/drivertest", "internal/proxy", "store"},
	{"internal/pgtest", "internal/etcdtest"},
	{"internal/lease"},
	{"internal/locktest", "lock", "internal/holder", "internal/access"},
	{"task", "internal/shutdown", "internal/presence"},
	{"runner", "internal/identity", "internal/rewrite", "internal/shellwrites"},
	{"internal/harness", "internal/guard", "schedule", "internal/worker"},
	{"internal/problem", "internal/legacy"},
	{"internal/server", "internal/mcpserver"},
	{"internal/cli/term"},
	{"internal/cli/config"},
	{"internal/cli/view"},
	{"internal/cli/session"},
	{"internal/cli/hold"},
	{"internal/cli/leasecmd", "internal/cli/lockcmd", "internal/cli/taskcmd", "internal/cli/jobcmd", "internal/cli/agentcmd", "internal/cli/setupcmd"},
	{"internal/cli"},
}

// public names the packages that other programs import. The rest of the tree is
// free to change.
var public = []string{"lock", "task", "schedule", "runner", "store", "store/driver", "store/driver/drivertest"}

var (
	// A driver imports the contract, and what drivers on a local disk share or what
	// goes over the wire.
	drivers   = []string{"store/memstore", "store/sqlitestore", "store/filestore", "store/gitstore", "store/pgstore", "store/etcdstore", "store/httpstore"}
	driverMay = []string{"internal/fault", "internal/host", "store/driver", "internal/local", "internal/door"}
	// The commands, and the harness that races them, may import everything.
	tops = []string{"cmd/tasklock", "cmd/tasklock-plus", "internal/backend", "internal/realagents", "internal/torture"}
)

// TestImportsRunOneWay fails when a package imports one that stands above or
// beside it, when anything but a command names a driver, or when a package
// appears that has no place.
func TestImportsRunOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		names := strings.Fields(line)
		pkg := short(names[0])
		for _, imp := range names[1:] {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if reason := forbidden(pkg, short(imp)); reason != "" {
				t.Errorf("%s imports %s: %s", pkg, short(imp), reason)
			}
		}
		if reason := noCobra(pkg); reason != "" && slices.Contains(names[1:], cobra) {
			t.Errorf("%s imports %s: %s", pkg, cobra, reason)
		}
		if pkg != "" && place(pkg) < 0 {
			t.Errorf("%s has no place in the layers of this test and of docs/design.md", pkg)
		}
		if pkg != strings.TrimSuffix(module, "/") && !strings.HasPrefix(pkg, "internal/") && !strings.HasPrefix(pkg, "cmd/") && !has(public, pkg) && !has(drivers, pkg) {
			t.Errorf("%s is for other programs to import: put it under internal", pkg)
		}
	}
}

// TestImportRuleCanFail shows that the rule sees what it is there for.
func TestImportRuleCanFail(t *testing.T) {
	for _, c := range [][2]string{
		{"store", "internal/lease"},
		{"internal/lease", "internal/cli"},
		{"store/sqlitestore", "internal/lease"},
		{"internal/cli", "store/sqlitestore"},
		{"internal/harness", "schedule"},
		{"store/memstore", "store/sqlitestore"},
		{"internal/host", "store/driver"},
		{"internal/lease", "internal/torture"},
		{"internal/cli/term", "internal/cli/session"},
		{"internal/cli/session", "internal/cli/hold"},
		{"internal/cli/taskcmd", "internal/cli/leasecmd"},
		{"internal/cli/agentcmd", "internal/cli"},
	} {
		if forbidden(c[0], c[1]) == "" {
			t.Errorf("%s may import %s", c[0], c[1])
		}
	}
	for _, pkg := range []string{"internal/cli/term", "internal/cli/config", "internal/cli/view", "internal/lease"} {
		if noCobra(pkg) == "" {
			t.Errorf("%s may import %s", pkg, cobra)
		}
	}
}

var internal = regexp.MustCompile(`\b(lease|host|local|place|repo|fault|problem)\.[A-Z]\w*`)

// TestPublicTypesCanBeNamed: the documentation of a public package mentions
// nothing that another program cannot name. An alias makes a type of an internal
// package public.
func TestPublicTypesCanBeNamed(t *testing.T) {
	for _, pkg := range slices.Concat(public, drivers) {
		out, err := exec.Command("go", "doc", "-all", "./"+pkg).Output()
		if err != nil {
			t.Fatal(pkg, err)
		}
		for _, line := range strings.Split(string(out), "\n") {
			if name := internal.FindString(line); name != "" && !strings.Contains(line, " = "+name) {
				t.Errorf("%s: nobody can name %s: %s", pkg, name, line)
			}
		}
	}
}

// TestPlainCommandIsLight: who takes a lock does not load what only servers and
// other stores need.
func TestPlainCommandIsLight(t *testing.T) {
	heavy := []string{"net/http\n", "github.com/modelcontextprotocol/", "go.etcd.io/", module + "internal/mcpserver", module + "internal/server", module + "store/etcdstore", module + "store/httpstore"}
	for cmd, want := range map[string]bool{"./cmd/tasklock": false, "./cmd/tasklock-plus": true} {
		out, err := exec.Command("go", "list", "-deps", cmd).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range heavy {
			if strings.Contains(string(out), h) != want {
				t.Errorf("%s links %s: not %v", cmd, h, want)
			}
		}
	}
}

// TestPlainCommandStartsLight: a package that prepares expressions or tables before
// main makes every command slower, also those that never use it.
func TestPlainCommandStartsLight(t *testing.T) {
	const most = 10_000 // bytes; one regular expression takes 5,000
	bin := filepath.Join(t.TempDir(), "tasklock")
	if out, err := exec.Command("go", "build", "-o", bin, "./cmd/tasklock").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	cmd := exec.Command(bin, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	traced := regexp.MustCompile(`(?m)^init (\S+) .* (\d+) bytes, \d+ allocs`).FindAllStringSubmatch(string(out), -1)
	if len(traced) == 0 {
		t.Fatalf("no trace of the start: %s", out)
	}
	for _, m := range traced {
		if n, _ := strconv.Atoi(m[2]); strings.HasPrefix(m[1], module) && n > most {
			t.Errorf("%s allocates %d bytes before main, at most %d: do it at the first use (sync.OnceValue)", m[1], n, most)
		}
	}
}

func short(path string) string { return strings.TrimPrefix(path, module) }

func has(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// place is the layer of a package, or -1.
func place(pkg string) int {
	for i, layer := range layers {
		if has(layer, pkg) {
			return i
		}
	}
	if has(tops, pkg) || has(drivers, pkg) || pkg == strings.TrimSuffix(module, "/") {
		return len(layers)
	}
	return -1
}

// cobra reads command lines.
const cobra = "github.com/spf13/cobra"

// noCobra says why a package may not import cobra. What is below the session must
// be of use without a command line.
func noCobra(pkg string) string {
	if place(pkg) >= place("internal/cli/session") && strings.HasPrefix(pkg, "internal/cli") {
		return ""
	}
	return "only the session and what is above it reads a command line"
}

func forbidden(pkg, imp string) string {
	switch {
	case has(tops, pkg):
		return ""
	case has(tops, imp):
		return "nothing imports a command"
	case strings.HasPrefix(pkg, "internal/cli/") && imp == "store/gitstore":
		return "" // for what only git can do; both commands have it
	case has(drivers, imp):
		return "only a command names a driver"
	case has(drivers, pkg):
		if !has(driverMay, imp) {
			return "a driver sees only the contract"
		}
		return ""
	case place(imp) >= place(pkg):
		return "imports run downwards"
	}
	return ""
}
