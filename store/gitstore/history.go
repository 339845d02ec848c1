package gitstore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// A commit is the part of a git commit that we need.
type commit struct {
	id      oid
	tree    oid
	parent  oid // "": the first, or what is left after compaction
	rev     int64
	history int64 // how many commits the branch has, with this one
}

// The last lines of every message.
const (
	trailerRev     = "Tasklock-Revision: "
	trailerHistory = "Tasklock-History: "
	trailerNonce   = "Tasklock-Nonce: "
)

func parseCommit(id oid, body []byte) (commit, error) {
	c := commit{id: id}
	head, message, _ := strings.Cut(string(body), "\n\n")
	for line := range strings.Lines(head) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch {
		case name == "tree":
			c.tree = oid(value)
		case name == "parent" && c.parent != "":
			return c, errForm // a merge
		case name == "parent":
			c.parent = oid(value)
		}
	}
	lines := strings.Split(strings.TrimSuffix(message, "\n"), "\n")
	if len(lines) < 4 {
		return c, errForm
	}
	lines = lines[len(lines)-3:]
	rev, okRev := strings.CutPrefix(lines[0], trailerRev)
	history, okHistory := strings.CutPrefix(lines[1], trailerHistory)
	var badRev, badHistory error
	c.rev, badRev = strconv.ParseInt(rev, 10, 64)
	c.history, badHistory = strconv.ParseInt(history, 10, 64)
	if !okRev || !okHistory || badRev != nil || badHistory != nil || !strings.HasPrefix(lines[2], trailerNonce) || c.history < 1 {
		return c, errForm
	}
	return c, nil
}

// commit reads a commit of the branch.
func (o *objects) commit(id oid, where string) (commit, error) {
	body, err := o.get(id, "commit", maxCommit)
	if err != nil && !errors.Is(err, errHuge) {
		return commit{}, err
	}
	c, bad := parseCommit(id, body)
	if err != nil || bad != nil {
		return c, fmt.Errorf("%w: commit %.12s on %s was not made by tasklock; take it off the branch", driver.ErrDamaged, id, where)
	}
	return c, nil
}

// putCommit writes a commit; its message ends in what parseCommit looks for.
func (o *objects) putCommit(c commit, now time.Time, text string) (commit, error) {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce)
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", c.tree)
	if c.parent != "" {
		fmt.Fprintf(&b, "parent %s\n", c.parent)
	}
	who := fmt.Sprintf("tasklock <tasklock@localhost> %d +0000", now.Unix())
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s\n\n", who, who, text)
	fmt.Fprintf(&b, "%s%d\n%s%d\n%s%s\n", trailerRev, c.rev, trailerHistory, c.history, trailerNonce, hex.EncodeToString(nonce))
	var err error
	c.id, err = o.put("commit", []byte(b.String()))
	return c, err
}

// message says what happened: one line, or a list under a heading.
func message(notes []string) string {
	const most, longest = 40, 200
	var lines []string
	for _, n := range notes {
		n, _, _ = strings.Cut(n, "\n")
		n = strings.TrimSpace(clean(n))
		if r := []rune(n); len(r) > longest {
			n = string(r[:longest]) + "…"
		}
		if n != "" {
			lines = append(lines, n)
		}
	}
	switch {
	case len(lines) == 0:
		return "update"
	case len(lines) == 1:
		return lines[0]
	}
	text := fmt.Sprintf("%d changes\n", len(lines))
	for i, l := range lines {
		if i == most {
			return text + fmt.Sprintf("\n- and %d more", len(lines)-most)
		}
		text += "\n- " + l
	}
	return text
}
