package git

import (
	"context"
	"slices"
	"strings"
	"time"
)

// statusTime bounds how long git may look for changed files.
const statusTime = 20 * time.Second

// Changed returns the files of a worktree that differ from the last commit,
// untracked ones too, by their names in the repository.
func Changed(ctx context.Context, top string) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	out, err := run(ctx, top, "status", "--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain", "-z", "-uall", "--", ".")
	if err != nil {
		return nil, err
	}
	fields := strings.Split(out, "\x00") // "XY name", and for renames a second name
	for i := 0; i < len(fields); i++ {
		if len(fields[i]) < 4 {
			continue
		}
		names = append(names, fields[i][3:])
		if strings.ContainsAny(fields[i][:2], "RC") && i+1 < len(fields) {
			i++
			names = append(names, fields[i])
		}
	}
	return names, nil
}

// Staged returns the files that the next commit changes.
func Staged(ctx context.Context, dir string) ([]string, error) {
	return fileNames(ctx, dir, "diff", "--cached", "--name-only", "--no-renames", "-z")
}

// Pushed returns the files of the commits that a push brings to its remote. args
// and refs are what git gives a pre-push hook: its arguments and its input.
func Pushed(ctx context.Context, dir string, args []string, refs string) ([]string, error) {
	remote := ""
	if len(args) > 0 && !(len(args) > 1 && args[0] == args[1]) { // else an address, and what any remote has is not new
		remote = "=" + args[0]
	}
	var files []string
	for line := range strings.Lines(refs) {
		f := strings.Fields(line) // local ref, local commit, remote ref, remote commit
		if len(f) != 4 || strings.Trim(f[1], "0") == "" {
			continue // the push deletes a branch and touches no file
		}
		names, err := fileNames(ctx, dir, "diff", "--name-only", "--no-renames", "-z", f[3]+"..."+f[1])
		if strings.Trim(f[3], "0") == "" || err != nil { // the remote commit is new there, or not known here
			names, err = fileNames(ctx, dir, "log", "--name-only", "--no-renames", "--format=", "-z", f[1], "--not", "--remotes"+remote)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, names...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// fileNames runs git and returns the names that it prints.
func fileNames(ctx context.Context, dir string, args ...string) (names []string, err error) {
	out, err := Run(ctx, dir, args...)
	for name := range strings.SplitSeq(out, "\x00") {
		if name = strings.TrimLeft(name, "\n"); name != "" {
			names = append(names, name)
		}
	}
	return names, err
}
