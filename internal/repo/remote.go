package repo

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// RemoteWith returns the remote that had a branch when git last fetched from
// it, "origin" if it is one of several, or nothing. It reads git's files. Only
// for refs in tables (reftable) does it run git, and not with quick.
func (t Tree) RemoteWith(branch string, quick bool) string {
	if t.Git == "" {
		return ""
	}
	var found []string
	all := remotes(filepath.Join(t.Git, "config"))
	if len(all) == 0 {
		return ""
	}
	tables := IsDir(filepath.Join(t.Git, "reftable"))
	if tables && quick {
		return ""
	}
	packed, _ := os.ReadFile(filepath.Join(t.Git, "packed-refs")) // often there is none
	for _, remote := range all {
		ref := "refs/remotes/" + remote + "/" + branch
		if isFile(filepath.Join(t.Git, filepath.FromSlash(ref))) || bytes.Contains(packed, []byte(" "+ref+"\n")) || tables && t.hasRef(ref) {
			found = append(found, remote)
		}
	}
	switch {
	case len(found) == 0:
		return ""
	case slices.Contains(found, "origin"):
		return "origin"
	}
	return found[0]
}

// HasRemote reports whether git's configuration has a remote of that name, with
// an address. A name that could also be a folder further away does not count.
func (t Tree) HasRemote(name string) bool {
	return t.Git != "" && !strings.ContainsAny(name, `/\`) && slices.Contains(remotes(filepath.Join(t.Git, "config")), name)
}

// hasRef asks git.
func (t Tree) hasRef(ref string) bool {
	return exec.Command("git", "--git-dir="+t.Git, "show-ref", "--verify", "--quiet", ref).Run() == nil
}

// remotes reads the names of the remotes that have an address in git's
// configuration. It leaves out names that could lead out of refs/remotes.
func remotes(config string) (names []string) {
	for _, s := range settings(config) {
		quoted, ok := strings.CutPrefix(s.section, "remote ")
		name := unquote(strings.TrimSpace(quoted))
		if ok && s.key == "url" && s.value != "" && name != "" && filepath.IsLocal(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// isFile distinguishes a branch "x" from the folder of branches "x/…".
func isFile(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode().IsRegular()
}
