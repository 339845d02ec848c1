package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tasklock/tasklock/store/driver"
)

// denials are etcd's errors for denied access.
var denials = []error{
	rpctypes.ErrAuthFailed, rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound,
	rpctypes.ErrRoleNotFound, rpctypes.ErrPermissionNotGranted,
}

// stale are etcd's errors for a token that this member does not know, or not yet:
// members forget tokens when they start, and learn new ones one after the other.
// A user with a password gets another token; a wrong one is ErrAuthFailed.
var stale = []error{rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision}

// failed says what an error of the client means. Any other error leaves the
// outcome unknown.
func (s *Store) failed(what string, err error) error {
	known := rpctypes.Error(err)
	is := func(target error) bool { return errors.Is(known, target) }
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		return fmt.Errorf("%s: etcd at %s does not answer", what, s.where) // our own deadline: the caller's is seen by Life.Ended
	case slices.ContainsFunc(stale, is):
		return fmt.Errorf("etcd at %s: %s: %w", s.where, what, known)
	case slices.ContainsFunc(denials, is):
		return s.denied(known)
	case is(rpctypes.ErrRequestTooLarge), is(rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w: %w; raise --max-request-bytes or --max-txn-ops of etcd to its defaults at least", driver.ErrTooLarge, known)
	case is(rpctypes.ErrCorrupt):
		return fmt.Errorf("%w: %w", driver.ErrDamaged, known)
	case is(rpctypes.ErrNoSpace):
		err = fmt.Errorf("%w; compact and defragment etcd, then etcdctl alarm disarm", known)
	case status.Code(err) == codes.Unauthenticated || status.Code(err) == codes.PermissionDenied:
		return fmt.Errorf("%w: etcd: %w", driver.ErrDenied, err)
	}
	if st, ok := status.FromError(err); ok && st.Code() == codes.Unavailable {
		return fmt.Errorf("etcd at %s: %s: %s", s.where, what, plain(st.Message()))
	}
	return fmt.Errorf("etcd at %s: %s: %w", s.where, what, err)
}

// denied names the user without access, and what helps.
func (s *Store) denied(why error) error {
	help := fmt.Sprintf("an administrator can: etcdctl role grant-permission ROLE --prefix=true readwrite %s/", s.keys)
	switch {
	case errors.Is(why, rpctypes.ErrUserEmpty):
		help = fmt.Sprintf("name a user: etcd://USER@%s%s, and its password: export ETCDCTL_PASSWORD=…", s.where, s.keys)
	case errors.Is(why, rpctypes.ErrAuthFailed):
		help = fmt.Sprintf("look at the password of %s: export ETCDCTL_PASSWORD=… or etcdctl user passwd %s", s.user, s.user)
	}
	return fmt.Errorf("%w: etcd at %s: %w; %s", driver.ErrDenied, s.where, why, help)
}

// plain removes what the layers of gRPC put around a network error.
func plain(message string) string {
	if inner, ok := strings.CutPrefix(message, `connection error: desc = "`); ok {
		message = strings.TrimSuffix(inner, `"`)
	}
	return strings.TrimPrefix(message, "transport: Error while dialing: ")
}
