package agentcmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
)

// start tells a session what it holds and what others do.
func (h *hook) start(ctx context.Context) error {
	st, err := h.store(ctx)
	if err != nil {
		return err
	}
	seen, err := lease.Overview(ctx, st, h.s.Identity().Owner)
	if err != nil {
		return err
	}
	return h.reply(h.Tell(facts(h.s, seen, h.unnamed && !h.Renames()), h.s.Identity().Owner))
}

// maxFacts limits the facts for a session to 120 tokens or so.
const maxFacts = 380

// facts are sentences, not orders: models learn to distrust foreign text that gives
// orders. Names of others are cut short.
func facts(s *session.Session, seen lease.OverviewResult, named bool) string {
	who := "This session is tasklock owner " + term.Clean(term.Short(s.Identity().Owner, 70))
	if named {
		who += " (commands: --owner)"
	}
	lines := []string{who + "."}
	if len(seen.Mine) > 0 {
		keys := term.Each(seen.Mine[:min(3, len(seen.Mine))], func(l lease.Info) string { return term.Clean(term.Short(l.Key, 40)) })
		lines = append(lines, "It holds "+view.Some(keys, len(seen.Mine)-len(keys), false)+".")
	}
	if len(seen.Others) > 0 {
		keys := term.Each(seen.Others[:min(3, len(seen.Others))], func(l lease.Info) string {
			return term.Clean(term.Short(l.Key, 30)) + " (" + term.Clean(term.Short(l.Owner, 24)) + ")"
		})
		lines = append(lines, "Held by others: "+view.Some(keys, len(seen.Others)-len(keys), seen.More)+".")
	}
	text := strings.Join(lines, " ")
	commands := "Commands: tasklock next --claim; tasklock acquire path:FILE; tasklock guide."
	if room := maxFacts - len(commands); len(text) > room {
		text = strings.ToValidUTF8(text[:room-4], "") + "…"
	}
	return text + "\n" + commands
}

// remember lets programs without the session's id find it. If that fails, commands must
// name the owner.
func (h *hook) remember() {
	if n, err := h.Caller().Note(h.s.Env); err == nil {
		_ = identity.Remember(h.s.Env, n)
	}
}

// startAgent tells a subagent its own owner. It has its parent's environment: the hook
// puts the name into its commands, or they must name it.
func (h *hook) startAgent() error {
	if h.Agent == "" {
		return nil
	}
	owner := term.Clean(term.Short(h.s.Identity().Owner, 160))
	own := "its own locks end when it stops."
	if h.unnamed && !h.Renames() {
		own = "its own locks need --owner " + term.ShellQuote(h.s.Identity().Owner) + " in the command, and end when it stops."
	}
	return h.reply(h.Tell("This subagent is tasklock owner "+owner+". It may use what its session holds; "+own, owner))
}

// stopAgent releases what a subagent holds.
func (h *hook) stopAgent(ctx context.Context) error {
	if h.Agent == "" {
		return h.renew(ctx)
	}
	return h.releaseAll(ctx, lease.ReleaseRequest{Owner: h.s.Identity().Owner, All: true, Reason: "subagent stopped"})
}

// EndTime is how long the end of a session may take here: harnesses kill what
// is slow then. Tests are more patient.
var EndTime = 250 * time.Millisecond

// end releases exactly what the session holds. Another process does it for a store that
// is busy or not on this machine; the ttl is the guarantee.
func (h *hook) end(ctx context.Context) error {
	if h.s.Identity().Session == "" {
		return fmt.Errorf("the event names no session, so nothing is released")
	}
	if n, err := h.Caller().Note(h.s.Env); err == nil {
		identity.Forget(h.s.Env, n)
	}
	r := lease.ReleaseRequest{Owner: h.s.Identity().Owner, All: true, Reason: "session ended"}
	if h.s.Identity().Source != identity.FromHarness { // a name that may outlive the session
		r.Session = h.s.Identity().Session
	}
	if localStore(h.s) {
		short, cancel := context.WithTimeout(ctx, EndTime)
		defer cancel()
		if err := h.releaseAll(short, r); err == nil || short.Err() == nil {
			return err
		}
	}
	args := []string{"session", "end", "--owner", r.Owner}
	if r.Session != "" {
		args = append(args, "--of", r.Session)
	}
	return hold.Detach(h.s, args)
}

func (h *hook) releaseAll(ctx context.Context, r lease.ReleaseRequest) error {
	st, err := h.store(ctx)
	if err != nil {
		return err
	}
	_, err = lease.Release(ctx, st, r)
	return err
}

// localStore reports whether the store is on this machine.
func localStore(s *session.Session) bool {
	url := s.URL()
	return strings.HasPrefix(url, "sqlite:") || strings.HasPrefix(url, "file:")
}

// quiet is how long a distant store is not asked between two
// heartbeats: hooks fire many times a minute.
const quiet = time.Minute

// recently reports whether this session has asked a distant store within the last
// minute, and notes that it does now.
func (h *hook) recently() bool {
	if localStore(h.s) {
		return false
	}
	dir, err := os.UserCacheDir()
	url := h.s.URL()
	if err != nil || url == "" {
		return false
	}
	name := sha256.Sum256(fmt.Appendf(nil, "%q %q", url, h.s.Identity().Owner))
	file := filepath.Join(dir, "tasklock", "hooks", hex.EncodeToString(name[:16]))
	if fi, err := os.Stat(file); err == nil && time.Since(fi.ModTime()) < quiet && time.Since(fi.ModTime()) >= 0 {
		return true
	}
	if os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		_ = os.WriteFile(file, nil, 0o600)
	}
	return false
}
