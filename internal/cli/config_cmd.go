package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/internal/repo"
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
	g := app.group("config", "Show and change the configuration", show, get, newConfigSetCmd(app), newTrustCmd(app), path)
	g.Long = "Flags beat TASKLOCK_… variables, these the file of this clone or project (.tasklock/config.yaml), that the\nrepository's tasklock.yaml, that the user's file, that the defaults.\n\n" + settingsHelp()
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
		if v.text, _ = c.Store(); c.untrusted != nil {
			return settingView{s.key, c.shared.value, v.origin + " (not trusted: tasklock config trust)"}
		}
	}
	return settingView{s.key, v.text, v.origin}
}

func (a *App) configShow(context.Context, []string) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	var views []settingView
	var rows [][]styled
	for _, s := range settings {
		v := cfg.view(s)
		v.Value = withoutPassword(v.Value)
		views = append(views, v)
		rows = append(rows, row(v.Key, strong.of(v.Value), faint.of(v.Origin)))
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
	files := []configFile{{Scope: "project", Path: p.Config()}, {Scope: "shared", Path: sharedFile(p)}, {Scope: "user", Path: userConfigFile(a.Env)}}
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
	var rows [][]styled
	for _, f := range files {
		state := green.of("exists")
		if !f.Exists {
			state = faint.of("missing")
		}
		rows = append(rows, row(f.Scope, strong.of(f.Path), state))
	}
	return a.answer(map[string]any{"files": files}, func(p *printer) {
		p.table([]string{"FILE", "PATH", "STATE"}, rows)
	})
}

// noProjectError: there is no file for the settings of a project.
type noProjectError struct{ next string }

func (e *noProjectError) Problem(problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.Setup, Code: "NO_PLACE", Next: e.next}
}

func (e *noProjectError) Error() string {
	return "no repository or project here, so there is no file for its settings; --user is for your own, and tasklock init makes a project of this folder"
}
