package agentcmd

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/harness"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store/driver"
)

// done is what became of a planned edit.
type done struct {
	File   string `json:"file"`
	What   string `json:"what"`
	Did    string `json:"did"` // written, removed, unchanged, skipped, tracked, kept
	ByHand string `json:"byHand,omitempty"`

	edit harness.Edit
}

// unreadable is an error about a file of a harness as one about settings.
func unreadable(err error) error {
	if bad := (*harness.FileError)(nil); errors.As(err, &bad) {
		return &config.Error{File: bad.Path, Msg: bad.Why}
	}
	return err
}

// staysIn refuses to follow a link out of the project without consent: the author of
// the repository made its links.
func staysIn(tree repo.Tree, plan []harness.Edit) error {
	for _, e := range plan {
		if _, err := tree.Name(tree.Top, e.Path); err != nil && !e.Same() && !e.Git {
			return fmt.Errorf("%w: a link leads out of this project, to %s; nothing changed; use --yes to follow it", driver.ErrUnsafe, e.Path)
		}
	}
	return nil
}

// carryOut makes an edit, if the person whom it asks agrees.
func carryOut(s *session.Session, e harness.Edit, top string, ask bool, in *bufio.Reader) (done, error) {
	d := done{File: e.Path, What: e.Of.What, ByHand: e.Of.ByHand, Did: "written", edit: e}
	switch {
	case e.Left != "":
		d.Did = e.Left
		return d, nil
	case e.Same():
		d.Did = "unchanged"
		return d, nil
	case ask && !agreed(s, e, in):
		d.Did = "skipped"
		return d, nil
	case e.Is == nil:
		d.Did = "removed"
	}
	if s.DryRun {
		return d, nil
	}
	err := e.Apply(top)
	if errors.Is(err, harness.ErrChanged) {
		err = session.Usagef("%v: run it again", err)
	}
	return d, err
}

func agreed(s *session.Session, e harness.Edit, in *bufio.Reader) bool {
	question := "Write " + e.Of.What + " into " + e.Path + "? [Y/n] "
	if e.Is == nil {
		question = "Remove " + e.Path + "? [Y/n] "
	}
	_, _ = s.Stderr.Write([]byte(term.Clean(question)))
	line, err := in.ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "" || answer == "y" || answer == "yes")
}
