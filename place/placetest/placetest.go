// Package placetest keeps tests away from the store and the settings of the
// user who runs them.
package placetest

import (
	"os"
	"strings"
	"testing"
)

// Env is an environment for commands of a user whose home is the folder home,
// which must be there: this process's, without what leads to another user's
// store or settings, or names a store or an owner.
func Env(home string) (env []string) {
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case strings.HasPrefix(name, "TASKLOCK_"), name == "XDG_STATE_HOME", name == "XDG_CONFIG_HOME", name == "HOME", strings.EqualFold(name, "LocalAppData"):
		default:
			env = append(env, e)
		}
	}
	return append(env, "HOME="+home, "LocalAppData="+home)
}

// Apart gives a test that looks at the environment itself a home of its own.
func Apart(t testing.TB) (home string) {
	t.Helper()
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("LocalAppData", home)
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	return home
}
