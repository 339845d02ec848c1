package gitstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/store/driver"
)

// errAbsent: the remote answers and has no such branch.
var errAbsent = errors.New("no such branch")

// A server is the branch on the remote.
type server struct {
	git   *git
	place place
	ref   string // refs/heads/…
}

// tip asks for the branch's newest commit.
func (s *server) tip(ctx context.Context) (oid, error) {
	fault.Point("git.look")
	out, err := s.git.run(ctx, "ls-remote", "--quiet", "--", s.place.url, s.ref)
	if err != nil {
		return "", s.explain(err)
	}
	for line := range strings.Lines(out) {
		hash, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if id, ok := parseOID(hash); ok && ref == s.ref {
			return id, nil
		}
	}
	return "", errAbsent
}

// fetch brings the branch's newest commit and what it needs into the cache.
// The first time it brings no history.
func (s *server) fetch(ctx context.Context, first bool) (oid, error) {
	fault.Point("git.fetch")
	head := filepath.Join(s.git.dir, "FETCH_HEAD")
	if err := os.Remove(head); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	args := []string{"fetch", "--quiet", "--no-tags", "--force", "--no-recurse-submodules"}
	if first {
		_ = os.Remove(filepath.Join(s.git.dir, "shallow.lock")) // of a fetch that was ended
		args = append(args, "--depth=1")
	}
	_, err := s.git.run(ctx, append(args, "--", s.place.url, s.ref)...)
	if err != nil {
		if said, ok := errors.AsType[*gitError](err); ok && strings.Contains(said.text, "couldn't find remote ref") {
			return "", errAbsent
		}
		return "", s.explain(err)
	}
	text, err := os.ReadFile(head)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errCache, err)
	}
	hash, _, _ := strings.Cut(string(text), "\t")
	id, ok := parseOID(hash)
	if !ok {
		return "", fmt.Errorf("%w: git fetch left no commit", errCache)
	}
	return id, nil
}

// deepen brings the history that the first fetch left out.
func (s *server) deepen(ctx context.Context) error {
	_, err := s.git.run(ctx, "fetch", "--quiet", "--no-tags", "--depth=2147483647", "--", s.place.url, s.ref)
	return s.explain(err)
}

// The outcome of a push. Only pushed is sure to have changed the branch, and only
// same and refused are sure not to have.
type pushed int

const (
	failed  pushed = iota // no answer, or none that we understand
	done                  // the branch is at the new commit, through us
	same                  // the branch was there already: someone else's commit
	lost                  // the branch is not at the commit we built on
	refused               // the server does not want it
)

// push moves the branch from one commit to another if it is still there. An
// empty from means that there must be no branch. err says why, unless done.
func (s *server) push(ctx context.Context, from oid, to commit) (pushed, error) {
	fault.Point("git.push")
	args := []string{"push", "--porcelain", "--no-progress", "--no-verify", "--no-recurse-submodules", "--no-follow-tags"}
	if !s.git.session {
		args = append(args, "--receive-pack="+receivePack(to.history))
	}
	out, err := s.git.run(ctx, append(args,
		"--force-with-lease="+s.ref+":"+string(from), "--", s.place.url, string(to.id)+":"+s.ref)...)
	fault.Point("git.pushed")
	flag, summary := porcelain(out, s.ref)
	summary = s.git.redact(summary)
	switch {
	case flag == '=':
		return same, errors.New("git push: someone else made the same commit")
	case err == nil && (flag == ' ' || flag == '+' || flag == '*'):
		return done, nil
	case flag == '!' && strings.HasPrefix(summary, "[rejected]"):
		return lost, errors.New("git push: " + summary)
	case flag == '!' && strings.HasPrefix(summary, "[remote rejected]"):
		if contended(summary) {
			return lost, errors.New("git push: " + summary)
		}
		if said, ok := errors.AsType[*gitError](err); ok && said.text != "" {
			summary += ": " + said.text
		}
		return refused, fmt.Errorf("%w: %s does not take the push: %s", driver.ErrDenied, s.place.show, summary)
	case err == nil:
		return failed, errors.New("git push: no word about the branch")
	}
	return failed, s.explain(err)
}

// tidyAfter is how many pushes to a remote on this machine go without a look whether
// that repository needs packing.
const tidyAfter = 32

// receivePack is the program that takes the n-th commit at a remote on this machine.
// git would start two more there for each push: one that packs the repository if it has
// become crowded, and one that lists the references of other repositories whose objects
// it uses, which only makes a push smaller. A third of the time of a push goes into
// starting programs.
func receivePack(n int64) string {
	program := "exec git -c core.alternateRefsCommand=true"
	if n%tidyAfter != 0 {
		program += " -c receive.autogc=false"
	}
	return program + " receive-pack"
}

// porcelain finds the line about the branch in what git push says.
func porcelain(out, ref string) (flag byte, summary string) {
	for line := range strings.Lines(out) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(parts) == 3 && len(parts[0]) == 1 && strings.HasSuffix(parts[1], ":"+ref) {
			return parts[0][0], parts[2]
		}
	}
	return 0, ""
}

// contended reports whether a refusal comes from two pushes at the same moment,
// not from a rule.
func contended(summary string) bool {
	return containsAny(summary, "failed to update ref", "cannot lock", "failed to lock", ".lock'", "already exists", "incorrect old value",
		"fetch first", "stale info")
}

func containsAny(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// explain distinguishes a server that denies access from an unreachable one.
func (s *server) explain(err error) error {
	said, ok := errors.AsType[*gitError](err)
	if !ok || driver.Refusal(err) {
		return err
	}
	if said.timeout == 0 && said.denied {
		return fmt.Errorf("%w: %s: %s", driver.ErrDenied, s.place.show, said.text)
	}
	return fmt.Errorf("%s: %w", s.place.show, err)
}

// deniedText recognises how git, ssh and the large forges say "access denied".
// Everything else counts as unreachable.
func deniedText(text string) bool {
	text = strings.ToLower(text)
	return containsAny(text,
		"authentication failed", "could not read username", "could not read password", "terminal prompts disabled",
		"permission denied", "access denied", "returned error: 401", "returned error: 403", "host key verification failed",
		"not have permission", "not allowed to", "you are not authorized", "write access to repository not granted",
		"dubious ownership", "protocol_not_allowed", "is not allowed",
	) || strings.Contains(text, "permission to") && strings.Contains(text, "denied")
}
