package session

import (
	"fmt"

	"github.com/tasklock/tasklock/internal/problem"
)

// Level of a finding.
type Level string

const (
	LevelOK   Level = "ok"
	LevelWarn Level = "warn"
	LevelFail Level = "fail"
)

// Finding is one thing that doctor looked at.
type Finding struct {
	Level  Level  `json:"level"`
	Check  string `json:"check"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
	Code   string `json:"code,omitempty"` // of a failure, as in the errors of other commands

	Exit problem.Exit `json:"-"`
}

// Findings are the results of checks. The checks are independent: one may see what
// another cannot.
type Findings struct {
	Session *Session
	List    []Finding
}

// OK notes that a check found nothing wrong.
func (x *Findings) OK(check, format string, args ...any) {
	x.List = append(x.List, Finding{Level: LevelOK, Check: check, Text: fmt.Sprintf(format, args...)})
}

// Warn notes what may cause trouble, and the command that helps.
func (x *Findings) Warn(check, remedy, format string, args ...any) {
	x.List = append(x.List, Finding{Level: LevelWarn, Check: check, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// Fail notes an error, with the exit code that another command would have.
func (x *Findings) Fail(check, remedy string, err error) {
	is := x.Session.Problem(err)
	x.List = append(x.List, Finding{Level: LevelFail, Check: check, Text: is.Message, Remedy: remedy, Code: is.Code, Exit: is.Exit})
}
