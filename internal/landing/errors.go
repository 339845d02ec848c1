package landing

import (
	"fmt"
	"strings"
)

// NotReadyError: the worktree or the branch is in a state that cannot land. Nothing
// was changed.
type NotReadyError struct {
	Code  string // for programs: DIRTY_TREE
	Why   string
	Files []string
	Next  []string // the words of the command that helps
}

func (e *NotReadyError) Error() string {
	if len(e.Files) == 0 {
		return e.Why
	}
	return e.Why + ": " + some(e.Files)
}

// NotFoundError: there is no such remote, or it has no such branch.
type NotFoundError struct {
	What, Name string
	Why        string
	Next       []string
}

func (e *NotFoundError) Error() string { return e.Why }

// Commit is one that a person must look at.
type Commit struct {
	ID      string `json:"commit"`
	Subject string `json:"subject"`
	Author  string `json:"author"`
}

// ConflictFile is a file that both sides changed.
type ConflictFile struct {
	File   string   `json:"file"`
	Ours   []Commit `json:"ours"`   // those of the branch that touched it
	Theirs []Commit `json:"theirs"` // those of the remote
}

// ConflictError: the branch cannot be rebased without a person.
type ConflictError struct {
	Branch, Onto string
	Commit       Commit // that does not apply
	Files        []ConflictFile
	Next         []string
}

func (e *ConflictError) Error() string {
	var names []string
	for _, f := range e.Files {
		names = append(names, f.File)
	}
	return fmt.Sprintf("%s conflicts with %s in %s (at %s %q); nothing was changed", e.Branch, e.Onto, some(names), e.Commit.ID, e.Commit.Subject)
}

// TestError: the test failed. Nothing was pushed.
type TestError struct {
	Command  string
	ExitCode int
	Log      string
	Err      error // why it did not start
}

func (e *TestError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the test (%s) did not start: %v; nothing was pushed", e.Command, e.Err)
	}
	return fmt.Sprintf("the test (%s) ended with exit code %d; nothing was pushed; its output is in %s", e.Command, e.ExitCode, e.Log)
}

// PushError: the remote, or a hook here, refused the push.
type PushError struct{ Remote, Onto, Words string }

func (e *PushError) Error() string {
	return fmt.Sprintf("the push to %s %s was refused: %s", e.Remote, e.Onto, e.Words)
}

// RemoteError: the remote could not be asked.
type RemoteError struct {
	Remote, Step string
	Unknown      bool // a push may have arrived
	Err          error
}

func (e *RemoteError) Error() string {
	if e.Unknown {
		return fmt.Sprintf("it is unknown whether the push to %s arrived: %v; land again to find out", e.Remote, e.Err)
	}
	return fmt.Sprintf("%s did not answer: %v; nothing was pushed", e.Remote, e.Err)
}

func (e *RemoteError) Unwrap() error { return e.Err }

// some is a list of names that fits into a line.
func some(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
