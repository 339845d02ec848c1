package door

import (
	"errors"

	"github.com/tasklock/tasklock/store/driver"
)

// A Problem is an error of the store. Its classes decide what the caller does:
// each says what happened and what did not. Without a class the outcome of a commit
// is unknown, as it is after a class that the reader does not know.
type Problem struct {
	Text    string   `json:"text"`
	Classes []string `json:"classes,omitempty"`
	Lacks   string   `json:"lacks,omitempty"`  // the text of a driver.LacksError
	Remedy  string   `json:"remedy,omitempty"` // and its remedy
}

// classes are the answers of the contract. driver.ErrClosed is not one of them: the
// server closes its store when it ends, and that says nothing about a commit.
var classes = map[string]error{
	"conflict":    driver.ErrConflict,
	"damaged":     driver.ErrDamaged,
	"unsafe":      driver.ErrUnsafe,
	"newer":       driver.ErrNewer,
	"older":       driver.ErrOlder,
	"missing":     driver.ErrMissing,
	"denied":      driver.ErrDenied,
	"full":        driver.ErrFull,
	"noTurn":      driver.ErrNoTurn,
	"untouched":   driver.ErrUntouched,
	"tooLarge":    driver.ErrTooLarge,
	"invalid":     driver.ErrInvalid,
	"unreachable": driver.ErrUnreachable,
}

// sendProblem is an error as it goes over the wire.
func sendProblem(err error) *Problem {
	p := &Problem{Text: err.Error()}
	for name, class := range classes {
		if errors.Is(err, class) {
			p.Classes = append(p.Classes, name)
		}
	}
	if lacks, ok := errors.AsType[*driver.LacksError](err); ok {
		p.Lacks, p.Remedy = lacks.Text, lacks.Remedy
	}
	return p
}

// Err is the error that the store had, or nil.
func (p *Problem) Err() error {
	if p == nil {
		return nil
	}
	e := &storeError{text: p.Text}
	for _, name := range p.Classes {
		if class := classes[name]; class != nil {
			e.is = append(e.is, class)
		}
	}
	if p.Remedy != "" {
		e.is = append(e.is, &driver.LacksError{Text: p.Lacks, Remedy: p.Remedy})
	}
	return e
}

// storeError is an error that happened at the other end.
type storeError struct {
	text string
	is   []error
}

func (e *storeError) Error() string   { return e.text }
func (e *storeError) Unwrap() []error { return e.is }
