package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrUnreachable means that nobody could read the store; nothing was changed.
var ErrUnreachable = errors.New("store unreachable")

// OpenOptions are the same for every kind of store; a driver ignores what it
// has no use for. Every zero field means its default.
type OpenOptions struct {
	// Create makes the store where there is none. Otherwise that is ErrMissing,
	// because two programs with a typing error would not exclude each other.
	Create bool
	// Upgrade also opens a store whose tables have an older format, for whoever
	// upgrades them. Otherwise that is ErrOlder.
	Upgrade bool
	// AllowUnsafeFS accepts a file system whose locks cannot be trusted.
	AllowUnsafeFS bool
	// Raise also opens a store that has lost its last commits, for whoever then
	// lifts its revision. Otherwise that is ErrDamaged.
	Raise bool
	// Poll is how often a waiter looks by itself, in case nothing wakes it.
	Poll time.Duration
	// Timeout ends a call that a server does not answer.
	Timeout time.Duration
}

// A kind is what a program knows about the stores of a scheme.
type kind struct {
	open    func(ctx context.Context, place string, o *OpenOptions) (Store, error)
	inspect func(ctx context.Context, place string) (Report, error)
	made    func(Store) bool
	scheme  string
}

var kinds = map[string]kind{}

// Register lets [Open] and [Inspect] find a driver by the schemes of its URLs.
// A driver calls it when a program imports it, so a program links the drivers
// that it names and no others.
func Register[S Store](open func(context.Context, string, *OpenOptions) (S, error), inspect func(context.Context, string) (Report, error), schemes ...string) {
	k := kind{inspect: inspect, scheme: schemes[0]}
	k.open = func(ctx context.Context, place string, o *OpenOptions) (Store, error) {
		s, err := open(ctx, place, o)
		if err != nil {
			return nil, err // and no nil pointer in an interface
		}
		return s, nil
	}
	k.made = func(s Store) bool {
		_, ok := s.(S)
		return ok
	}
	for _, scheme := range schemes {
		kinds[scheme] = k
	}
}

// Open opens the store that a URL names:
//
//	sqlite:PATH, or a path alone
//	file:FOLDER
//	git:REMOTE or git:REMOTE#BRANCH
//	postgres://USER@HOST/DATABASE
//	etcd://HOST:PORT/PREFIX
//	https://HOST, a tasklock server
//
// The program must import the driver. An error that is not an answer of the store,
// such as one of the disk, is [ErrUnreachable].
func Open(ctx context.Context, url string, o *OpenOptions) (Store, error) {
	k, place, err := find(url)
	if err != nil {
		return nil, err
	}
	s, err := k.open(ctx, place, o)
	return s, Unreachable(err)
}

// Inspect examines the store that a URL names and changes nothing. An error
// means that there was nothing to examine.
func Inspect(ctx context.Context, url string) (Report, error) {
	k, place, err := find(url)
	if err != nil {
		return Report{}, err
	}
	r, err := k.inspect(ctx, place)
	return r, Unreachable(err)
}

// Unreachable turns an error that is not an answer of the store into [ErrUnreachable].
func Unreachable(err error) error {
	if err == nil || Refusal(err) || errors.Is(err, ErrUnreachable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// Scheme is the kind of store that a URL names: "sqlite" for a path alone.
func Scheme(url string) string {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok || len(scheme) == 1 { // a drive letter
		return "sqlite"
	}
	return scheme
}

// SchemeOf is the scheme of an open store, or empty if no driver registered it. A
// store that wraps another one says which with a method Scheme.
func SchemeOf(s Store) string {
	if w, ok := s.(interface{ Scheme() string }); ok {
		return w.Scheme()
	}
	for _, k := range kinds {
		if k.made(s) {
			return k.scheme
		}
	}
	return ""
}

// Linked reports whether the program has the driver of a store, if there is one.
func Linked(url string) bool {
	_, _, err := find(url)
	var e *URLError
	return !errors.As(err, &e) || e.Package == ""
}

// packages are tasklock's own drivers.
var packages = map[string]string{
	"sqlite": "sqlitestore", "file": "filestore", "git": "gitstore", "postgres": "pgstore", "postgresql": "pgstore", "etcd": "etcdstore", "etcds": "etcdstore",
	"https": "httpstore", "http": "httpstore",
}

func find(url string) (k kind, place string, err error) {
	scheme := Scheme(url)
	switch place = url; scheme {
	case "sqlite", "file":
		place = strings.TrimPrefix(strings.TrimPrefix(url, scheme+":"), "//")
	case "git":
		place = strings.TrimPrefix(url, "git:")
	}
	k, ok := kinds[scheme]
	switch pkg := packages[scheme]; {
	case place == "", !ok && pkg == "":
		return k, "", &URLError{Scheme: scheme}
	case !ok:
		return k, "", &URLError{Scheme: scheme, Package: "github.com/tasklock/tasklock/store/" + pkg}
	}
	return k, place, nil
}

// A URLError is about a store's URL that this program cannot open. It is an
// [ErrInvalid]. It does not repeat the URL, which may hold a password.
type URLError struct {
	Scheme  string
	Package string // the driver that the program would have to import; empty: no such store exists
}

func (e *URLError) Error() string {
	if e.Package != "" {
		return fmt.Sprintf("store %s:: this program has no driver for it: import %s", e.Scheme, e.Package)
	}
	return fmt.Sprintf("store %s:: must be sqlite:PATH, file:FOLDER, git:REMOTE, postgres://USER@HOST/DATABASE, etcd://HOST:PORT/PREFIX, https://HOST (a tasklock server) or a path", e.Scheme)
}

// Is makes it an ErrInvalid.
func (e *URLError) Is(target error) bool { return target == ErrInvalid }
