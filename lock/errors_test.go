package lock_test

import (
	"testing"

	"github.com/tasklock/tasklock/lock"
)

// A key that has another token now is held, whether or not it is known by whom.
func TestLostErrorText(t *testing.T) {
	for want, err := range map[string]error{
		"k: lease lost (nobody holds it)":                              &lock.LostError{Key: "k"},
		"k: lease lost, token 2 is stale (its token is 9 now)":         &lock.LostError{Key: "k", Token: 2, Now: 9},
		"k: lease lost, token 2 is stale (held by bob with token 9)":   &lock.LostError{Key: "k", Token: 2, Now: 9, Owner: "bob"},
		"k: lease lost, token 2 is stale (broken by eve: maintenance)": &lock.LostError{Key: "k", Token: 2, Now: 9, Why: "broken by eve: maintenance"},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
