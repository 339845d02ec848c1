//go:build unix

package server_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/torture/long"
)

const doc = "../../docs/http-tasks.md"

// TestDocumentedOperations: the document has every operation on tasks, sections, pools
// and jobs, with its role.
func TestDocumentedOperations(t *testing.T) {
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]access.Role{}
	for _, m := range regexp.MustCompile(`(?m)^\| ((?:GET|POST|DELETE) /\S+) \| (\w+) \|`).FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = access.Role(m[2])
	}
	roles := newWorld(t).server.Roles()
	for name, role := range documented {
		if roles[name] != role {
			t.Errorf("%s needs the role %q; the document says %s", name, roles[name], role)
		}
	}
	for _, list := range wanted {
		for _, name := range list {
			if documented[name] == "" && !strings.Contains(name, " /v1/locks") && name != "POST /v1/cleanup" {
				t.Errorf("%s is not in the document", name)
			}
		}
	}
}

// TestRecipes runs the recipes of the document, in order and in one shell, with curl.
func TestRecipes(t *testing.T) {
	long.NotShort(t) // needs curl and jq
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllSubmatch(text, -1)
	if len(blocks) < 3 {
		t.Fatalf("%d recipes", len(blocks))
	}
	script := "set -euo pipefail\nmake() { echo made; }\ndate() { [ $1 = +%s ] && echo 1900000000 || echo 2030-03-17; }\n" // midnight does not come
	for _, b := range blocks {
		script += string(b[1])
	}
	w := newWorld(t)
	key := w.key(access.Worker, "ci").Secret
	run := func() (string, error) {
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = append(os.Environ(), "URL="+w.addr, "TASKLOCK_ACCESS_KEY="+key)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"made", `"released"`, `"half of it"`, `"completed":1`, `"Review the release"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	// The container of the same day does nothing.
	if out, err := run(); err != nil || strings.Contains(out, "made") {
		t.Errorf("again: %v: %s", err, out)
	}
	if r := w.must(200, "GET", "/v1/tasks", key, "", nil); strings.Count(r.text, "Review the release") != 1 {
		t.Error(r.text)
	}
}
