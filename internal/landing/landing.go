// Package landing puts the commits of a branch on top of a branch of a remote: it
// fetches, rebases, tests and pushes.
//
// # Guarantee
//
// What is pushed is what was tested, and it is a fast-forward: no commit of others
// is lost. If anything goes wrong, the branch is at its old commit, and the files are
// as they were found.
//
// # Order
//
// Package landing takes no lock. Its caller holds the key of the remote's branch,
// so that nobody else lands between the fetch and the push. Without the lock, or
// after its loss, git refuses a push that is not a fast-forward: that is the fence.
//
// # Where it works
//
// The rebase runs in a worktree of its own without files, in git's folder: a
// conflict never touches the files of the user. Then the files of the user's
// worktree move to the result, with HEAD detached, because the test needs what is
// installed and built there and git ignores. The branch itself moves last, after
// the push.
//
// # Failure
//
// A landing that is killed leaves a note in git's folder. The next one finishes or
// undoes what the note says; "git checkout BRANCH" undoes it by hand.
package landing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Request says what to land, and where.
type Request struct {
	Dir     string   // where the test runs, in the worktree of the branch
	Environ []string // of the test, and of git without what belongs to a repository
	Remote  string   // the name of a remote; empty: origin
	Onto    string   // a branch of the remote; empty: its default branch as this clone knows it
	Test    []string
	Stdin   io.Reader
	Output  io.Writer // gets what the test prints; may be nil

	// Held, if set, is asked right before the push. Its error ends the landing.
	Held func(context.Context) error

	// Say, if set, gets each step when it is done.
	Say func(Event)

	// NetTime bounds a fetch and a push; 0: ten minutes.
	NetTime time.Duration
}

// Event is a step that is done.
type Event struct {
	Step    Step    `json:"-"`
	Branch  string  `json:"branch"`
	Remote  string  `json:"remote"`
	Onto    string  `json:"onto"`
	From    string  `json:"from,omitempty"`    // Fetched: the remote's commit; else the commit before
	To      string  `json:"to,omitempty"`      // the commit after
	Commits int     `json:"commits,omitempty"` // how many the remote lacks
	Seconds float64 `json:"seconds,omitempty"`
	Log     string  `json:"log,omitempty"`
	Text    string  `json:"text,omitempty"` // of a Noted
}

// A Step of a landing.
type Step string

// The steps, in their order.
const (
	Fetched   Step = "fetched"
	Recovered Step = "recovered" // what an earlier landing left behind
	Rebased   Step = "rebased"
	Testing   Step = "testing"
	Tested    Step = "tested"
	Pushed    Step = "pushed"
	Moved     Step = "moved" // somebody else pushed; it begins again
	Noted     Step = "noted" // something that people should know
)

// Result is what became of it.
type Result struct {
	Branch   string `json:"branch"`
	Remote   string `json:"remote"`
	Onto     string `json:"onto"`
	From     string `json:"from"`            // the remote's commit before
	To       string `json:"to"`              // and after
	Commits  int    `json:"commits"`         // how many landed; 0: the remote had them all
	Local    string `json:"local,omitempty"` // the commit of a local branch named like the remote's, which stays where it is
	Attempts int    `json:"attempts"`
	Log      string `json:"log,omitempty"`
}

// attempts is how often a landing begins again because somebody pushed without
// asking for the lock.
const attempts = 5

// netTime bounds a fetch or a push by default. Whoever waits for the lock waits for it too.
const netTime = 10 * time.Minute

// Run lands the branch of a folder. The end of ctx undoes what was begun.
func Run(ctx context.Context, r Request) (Result, error) {
	if r.Say == nil {
		r.Say = func(Event) {}
	}
	if r.NetTime == 0 {
		r.NetTime = netTime
	}
	w, err := open(ctx, Place{Dir: r.Dir, Environ: r.Environ, Remote: r.Remote, Onto: r.Onto})
	if err != nil {
		return Result{}, err
	}
	r.Remote, r.Onto, r.Environ = w.Remote, w.Onto, w.Environ
	l := &landing{Request: r, work: w}
	leave, err := l.enter(ctx)
	if err != nil {
		return Result{}, cause(ctx, err)
	}
	defer leave()
	for {
		l.result.Attempts++
		again, err := l.attempt(ctx)
		if !again {
			return l.result, cause(ctx, err)
		}
		l.say(Event{Step: Moved, To: l.tip})
	}
}

// enter waits until no other landing works in this worktree: one on another branch of
// the remote has another key.
func (l *landing) enter(ctx context.Context) (leave func(), err error) {
	if err := l.makeFolder(); err != nil {
		return nil, err
	}
	gate := flock.New(l.file("land.lock"))
	leave = func() { _ = gate.Unlock() }
	if free, err := gate.TryLock(); err != nil || free {
		return leave, err
	}
	l.note("another landing works in this worktree; waiting for it")
	_, err = gate.TryLockContext(ctx, 50*time.Millisecond)
	return leave, err
}

// landing is one run.
type landing struct {
	Request
	work
	state  State
	tip    string // the remote's commit that it goes on top of
	head   string // the commit to land
	began  bool   // the test did
	result Result
}

func (l *landing) say(e Event) {
	e.Branch, e.Remote, e.Onto = l.state.Branch, l.Remote, l.Onto
	l.Say(e)
}

func (l *landing) note(format string, args ...any) {
	l.say(Event{Step: Noted, Text: fmt.Sprintf(format, args...)})
}

// attempt fetches, rebases, tests and pushes once. again: the remote moved meanwhile.
func (l *landing) attempt(ctx context.Context) (again bool, err error) {
	if err := l.begin(ctx); err != nil {
		return false, err
	}
	l.result = Result{Branch: l.state.Branch, Remote: l.Remote, Onto: l.Onto, From: l.tip, To: l.tip, Attempts: l.result.Attempts}
	if err := l.rebase(ctx); err != nil || l.head == "" {
		return false, err
	}
	if err := l.move(ctx); err != nil {
		return false, l.undone(ctx, err)
	}
	if l.head == l.tip { // the remote has every change already
		return false, l.finish(ctx)
	}
	if err := l.test(ctx); err != nil {
		return false, l.undone(ctx, err)
	}
	if again, err = l.push(ctx); again || err != nil {
		err = l.undone(ctx, err)
		return err == nil, err
	}
	l.result.To, l.result.Commits = l.head, l.state.Commits
	if l.Onto != l.state.Branch {
		l.result.Local = l.tipOf(context.WithoutCancel(ctx), l.Onto)
	}
	return false, l.finish(ctx)
}

// begin fetches, and looks at the worktree again: others may have worked in it during
// the wait.
func (l *landing) begin(ctx context.Context) (err error) {
	if l.tip, err = l.fetch(ctx, l.NetTime); err != nil {
		return err
	}
	if err = l.recover(ctx); err != nil {
		return err
	}
	if l.state, err = l.look(ctx, l.tip); err == nil {
		l.say(Event{Step: Fetched, From: l.tip, Commits: l.state.Commits})
	}
	return err
}

// undone undoes the landing and returns why.
func (l *landing) undone(ctx context.Context, why error) error {
	ctx = context.WithoutCancel(ctx)
	saved, err := l.back(ctx)
	if saved != "" {
		l.note("the changes that were made to files during the test are in commit %s: git stash apply %s", saved, saved)
	}
	if err != nil {
		return errors.Join(why, err)
	}
	return why
}

// cause is the reason why ctx ended, in place of the error that this made.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil && err != nil {
		return why
	}
	return err
}

// file is one of ours in git's folder of this worktree.
func (w *work) file(name string) string { return filepath.Join(w.gitDir, "tasklock", name) }
