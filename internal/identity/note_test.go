package identity

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
)

// A note is found below its process, by nobody else, and goes with the process.
func TestNotes(t *testing.T) {
	home := t.TempDir()
	env := func(k string) string { return map[string]string{"HOME": home, "LocalAppData": home}[k] }
	parent, err := host.Find(os.Getppid())
	if err != nil {
		t.Skip("the parent of this process cannot be seen: ", err)
	}
	if got := notesAbove(env); len(got) != 0 {
		t.Fatalf("found %v", got)
	}
	mine := Note{"gemini", "g/1", parent}
	must(t, Remember(env, mine))
	must(t, Remember(env, mine)) // after a compaction
	if got := notesAbove(env); len(got) != 1 || got[0] != mine {
		t.Fatalf("found %v, want %v", got, mine)
	}
	earlier := mine
	earlier.Session, earlier.Process.Start = "earlier", "0"
	dead := Note{"gemini", "dead", deadProcess(t)}
	for _, n := range []Note{earlier, dead} {
		must(t, Remember(env, n))
		if got := notesAbove(env); len(got) != 1 || got[0] != mine {
			t.Errorf("found %v beside %v", got, n)
		}
	}
	must(t, Remember(env, mine))
	dir, err := notesFolder(env, false)
	must(t, err)
	for _, n := range notes(dir) {
		if n == dead || n == earlier {
			t.Errorf("%v is still there", n)
		}
	}
	away := Note{"gemini", "away", parent}
	away.Process.Boot = "another boot, or another machine with the same home"
	must(t, Remember(env, away))
	must(t, os.WriteFile(filepath.Join(dir, "new-0"), nil, 0o600))
	must(t, Remember(env, mine))
	if n := len(notes(dir)); n != 2 {
		t.Errorf("%d notes, want that of an unknown process too", n)
	}
	for _, name := range []string{away.file(dir), filepath.Join(dir, "new-0"), mine.file(dir)} {
		must(t, os.Chtimes(name, time.Time{}, time.Now().Add(-keepUnknown-time.Hour)))
	}
	must(t, Remember(env, Note{"pi", "p", parent}))
	if all := notes(dir); len(all) != 2 || slices.Contains(all, away) || !slices.Contains(all, mine) {
		t.Errorf("%v are left", all)
	}
	if _, err := os.Stat(filepath.Join(dir, "new-0")); err == nil {
		t.Error("a file that was half written is still there")
	}
	Forget(env, Note{"pi", "p", parent})
	for name, text := range map[string]string{"a.json": "{", "b.json": `{"session":"x"}`, "c.txt": "x", "new-1": "{}"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if got := notesAbove(env); len(got) != 1 {
		t.Errorf("rubbish beside it: found %v", got)
	}
	if fi, err := os.Stat(mine.file(dir)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	Forget(env, mine)
	if got := notesAbove(env); len(got) != 0 {
		t.Errorf("found %v after the end", got)
	}
	none := func(string) string { return "" }
	if Remember(none, mine) == nil || len(notesAbove(none)) > 0 {
		t.Error("a note without a home")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func deadProcess(t *testing.T) host.Process {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	must(t, cmd.Start())
	p, err := host.Find(cmd.Process.Pid)
	must(t, err)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	return p
}
