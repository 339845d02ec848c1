package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
)

// envelope is what --json prints, for every command and every error.
type envelope struct {
	Event   string     `json:"event,omitempty"` // of attached holders, which print several
	Success bool       `json:"success"`
	Command string     `json:"command"`
	DryRun  bool       `json:"dryRun,omitempty"`
	AsOf    *time.Time `json:"asOf,omitempty"` // with --offline: when that was true
	Data    any        `json:"data,omitempty"`
	Error   *errorBody `json:"error,omitempty"`
	Next    string     `json:"next,omitempty"`
	Wait    string     `json:"wait,omitempty"` // beside Next, to a coding agent: how to wait instead
}

type errorBody struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

func bodyOf(p problem.Problem) *errorBody {
	return &errorBody{Code: p.Code, Message: p.Message, Details: p.Details}
}

// Answer is the one way to report a result: data for --json, text for people,
// nothing with --quiet.
func (s *Session) Answer(data any, text func(*term.Printer)) error { return s.Event("", data, text) }

// AnswerNames is Answer for what has a name: --quiet prints the names, one on a line.
func (s *Session) AnswerNames(data any, names []string, text func(*term.Printer)) error {
	if !s.Quiet || s.JSON {
		return s.Answer(data, text)
	}
	p := s.Printer()
	for _, name := range names {
		p.Line("%s", name)
	}
	return p.Flush()
}

// Reply answers with the result of an operation, unless that failed.
func Reply[T any](s *Session, text func(*term.Printer, T)) func(T, error) error {
	return func(out T, err error) error {
		if err != nil {
			return err
		}
		return s.Answer(out, func(p *term.Printer) { text(p, out) })
	}
}

// Event is Answer for a command that prints several, each with its name.
func (s *Session) Event(name string, data any, text func(*term.Printer)) error {
	switch {
	case s.JSON:
		return s.WriteJSON(envelope{Event: name, Success: true, Command: s.line.name, DryRun: s.DryRun, AsOf: s.opened.asOf, Data: data})
	case s.Quiet:
		return nil
	}
	p := s.Printer()
	text(p)
	return p.Flush()
}

// Partly prints a partial answer, then the error.
func (s *Session) Partly(data any, why error, text func(*term.Printer)) error {
	switch {
	case why == nil:
		return s.Answer(data, text)
	case s.JSON:
		return s.Verdict(data, s.Problem(why), text)
	}
	if err := s.Answer(data, text); err != nil {
		return err
	}
	return why
}

// Verdict is Answer for data that mean a problem: JSON names it, and the command
// ends with its exit code.
func (s *Session) Verdict(data any, is problem.Problem, text func(*term.Printer)) error {
	done := ExitError(is.Exit)
	if s.JSON {
		return errors.Join(s.WriteJSON(envelope{Command: s.line.name, DryRun: s.DryRun, AsOf: s.opened.asOf, Data: data, Error: bodyOf(is), Next: is.Next}), done)
	}
	p := s.Printer()
	text(p)
	return errors.Join(p.Flush(), done)
}

// WriteJSON prints one line of JSON that is safe on a terminal.
func (s *Session) WriteJSON(v any) error { return writeJSON(s.Stdout, v) }

func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(term.Escape(b.Bytes()))
	return err
}

// byName reports whether the store refused the caller for its name, which may
// change with each command. A token is refused for every caller.
func byName(err error) bool {
	var owner *lease.OwnerError
	var lost *lease.LostError
	return errors.As(err, &owner) || errors.As(err, &lost) && lost.Token == 0
}

// Refuse prints an error and returns the exit code: one line with the error, what
// is known about it, and the command that helps.
func (s *Session) Refuse(err error) problem.Exit {
	is := s.Problem(err)
	if is.Exit == problem.Error && s.line.name == "check" {
		is.Exit = problem.Unknown // 1 means free there, and nothing else
	}
	var held *lease.HeldError
	next, wait := is.Next, ""
	if errors.As(err, &held) && next != "" && s.Identity().Agent {
		if other := s.OtherWork(); other != "" {
			next, wait = other, next
		}
	}
	if byName(err) {
		s.warnName()
	}
	if s.JSON {
		if s.WriteJSON(envelope{Event: attemptOf(err).Event, Command: s.line.name, DryRun: s.DryRun, Error: bodyOf(is), Next: next, Wait: wait}) == nil {
			return is.Exit
		}
	}
	p := &term.Printer{W: s.Stderr, Colour: s.Colour(s.Stderr), Now: s.Now()}
	if held != nil {
		view.PrintHeld(p, "Error: ", is.Message, held)
	} else {
		p.Line("%s%s", term.Red.Of("Error: "), is.Message)
		view.PrintListed(p, err)
	}
	if next != "" {
		p.Line("Next: %s", next)
	}
	if wait != "" {
		p.Line("Or wait: %s", wait)
	}
	_ = p.Flush()
	return is.Exit
}

// Note prints something for people besides the data; --quiet silences it.
func (s *Session) Note(format string, args ...any) {
	if s.Quiet {
		return
	}
	p := &term.Printer{W: s.Stderr}
	p.Line(format, args...)
	_ = p.Flush()
}

// Log prints an entry of a log on stderr, because stdout belongs to the commands that
// run: as JSON, or for people as a line.
func (s *Session) Log(entry any, format string, args ...any) {
	switch {
	case !s.JSON:
		s.Note(format, args...)
	case !s.Quiet:
		_ = writeJSON(s.Stderr, entry)
	}
}

// Warn is a note that --quiet does not silence.
func (s *Session) Warn(format string, args ...any) {
	p := &term.Printer{W: s.Stderr, Colour: s.Colour(s.Stderr)}
	p.Line("%s"+format, append([]any{term.Yellow.Of("Warning: ")}, args...)...)
	_ = p.Flush()
}

// Printer prints on stdout.
func (s *Session) Printer() *term.Printer {
	wide := term.IsTerminal(s.Stdout)
	return &term.Printer{W: s.Stdout, Colour: s.Colour(s.Stdout), Wide: wide, UTF8: wide && s.utf8(), Dry: s.DryRun, Now: s.Now()}
}

// utf8 reports whether the terminal reads UTF-8.
func (s *Session) utf8() bool {
	locale := strings.ToLower(cmp.Or(s.Env("LC_ALL"), s.Env("LC_CTYPE"), s.Env("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// Colour reports whether w may get colour: only a terminal that can, and whose user
// did not object.
func (s *Session) Colour(w io.Writer) bool {
	return !s.NoColor && s.Env("NO_COLOR") == "" && s.Env("TERM") != "dumb" && term.IsTerminal(w)
}

// Live reports whether people watch stderr on a terminal that can redraw a line.
func (s *Session) Live() bool { return term.IsTerminal(s.Stderr) && s.Env("TERM") != "dumb" }

// AgentLimit is how many lines a coding agent gets by default.
const AgentLimit = 20
