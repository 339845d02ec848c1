package identity

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// Label names the person behind a folder as git does, "Name <mail>", for people. It
// runs git, so only commands that show it call it; it is empty if git is missing or
// has no name.
func Label(dir string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "config", "-z", "--get-regexp", `^user\.(name|email)$`)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return parseLabel(string(out))
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
