package config

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/tasklock/tasklock/internal/repo"
)

// trust is one value that a user has agreed to, for one repository.
type trust struct {
	Repository string `json:"repository"`
	Value      string `json:"value"`
	Means      string `json:"means"`
}

func (s SharedStore) trust() trust { return trust{s.home, s.Value, s.means()} }

// maxTrusted is how many values are kept; the oldest go.
const maxTrusted = 1000

// trustFile is in the user's folder, never in the repository.
func trustFile(env func(string) string) string {
	if user := UserFile(env); user != "" {
		return filepath.Join(filepath.Dir(user), "trusted.json")
	}
	return ""
}

func readTrust(path string) (list []trust, err error) {
	if path == "" {
		return nil, nil
	}
	b, err := readSmall(path)
	if err != nil || b == nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, &Error{File: path, Msg: "is not a list of trusted stores: " + err.Error()}
	}
	return list, nil
}

// checkTrust notes whether the repository's store may be used. It matters only if no
// flag or variable names one.
func (c *Config) checkTrust(env func(string) string) {
	v := c.values["store"]
	if c.Shared == nil || v.file != c.Shared.File || c.Shared.Free {
		return
	}
	list, err := readTrust(trustFile(env))
	switch {
	case err != nil:
		c.untrusted = err
	case !slices.Contains(list, c.Shared.trust()):
		c.untrusted = &UntrustedError{File: c.Shared.File, Value: c.Shared.Value}
	}
}

// AddTrust agrees to a store. It reports whether that was new.
func AddTrust(ctx context.Context, env func(string) string, s SharedStore, dryRun bool) (changed bool, err error) {
	if s.Free {
		return false, nil
	}
	path := trustFile(env)
	list, err := readTrust(path)
	if err != nil || slices.Contains(list, s.trust()) {
		return false, err
	}
	if path, err = Editable(path, true, dryRun, env); err != nil || dryRun {
		return err == nil, err
	}
	return true, underGate(ctx, path+".lock", func() error {
		list, err := readTrust(path) // somebody else may have added one meanwhile
		if err != nil {
			return err
		}
		list = append(list, s.trust())
		b, err := json.MarshalIndent(list[max(0, len(list)-maxTrusted):], "", "  ")
		if err != nil {
			return err
		}
		return Refused(replaceFile(path, append(b, '\n'), 0o600))
	})
}

// homeless reports whether the folder for a user's files is missing: tasklock makes no
// home.
func homeless(env func(string) string) error {
	dir := env("XDG_CONFIG_HOME")
	name := "XDG_CONFIG_HOME"
	if filepath.IsAbs(dir) {
		dir = filepath.Dir(filepath.Clean(dir))
	} else {
		name, dir = "HOME", filepath.Dir(filepath.Dir(filepath.Dir(UserFile(env))))
	}
	if !repo.IsDir(dir) {
		return &Error{File: dir, Msg: "does not exist, so there is no place for your own file (" + name + " says where)"}
	}
	return nil
}
