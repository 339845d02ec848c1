package cli

import (
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/repo"
	"github.com/tasklock/tasklock/store/driver"
)

func newConfigCmd(app *App) *cobra.Command {
	show := &cobra.Command{
		Use: "show", Short: "Show every setting, its value and where it comes from",
		Args: noArgs, RunE: app.does(app.configShow),
	}
	get := &cobra.Command{
		Use: "get KEY", Short: "Print one value",
		Args: settingArgs(1), RunE: app.does(app.configGet), ValidArgsFunction: completeSetting,
	}
	path := &cobra.Command{
		Use: "path", Short: "Print where the files are",
		Args: noArgs, RunE: app.does(app.configPath),
	}
	var user bool
	set := &cobra.Command{
		Use: "set KEY VALUE", Short: "Change a value in the project's file, or the user's",
		Example: "  tasklock config set locking.taskTimeout 45m\n  tasklock config set --user locking.waitTimeout 10m",
		Args:    settingArgs(2), ValidArgsFunction: completeSetting,
		RunE: app.does(func(ctx context.Context, args []string) error { return app.configSet(ctx, args[0], args[1], user) }),
	}
	set.Flags().BoolVar(&user, "user", false, "in the file of the user, for all projects")
	g := app.group("config", "Show and change the configuration", show, get, set, path)
	g.Long = "Flags beat TASKLOCK_… variables, these the project's file, that the user's file, that the defaults.\n\n" + settingsHelp()
	return g
}

func settingsHelp() string {
	var b strings.Builder
	b.WriteString("Settings:\n")
	for _, s := range settings {
		fmt.Fprintf(&b, "  %-24s %s (%s)\n", s.key, s.note, s.env)
	}
	return strings.TrimRight(b.String(), "\n")
}

// settingArgs checks the number of arguments and that the first is a setting.
func settingArgs(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("takes %d arguments, got %d", n, len(args))
		}
		if _, ok := findSetting(args[0]); !ok {
			return usagef("unknown key %s%s", quoted(args[0]), didYouMean(args[0]))
		}
		return nil
	}
}

func completeSetting(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var keys []string
	if len(args) == 0 {
		for _, s := range settings {
			keys = append(keys, s.key+"\t"+s.note)
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}

// settingView is a setting for people and programs.
type settingView struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func (c *Config) view(s setting) settingView {
	v := c.values[s.key]
	if s.key == "store" {
		v.text, _ = c.Store()
	}
	return settingView{s.key, v.text, v.origin}
}

func (a *App) configShow(context.Context, []string) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	var views []settingView
	var rows [][]cell
	for _, s := range settings {
		v := cfg.view(s)
		v.Value = withoutPassword(v.Value)
		views = append(views, v)
		rows = append(rows, []cell{{v.Key, normal}, {v.Value, strong}, {v.Origin, faint}})
	}
	return a.answer(map[string]any{"settings": views}, func(p *printer) {
		p.table([]string{"KEY", "VALUE", "ORIGIN"}, rows)
	})
}

// withoutPassword hides what a URL may hold and nobody else should see. One
// that cannot be read may hold it anywhere. Forges take a token for the user.
func withoutPassword(s string) string {
	u, err := url.Parse(s)
	scheme, _, remote := strings.Cut(s, "://")
	switch {
	case err == nil && u.Opaque != "": // git:https://…
		outer, inner, _ := strings.Cut(s, ":")
		return outer + ":" + withoutPassword(inner)
	case err != nil && remote:
		return scheme + "://…"
	case err != nil:
		return s
	case strings.Contains(u.RawQuery, "password"):
		pairs := strings.Split(u.RawQuery, "&")
		for i, pair := range pairs {
			if key, _, _ := strings.Cut(pair, "="); strings.Contains(key, "password") {
				pairs[i] = key + "=xxxxx"
			}
		}
		u.RawQuery = strings.Join(pairs, "&")
	case u.User == nil:
		return s
	case u.Scheme == "http" || u.Scheme == "https":
		u.User = url.User("xxxxx")
	}
	return u.Redacted()
}

func (a *App) configGet(_ context.Context, args []string) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	s, _ := findSetting(args[0])
	v := cfg.view(s)
	return a.answer(v, func(p *printer) { p.line("%s", v.Value) })
}

// configFile is one place where configuration may be.
type configFile struct {
	Scope  string `json:"scope"`
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
}

func (a *App) configFiles() ([]configFile, error) {
	p, err := a.findPlace()
	if err != nil {
		return nil, err
	}
	files := []configFile{{Scope: "project", Path: p.Config()}, {Scope: "user", Path: userConfigFile(a.Env)}}
	for i, f := range files {
		files[i].Exists = f.Path != "" && repo.Exists(f.Path)
	}
	return slices.DeleteFunc(files, func(f configFile) bool { return f.Path == "" }), nil
}

// configPath reads no file, so it helps when one is broken.
func (a *App) configPath(context.Context, []string) error {
	files, err := a.configFiles()
	if err != nil {
		return err
	}
	var rows [][]cell
	for _, f := range files {
		state := cell{"exists", green}
		if !f.Exists {
			state = cell{"missing", faint}
		}
		rows = append(rows, []cell{{f.Scope, normal}, {f.Path, strong}, state})
	}
	return a.answer(map[string]any{"files": files}, func(p *printer) {
		p.table([]string{"FILE", "PATH", "STATE"}, rows)
	})
}

func (a *App) configSet(ctx context.Context, key, value string, user bool) error {
	s, _ := findSetting(key)
	text, err := s.norm(value)
	if err != nil {
		return usagef("%s: %v", key, err)
	}
	files, err := a.configFiles()
	if err != nil {
		return err
	}
	scope, path := "project", ""
	if user {
		scope = "user"
	}
	for _, f := range files {
		if f.Scope == scope {
			path = f.Path
		}
	}
	if path == "" && !user {
		return &noProjectError{next: a.commandLine("config", "set", "--user", key, value)}
	}
	if path, err = editable(path, user, a.DryRun); err != nil {
		return err
	}
	changed, err := editConfig(ctx, path, s, text, a.DryRun)
	if err != nil {
		return err
	}
	data := map[string]any{"key": key, "value": text, "file": path, "changed": changed}
	return a.answer(data, func(p *printer) {
		switch {
		case !changed:
			p.line("%s is %s already in %s.", key, text, path)
		case a.DryRun:
			p.line("Would set %s to %s in %s.", key, text, path)
		default:
			p.line("Set %s to %s in %s.", key, text, path)
		}
	})
}

// noProjectError: there is no file for the settings of a project.
type noProjectError struct{ next string }

func (e *noProjectError) Error() string {
	return "no repository or project here, so there is no file for its settings; --user is for your own, and tasklock init makes a project of this folder"
}

// editable prepares the place of a file. The user's may be a link, as people
// who keep their settings in a repository have it; the project's may not.
func editable(path string, user, dryRun bool) (string, error) {
	switch {
	case path == "" && user:
		return "", &ConfigError{File: "HOME", Msg: "is not set, so the user has no configuration file"}
	}
	if user {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real, nil
		}
		if dryRun {
			return path, nil
		}
		return path, refused(os.MkdirAll(filepath.Dir(path), 0o700))
	}
	for _, p := range []string{filepath.Dir(path), path} {
		if fi, err := os.Lstat(p); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return "", fmt.Errorf("%w: %s is a symbolic link; nothing is written through it", driver.ErrUnsafe, p)
		}
	}
	if dryRun {
		return path, nil
	}
	return path, makeFolder(filepath.Dir(path))
}
