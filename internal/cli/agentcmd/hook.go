package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/harness"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

func NewHook(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "hook HARNESS EVENT",
		Short: "Answer a coding agent's hook event",
		Long: `Answer a hook event of claude, codex, gemini, cursor, pi or opencode. It reads the
event as JSON on standard input, and answers as that harness expects. "agents
install" registers it.

At the start of a session it says what is locked. It denies a tool that would write
to a path that another owner has locked (exit 2, and never for another reason;
Gemini and Cursor: JSON, exit 0). A subagent is an owner of its own: the hook puts
that owner into its shell commands, and releases what it holds when it stops. At the
end of the session it releases exactly what the session holds. Every event renews.

If the hook fails, it stops nobody: it prints one line on standard error and exits
with 1. With hooks.strict in the configuration it denies what it cannot judge.`,
		Example: `  tasklock hook claude PreToolUse <event.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return session.Usagef("takes a harness and an event, got %d words", len(args))
			}
			return nil
		},
		RunE: s.Run(func(ctx context.Context, args []string) error { return serveHook(ctx, s, args[0], args[1]) }),
	}
}

// HookTime is how long a hook may look for an answer: harnesses let the action
// through when their own time is over, so ours must be over before. Tests are more
// patient.
var HookTime = 3 * time.Second

// hook is one event under way.
type hook struct {
	harness.Event
	s       *session.Session
	owners  []string                    // all names of the caller
	unnamed bool                        // its commands must name the owner
	others  map[string]*session.Session // the same command in other folders
}

func serveHook(ctx context.Context, s *session.Session, name, event string) error {
	ctx, cancel := context.WithTimeout(ctx, HookTime)
	defer cancel()
	h := &hook{s: s, others: map[string]*session.Session{}, Event: harness.Event{Harness: name, Name: event, What: harness.Meaning(name, event)}}
	e, err := eventWithin(ctx, s.Stdin, name, event)
	if err == nil {
		h.Event = e
		h.settle()
		err = h.serve(ctx)
	}
	if err == nil {
		return h.reply(h.pass(ctx))
	}
	var done session.ExitError
	if errors.As(err, &done) {
		return err
	}
	return h.fault(err)
}

// eventWithin gives up with ctx: a harness that opens the pipe and writes nothing must
// not keep us, nor a command line that takes long to read. The abandoned reader ends
// with the process.
func eventWithin(ctx context.Context, in io.Reader, name, event string) (harness.Event, error) {
	type result struct {
		harness.Event
		err error
	}
	done := make(chan result, 1)
	go func() {
		if term.IsTerminal(in) {
			done <- result{err: errors.New("the event's JSON is expected on standard input")}
			return
		}
		data, err := harness.ReadEvent(in)
		if err != nil {
			done <- result{err: err}
			return
		}
		e, err := harness.ParseEvent(name, event, data)
		done <- result{e, err}
	}()
	select {
	case r := <-done:
		return r.Event, r.err
	case <-ctx.Done():
		return harness.Event{}, fmt.Errorf("the event's JSON has not come, or could not be read, within %s", HookTime)
	}
}

// settle finds the folder of the event and its session.
func (h *hook) settle() {
	s := h.s
	if fi, err := os.Stat(h.Dir); err == nil && fi.IsDir() && filepath.IsAbs(h.Dir) {
		s.Dir = h.Dir
	}
	in := s.IdentityInput()
	s.ActAs(h.Caller().Identify(in))
	h.owners = s.Names()
	// Without a session, commands act as their terminal: what that holds must not
	// keep the agent from its own files.
	if around := identity.Identify(in); around.Source == identity.FromTerminal {
		h.owners = append(h.owners, around.Owner)
	}
	if h.What == harness.SessionStart {
		h.remember()
	}
	h.unnamed = h.Caller().NeedsOwner(in)
	if h.unnamed && h.What == harness.BeforeTool && h.Agent == "" { // its start was not seen
		h.remember()
		h.unnamed = h.Caller().NeedsOwner(in)
	}
	if h.unnamed {
		s.Owner = s.Identity().Owner
	}
}

func (h *hook) serve(ctx context.Context) error {
	if err := lease.CheckOwner(h.s.Identity().Owner); err != nil {
		return err
	}
	switch h.What {
	case harness.SessionStart:
		return h.start(ctx)
	case harness.BeforeTool:
		return h.beforeTool(ctx)
	case harness.AgentStart:
		return h.startAgent()
	case harness.AgentStop:
		return h.stopAgent(ctx)
	case harness.SessionEnd:
		return h.end(ctx)
	}
	return h.renew(ctx)
}

// store opens the store, and never makes one. Without a store nothing is locked, and
// that is not worth a note at every event.
func (h *hook) store(ctx context.Context) (*store.Store, error) {
	h.s.Quiet = true
	return h.s.Look(ctx)
}

// renew is a heartbeat and nothing else: one look at what is due.
func (h *hook) renew(ctx context.Context) error {
	if h.recently() {
		return nil
	}
	st, err := h.store(ctx)
	if err != nil {
		return err
	}
	return st.View(ctx, driver.Query{}, func(*store.Tx) error { return nil }) // heartbeatStore looks along
}

// reply prints the answer and ends the hook.
func (h *hook) reply(r harness.Reply) error {
	if len(r.Out) > 0 {
		if _, err := h.s.Stdout.Write(r.Out); err != nil {
			return err
		}
	}
	return session.ExitError(problem.Exit(r.Exit))
}

// deny tells the model why, on standard error and as its harness wants it.
func (h *hook) deny(text string) error {
	h.s.Quiet = false
	for line := range strings.Lines(text) {
		h.s.Note("%s", strings.TrimSuffix(line, "\n"))
	}
	return h.reply(h.Deny(text))
}

// fault handles our own failures. They stop nobody, unless hooks.strict denies what
// cannot be judged.
func (h *hook) fault(err error) error {
	text := "tasklock hook: " + term.Clean(h.s.Problem(err).Message)
	if h.What == harness.BeforeTool && h.strict() {
		return h.deny(text + "\nhooks.strict is set, so the hook denies what it cannot judge. Next: tasklock doctor")
	}
	h.s.Quiet = false
	h.s.Note("%s", text)
	if untrusted := new(config.UntrustedError); h.What == harness.SessionStart && errors.As(err, &untrusted) { // the model must hear it too
		return h.reply(h.Tell("tasklock checks no locks in this clone: "+term.Clean(h.s.Problem(err).Message), ""))
	}
	return session.ExitError(problem.Error)
}

func (h *hook) strict() bool {
	cfg, err := h.s.Config()
	if err != nil {
		return h.s.Env("TASKLOCK_HOOKS_STRICT") == "true"
	}
	return cfg.StrictHooks()
}
