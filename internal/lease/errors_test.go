package lease_test

import (
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
)

// A key that has another token now is held, whether or not it is known by whom.
func TestLostErrorText(t *testing.T) {
	for want, err := range map[string]error{
		"k: lease lost (nobody holds it)":                              &lease.LostError{Key: "k"},
		"k: lease lost, token 2 is stale (its token is 9 now)":         &lease.LostError{Key: "k", Token: 2, Now: 9},
		"k: lease lost, token 2 is stale (held by bob with token 9)":   &lease.LostError{Key: "k", Token: 2, Now: 9, Owner: "bob"},
		"k: lease lost, token 2 is stale (broken by eve: maintenance)": &lease.LostError{Key: "k", Token: 2, Now: 9, Why: "broken by eve: maintenance"},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
