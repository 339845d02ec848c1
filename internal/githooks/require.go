package githooks

import (
	"context"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/git"
)

// A Requirement says which key a push to a branch needs.
type Requirement struct {
	Branch string `json:"branch"`
	Key    string `json:"key"` // empty: that of tasklock land, see [Requirement.KeyFor]
}

// landKey in git's configuration stands for the key of tasklock land.
const landKey = "land"

// KeyFor is the key that a push of this clone to a remote needs.
func (r Requirement) KeyFor(remote string) string {
	if r.Key != "" {
		return r.Key
	}
	return "land:" + remote + "/" + r.Branch
}

// Require makes the guard of a clone refuse pushes to a branch by those who do not
// hold a key.
func Require(ctx context.Context, dir string, r Requirement) error {
	key := r.Key
	if key == "" {
		key = landKey
	}
	_, err := git.Run(ctx, dir, "config", "--local", "tasklock."+r.Branch+".require", key)
	return err
}

// Requirements lists what pushes need, in the order of git's configuration.
func Requirements(ctx context.Context, dir string) (list []Requirement) {
	out, err := git.Run(ctx, dir, "config", "-z", "--get-regexp", `^tasklock\..*\.require$`)
	if err != nil { // there are none
		return nil
	}
	for entry := range strings.SplitSeq(out, "\x00") {
		name, key, _ := strings.Cut(entry, "\n")
		branch := strings.TrimSuffix(strings.TrimPrefix(name, "tasklock."), ".require")
		if key == landKey {
			key = ""
		}
		if branch != "" && branch != name {
			list = slices.DeleteFunc(list, func(r Requirement) bool { return r.Branch == branch }) // the last one counts
			list = append(list, Requirement{branch, key})
		}
	}
	return list
}

// dropRequirements ends all requirements of a clone.
func dropRequirements(ctx context.Context, dir string) {
	for _, r := range Requirements(ctx, dir) {
		_, _ = git.Run(ctx, dir, "config", "--local", "--unset-all", "tasklock."+r.Branch+".require")
	}
}

// Required picks the requirements that a push meets: args and refs are what git gives
// a pre-push hook, its arguments and its input. The keys are filled in.
func Required(ctx context.Context, dir string, args []string, refs string) (met []Requirement) {
	all := Requirements(ctx, dir)
	if len(all) == 0 {
		return nil
	}
	remote := remoteOf(ctx, dir, args)
	for line := range strings.Lines(refs) {
		f := strings.Fields(line) // local ref, local commit, remote ref, remote commit
		for _, r := range all {
			if len(f) == 4 && f[2] == "refs/heads/"+r.Branch {
				met = append(met, Requirement{r.Branch, r.KeyFor(remote)})
			}
		}
	}
	return met
}

// remoteOf is the name of the remote of a push, which may be by its address.
func remoteOf(ctx context.Context, dir string, args []string) string {
	if len(args) < 2 {
		return "origin"
	}
	if args[0] != args[1] {
		return args[0]
	}
	out, _ := git.Run(ctx, dir, "remote")
	for _, name := range strings.Fields(out) {
		url, err := git.Run(ctx, dir, "remote", "get-url", "--push", name)
		if err == nil && url == args[1] {
			return name
		}
	}
	return "origin"
}
