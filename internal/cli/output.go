package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

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

// answer is the one way to say how a command went: data for --json, text for
// people, nothing with --quiet.
func (a *App) answer(data any, text func(*printer)) error {
	switch {
	case a.JSON:
		return a.writeJSON(envelope{Event: a.says, Success: true, Command: a.command, DryRun: a.DryRun, AsOf: a.when(), Data: data})
	case a.Quiet:
		return nil
	}
	p := a.printer()
	text(p)
	return p.flush()
}

// partly is answer where not all that was asked for can be told: what can be,
// and then why not the rest.
func (a *App) partly(data any, why error, text func(*printer)) error {
	switch {
	case why == nil:
		return a.answer(data, text)
	case a.JSON:
		is := a.problem(why)
		err := a.writeJSON(envelope{Command: a.command, DryRun: a.DryRun, AsOf: a.when(), Data: data, Error: bodyOf(is), Next: is.Next})
		return errors.Join(err, &exitWith{is.Exit})
	}
	if err := a.answer(data, text); err != nil {
		return err
	}
	return why
}

func (a *App) writeJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.Stdout.Write(escape(b.Bytes()))
	return err
}

// byName says whether the caller was refused for its name, which may be another
// one with each command. A token is refused whoever shows it.
func byName(err error) bool {
	var owner *lease.OwnerError
	var lost *lease.LostError
	return errors.As(err, &owner) || errors.As(err, &lost) && lost.Token == 0
}

// refuse prints an error and returns the exit code: one line that says what is
// wrong, what is known about it, and the command that helps.
func (a *App) refuse(err error) problem.Exit {
	var done *exitWith
	if errors.As(err, &done) {
		return done.exit
	}
	is := a.problem(err)
	if is.Exit == problem.Error && a.command == "check" {
		is.Exit = problem.Unknown // 1 means free there, and nothing else
	}
	var held *lease.HeldError
	next, wait := is.Next, ""
	if errors.As(err, &held) && next != "" && a.Identity().Agent {
		if other := a.otherWork(); other != "" {
			next, wait = other, next
		}
	}
	if byName(err) {
		a.warnName()
	}
	if a.JSON {
		if a.writeJSON(envelope{Event: a.says, Command: a.command, DryRun: a.DryRun, Error: bodyOf(is), Next: next, Wait: wait}) == nil {
			return is.Exit
		}
	}
	p := &printer{w: a.Stderr, colour: a.colour(a.Stderr), now: a.Now()}
	if held != nil {
		p.held("Error: ", is.Message, held)
	} else {
		p.line("%s%s", red.of("Error: "), is.Message)
		p.listed(err)
	}
	if next != "" {
		p.line("Next: %s", next)
	}
	if wait != "" {
		p.line("Or wait: %s", wait)
	}
	_ = p.flush()
	return is.Exit
}

// note tells people something beside the data; --quiet silences it.
func (a *App) note(format string, args ...any) {
	if a.Quiet {
		return
	}
	p := &printer{w: a.Stderr}
	p.line(format, args...)
	_ = p.flush()
}

// warn is a note that may not be missed.
func (a *App) warn(format string, args ...any) {
	p := &printer{w: a.Stderr, colour: a.colour(a.Stderr)}
	p.line("%s"+format, append([]any{yellow.of("Warning: ")}, args...)...)
	_ = p.flush()
}

func (a *App) printer() *printer {
	wide := isTerminal(a.Stdout)
	return &printer{w: a.Stdout, colour: a.colour(a.Stdout), wide: wide, utf8: wide && a.utf8(), now: a.Now()}
}

// utf8 reports whether the terminal reads UTF-8.
func (a *App) utf8() bool {
	locale := strings.ToLower(cmp.Or(a.Env("LC_ALL"), a.Env("LC_CTYPE"), a.Env("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// colour says whether w may get any: only a terminal that can, and whose user
// did not object.
func (a *App) colour(w io.Writer) bool {
	return !a.NoColor && a.Env("NO_COLOR") == "" && a.Env("TERM") != "dumb" && isTerminal(w)
}

// printer collects lines for one writer and writes them at once. Every
// argument is cleaned on its way in.
type printer struct {
	w      io.Writer
	buf    bytes.Buffer
	colour bool
	wide   bool // a terminal: tables with a head and relative times
	utf8   bool // one that can draw lines
	now    time.Time
}

func (p *printer) line(format string, args ...any) {
	for i, arg := range args {
		switch v := arg.(type) {
		case styled:
			args[i] = v.style.paint(clean(v.text), p.colour)
		case string:
			args[i] = clean(v)
		case error:
			args[i] = clean(v.Error())
		case fmt.Stringer:
			args[i] = clean(v.String())
		}
	}
	fmt.Fprintf(&p.buf, format+"\n", args...)
}

// table prints rows under a head on a terminal, and elsewhere fields
// separated by tabs, which scripts can cut.
func (p *printer) table(head []string, rows [][]styled) {
	if !p.wide {
		for _, row := range rows {
			fields := make([]string, len(row))
			for i, c := range row {
				fields[i] = clean(c.text)
			}
			p.buf.WriteString(strings.Join(fields, "\t") + "\n")
		}
		return
	}
	top := make([]styled, len(head))
	for i, h := range head {
		top[i] = faint.of(h)
	}
	for _, l := range columns(append([][]styled{top}, rows...), p.colour) {
		p.buf.WriteString(l + "\n")
	}
}

// fields prints names and values, one pair a line.
func (p *printer) fields(rows [][2]string) {
	table := make([][]styled, len(rows))
	for i, r := range rows {
		table[i] = row(faint.of(r[0]+":"), r[1])
	}
	for _, l := range columns(table, p.colour) {
		p.buf.WriteString(l + "\n")
	}
}

// text prints lines as they are. Each is cleaned by itself.
func (p *printer) text(s string) {
	for line := range strings.Lines(s) {
		p.line("%s", strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    "))
	}
}

// when prints an instant relative and absolute: "in 57m (2026-…Z)".
func (p *printer) when(t time.Time) string {
	return p.relative(t) + " (" + stamp(t) + ")"
}

func (p *printer) relative(t time.Time) string {
	if d := t.Sub(p.now); d > 0 {
		return "in " + rough(d)
	}
	return rough(p.now.Sub(t)) + " ago"
}

func (p *printer) flush() error {
	_, err := p.w.Write(p.buf.Bytes())
	p.buf.Reset()
	return err
}
