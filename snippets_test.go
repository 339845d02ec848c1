package tasklock_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// TestGoInDocs compiles every ```go block of the documents. A block that is not a
// whole program may use ctx, st and send. The program of the README also runs, and
// links the driver that it imports and nothing of the command.
func TestGoInDocs(t *testing.T) {
	docs, _ := filepath.Glob("docs/*.md")
	more, _ := filepath.Glob("docs/*/*.md")
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, doc := range append(append(docs, more...), "README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range goBlock.FindAllSubmatch(text, -1) {
			name := fmt.Sprintf("%s-%d", strings.NewReplacer("/", "-", ".md", "").Replace(doc), i)
			file := filepath.Join(dir, name+".go")
			if err := os.WriteFile(file, []byte(program(string(m[1]))), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay.Replace[filepath.Join(root, "in-docs", name, "main.go")] = file
		}
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	for path := range overlay.Replace {
		name := filepath.Base(filepath.Dir(path))
		_, out := command(t, dir, "build", "-o", filepath.Join(dir, name), "./in-docs/"+name)
		for _, line := range strings.Split(out, "\n") {
			if line != "" && !strings.HasPrefix(line, "#") && !strings.Contains(line, "declared and not used") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
	run := exec.Command(filepath.Join(dir, "README-0"))
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "deploying with token ") {
		t.Errorf("the program of the README: %v: %s", err, out)
	}
	deps, _ := command(t, dir, "list", "-deps", "./in-docs/README-0")
	for _, heavy := range []string{"pgx", "go.etcd.io", "cobra", "net/http\n", module + "internal/cli", module + "store/gitstore"} {
		if strings.Contains(deps, heavy) {
			t.Errorf("a program with locks in SQLite links %s", heavy)
		}
	}
	if !strings.Contains(deps, module+"store/sqlitestore") {
		t.Error("it does not even link its driver:", deps)
	}
}

func command(t *testing.T, dir, verb string, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{verb, "-overlay", filepath.Join(dir, "overlay.json")}, args...)...)
	var errs strings.Builder
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), &errs
	out, err := cmd.Output()
	if err != nil && errs.Len() == 0 {
		t.Fatal(cmd.Args, err)
	}
	return string(out), errs.String()
}

// program makes a block a program that compiles, but for variables that it does
// not use.
func program(block string) string {
	if strings.HasPrefix(block, "package ") {
		return block
	}
	imports := ""
	for _, pkg := range []string{"os", "errors", "fmt", "time", module + "lock", module + "runner", module + "schedule", module + "task"} {
		if strings.Contains(block, filepath.Base(pkg)+".") {
			imports += fmt.Sprintf("%q\n", pkg)
		}
	}
	return "package main\nimport (\n\"context\"\n\"" + module + "store\"\n" + imports + ")\n" +
		"var send func(context.Context, string) error\n" +
		"func main() {\nvar ctx context.Context\nvar st *store.Store\n_, _ = ctx, st\n" + block + "}\n"
}
