package cli

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/repo"
)

// trust is one value that a user has agreed to, for one repository.
type trust struct {
	Repository string `json:"repository"`
	Value      string `json:"value"`
	Means      string `json:"means"`
}

func (s sharedStore) trust() trust { return trust{s.home, s.value, s.means()} }

// maxTrusted is how many values are kept; the oldest go.
const maxTrusted = 1000

// trustFile is in the user's folder, never in the repository.
func trustFile(env func(string) string) string {
	if user := userConfigFile(env); user != "" {
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
		return nil, &ConfigError{File: path, Msg: "is no list of what was trusted: " + err.Error()}
	}
	return list, nil
}

// checkTrust notes whether the store that the repository names may be used. It
// matters only where nothing stronger names one.
func (c *Config) checkTrust(env func(string) string) {
	v := c.values["store"]
	if c.shared == nil || v.file != c.shared.file || c.shared.free {
		return
	}
	list, err := readTrust(trustFile(env))
	switch {
	case err != nil:
		c.untrusted = err
	case !slices.Contains(list, c.shared.trust()):
		c.untrusted = &UntrustedError{File: c.shared.file, Value: c.shared.value}
	}
}

func newTrustCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use: "trust", Short: "Agree to the store that the repository's " + repo.SharedName + " names",
		Long: `Agree to the store that the repository's ` + repo.SharedName + ` names: this very value, in
this clone. When the value changes, you are asked again.

A remote of this same repository and a place among its files need no trust.`,
		Args: noArgs, RunE: a.does(a.configTrust),
	}
}

func (a *App) configTrust(ctx context.Context, _ []string) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	s := cfg.shared
	if s == nil {
		return usagef("no %s here names a store: there is nothing to trust", repo.SharedName)
	}
	changed, err := addTrust(ctx, a.Env, *s, a.DryRun)
	if err != nil {
		return err
	}
	data := map[string]any{"file": s.file, "store": s.value, "needed": !s.free, "changed": changed}
	return a.answer(data, func(p *printer) {
		switch {
		case s.free:
			p.line("%s needs no trust: it is part of this repository.", s.value)
		case !changed:
			p.line("%s is trusted already.", s.value)
		case a.DryRun:
			p.line("Would trust %s, which %s names.", s.value, s.file)
		default:
			p.line("Trusted: %s, which %s names.", s.value, s.file)
		}
	})
}

// addTrust agrees to a store. It reports whether that was new.
func addTrust(ctx context.Context, env func(string) string, s sharedStore, dryRun bool) (changed bool, err error) {
	if s.free {
		return false, nil
	}
	path := trustFile(env)
	list, err := readTrust(path)
	if err != nil || slices.Contains(list, s.trust()) {
		return false, err
	}
	if path, err = editable(path, true, dryRun, env); err != nil || dryRun {
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
		return refused(replaceFile(path, append(b, '\n'), 0o600))
	})
}

// homeless reports that the folder in which a user's files would be made is not
// there: nobody's home is made here.
func homeless(env func(string) string) error {
	dir := env("XDG_CONFIG_HOME")
	name := "XDG_CONFIG_HOME"
	if filepath.IsAbs(dir) {
		dir = filepath.Dir(filepath.Clean(dir))
	} else {
		name, dir = "HOME", filepath.Dir(filepath.Dir(filepath.Dir(userConfigFile(env))))
	}
	if !repo.IsDir(dir) {
		return &ConfigError{File: dir, Msg: "does not exist, so there is no place for a file of your own (" + name + " says where)"}
	}
	return nil
}
