package driver

import (
	"errors"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	kinds["sqlite"], kinds["git"], kinds["postgres"], kinds["mine"] = kind{}, kind{}, kind{}, kind{}
	t.Cleanup(func() { clear(kinds) })
	for url, want := range map[string]string{
		"sqlite:a/b.db": "a/b.db", "sqlite:///a": "/a", "a/b.db": "a/b.db", `C:\a.db`: `C:\a.db`,
		"git:host:path#b": "host:path#b", "postgres://u@h/d": "postgres://u@h/d", "mine://x": "mine://x",
	} {
		if _, place, err := find(url); err != nil || place != want {
			t.Errorf("%s: %q, %v", url, place, err)
		}
	}
	for url, want := range map[string]string{ // what is behind the scheme may hold a password
		"mysql://u:secret@h/db": "must be sqlite:PATH", "sqlite:": "must be", "git:": "must be", "file:": "must be",
		"etcd://u:secret@h": "import github.com/tasklock/tasklock/store/etcdstore",
	} {
		_, _, err := find(url)
		if !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
