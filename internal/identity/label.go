package identity

import (
	"context"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/git"
)

// Label names the person behind a folder as git does, "Name <mail>", for people. It
// runs git, so only commands that show it call it; it is empty if git is missing or
// has no name.
func Label(dir string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	out, _ := git.Run(ctx, dir, "config", "-z", "--get-regexp", `^user\.(name|email)$`)
	return parseLabel(out)
}

// parseLabel reads "key\nvalue\0" pairs, of which the last of a key counts.
func parseLabel(out string) string {
	got := map[string]string{}
	for pair := range strings.SplitSeq(out, "\x00") {
		if key, value, ok := strings.Cut(pair, "\n"); ok {
			got[strings.ToLower(key)] = strings.TrimSpace(value)
		}
	}
	name, mail := got["user.name"], got["user.email"]
	switch {
	case mail == "":
		return name
	case name == "":
		return mail
	}
	return name + " <" + mail + ">"
}
