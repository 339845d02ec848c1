package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasklock/tasklock/store/driver"
)

// explain turns the server's error into an answer of the contract, if there is
// one, and names the place.
func (s *Store) explain(err error) error {
	var late *undurableError
	switch {
	case errors.As(err, &late):
		return err
	case err == nil || driver.Refusal(err) || errors.Is(err, driver.ErrNoTurn) || strings.HasPrefix(err.Error(), s.where):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// Not the caller's context: that is checked last, and preferred.
		return fmt.Errorf("%s: no answer in time", s.where)
	}
	switch c := code(err); c {
	case "":
		return fmt.Errorf("%s: %w", s.where, unconnected(err))
	case "28P01", "28000":
		return fmt.Errorf("%w: user %s may not log in to %s: %s; look at the password and at pg_hba.conf", driver.ErrDenied, s.cfg.User, s.where, words(err))
	case "42501":
		return fmt.Errorf("%w: user %s in %s: %s; an administrator can: %s", driver.ErrDenied, s.cfg.User, s.where, words(err), s.grants())
	case "25006", "55000": // the second is a standby without a log of its own
		return fmt.Errorf("%w: %s can only be read: it is a standby, or default_transaction_read_only is on; name the primary, or add target_session_attrs=read-write to the URL",
			driver.ErrDenied, s.where)
	case "3D000":
		return &driver.LacksError{Text: fmt.Sprintf("there is no database %s at %s", s.cfg.Database, s.cfg.Host), Remedy: "createdb -E UTF8 " + s.cfg.Database}
	case "3F000", "42P01", "42883", "42703", "42804", "42P07", "23502", "P0002", "P0003", "2201B", "XX001", "XX002":
		// Our statements are fixed: if one is wrong, the tables are.
		return fmt.Errorf("%w: %s does not have our tables: %s; restore it from a backup", driver.ErrDamaged, s.where, words(err))
	case "42704", "22023", "42939", "42602": // an unknown option, a reserved name
		return invalidURL("asks for what the server does not have: " + words(err))
	case "22P02", "22003": // the caller's values are JSON; every number is ours
		if !strings.Contains(words(err), "json") {
			return s.damaged("the row with the empty key is not as tasklock writes it: " + words(err))
		}
		return fmt.Errorf("%w: %s", driver.ErrInvalid, words(err))
	case "53100":
		return fmt.Errorf("the server's disk is full, nothing was written to %s: %w", s.where, err)
	default:
		if strings.HasPrefix(c, "22") {
			return fmt.Errorf("%w: %s", driver.ErrInvalid, words(err))
		}
	}
	return fmt.Errorf("%s: %w", s.where, unconnected(err))
}

// unconnected says once, and in one line, why there is no connection: the client
// says it for each address and each way to encrypt.
func unconnected(err error) error {
	var c *pgconn.ConnectError
	if !errors.As(err, &c) {
		return err
	}
	var reasons []string
	for line := range strings.Lines(c.Unwrap().Error()) {
		line = strings.TrimSpace(line)
		for _, machinery := range []string{"dial error: ", "hostname resolving error: "} {
			if _, inner, ok := strings.Cut(line, machinery); ok {
				line = inner
			}
		}
		if !slices.Contains(reasons, line) {
			reasons = append(reasons, line)
		}
	}
	return &said{strings.Join(reasons, "; "), err}
}

// said is an error with our own text.
type said struct {
	text string
	err  error
}

func (e *said) Error() string { return e.text }
func (e *said) Unwrap() error { return e.err }

// words is the server's text, without the client's around it.
func words(err error) string {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err.Error()
	}
	if e.Detail != "" {
		return e.Message + ": " + e.Detail
	}
	return e.Message
}

// passing reports whether the server rolled back because of others: a repetition
// may succeed.
func passing(err error) bool {
	switch code(err) {
	case "40001", "40P01":
		return true
	}
	return false
}

// starting reports whether the server is starting, or has no free connection at
// the moment: commands free theirs within milliseconds.
func starting(err error) bool { return code(err) == "57P03" || code(err) == "53300" }

// older: the schema was made by an older tasklock.
func (s *Store) older(version int) error {
	return fmt.Errorf("%w: %s has version %d of %d; upgrade it once: tasklock init --upgrade (older versions of tasklock cannot use it afterwards)",
		driver.ErrOlder, s.where, version, len(steps))
}
