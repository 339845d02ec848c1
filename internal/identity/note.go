package identity

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/repo"
)

// A Note says which session lives in a process of a harness. The harness names the
// session to its hooks, but not to everything that it runs (the shell commands of
// Gemini, the MCP servers of Codex): those find the note of a process above them.
type Note struct {
	Harness string       `json:"harness"`
	Session string       `json:"session"`
	Process host.Process `json:"process"`
}

const (
	maxNote     = 4096                // bytes of the file of one note
	keepUnknown = 30 * 24 * time.Hour // a note of which it cannot be known whether its process lives
)

// Remember keeps a note while its process lives, and drops those of dead ones.
func Remember(env func(string) string, n Note) error {
	dir, err := notesFolder(env, true)
	if err != nil {
		return err
	}
	tidy(dir)
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return host.WriteFile(n.file(dir), data, 0o600)
}

// Forget drops the note of a session that has ended.
func Forget(env func(string) string, n Note) {
	if dir, err := notesFolder(env, false); err == nil {
		_ = os.Remove(n.file(dir))
	}
}

func (n Note) file(dir string) string {
	return filepath.Join(dir, digest(n.Harness+" "+n.Session+" "+n.Process.Boot+" "+n.Process.NS+" "+n.Process.Start)+".json")
}

// notesFolder is in the user's state folder, where only that user can write.
func notesFolder(env func(string) string, create bool) (string, error) {
	state, base := place.State(env)
	if state == "" || !repo.IsDir(base) {
		return "", errors.New("the user has no folder for what tasklock remembers")
	}
	dir := filepath.Join(state, "sessions")
	if create {
		return dir, os.MkdirAll(dir, 0o700)
	}
	return dir, nil
}

// notes reads all notes. What cannot be read is absent.
func notes(dir string) (out []Note) {
	eachFile(dir, func(name string, fi os.FileInfo) {
		if n, ok := readNote(name, fi); ok {
			out = append(out, n)
		}
	})
	return out
}

// tidy removes the notes of dead processes and, once they are old, those of unknown
// ones: of an earlier boot, or of another machine or container with the same home.
// It also removes half-written notes.
func tidy(dir string) {
	eachFile(dir, func(name string, fi os.FileInfo) {
		n, ok := readNote(name, fi)
		life := host.Unknown
		if ok {
			life = n.Process.Life()
		}
		if life == host.Dead || life == host.Unknown && time.Since(fi.ModTime()) > keepUnknown {
			_ = os.Remove(name)
		}
	})
}

func eachFile(dir string, do func(name string, fi os.FileInfo)) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, f := range files {
		if fi, err := f.Info(); err == nil && fi.Mode().IsRegular() {
			do(filepath.Join(dir, f.Name()), fi)
		}
	}
}

func readNote(name string, fi os.FileInfo) (n Note, ok bool) {
	if fi.Size() > maxNote || filepath.Ext(name) != ".json" {
		return n, false
	}
	data, err := os.ReadFile(name)
	return n, err == nil && json.Unmarshal(data, &n) == nil && n.Session != "" && n.Process.PID > 1
}

// notesAbove are the notes of the nearest process of a harness above this one. Notes
// further up belong to outer sessions.
func notesAbove(env func(string) string) (out []Note) {
	dir, err := notesFolder(env, false)
	if err != nil {
		return nil
	}
	all := notes(dir)
	if len(all) == 0 {
		return nil
	}
	_ = ancestors(func(pid int, words []string) bool {
		for _, n := range all {
			if n.Process.PID != pid {
				continue
			}
			if p, err := host.Find(pid); err == nil && p == n.Process {
				out = append(out, n)
			}
		}
		return len(out) > 0 || harnessOf(words) != ""
	})
	return out
}

// notesOf are the notes of a harness.
func notesOf(above []Note, harness string) []Note {
	return slices.DeleteFunc(slices.Clone(above), func(n Note) bool { return n.Harness != harness })
}

// sole is the session of a harness, if there is only one.
func sole(above []Note, harness string) (only Note) {
	if notes := notesOf(above, harness); len(notes) == 1 {
		only = notes[0]
	}
	return only
}

// sessionsOf names the sessions of a harness that were noted.
func sessionsOf(above []Note, harness string) (owners []string) {
	for _, n := range notesOf(above, harness) {
		owners = append(owners, sessionName(n.Harness, n.Session))
	}
	slices.Sort(owners)
	return owners
}
