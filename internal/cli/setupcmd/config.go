package setupcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/internal/repo"
)

func NewConfig(s *session.Session) *cobra.Command {
	show := &cobra.Command{
		Use: "show", Short: "Show every setting, its value and where it comes from",
		Args: session.NoArgs, RunE: s.Run(func(context.Context, []string) error { return configShow(s) }),
	}
	get := &cobra.Command{
		Use: "get KEY", Short: "Print one value",
		Args: settingArgs(1), RunE: s.Run(func(_ context.Context, args []string) error { return configGet(s, args[0]) }), ValidArgsFunction: completeSetting,
	}
	path := &cobra.Command{
		Use: "path", Short: "Print the paths of the configuration files",
		Args: session.NoArgs, RunE: s.Run(func(context.Context, []string) error { return configPath(s) }),
	}
	g := session.Group("config", "Show and change the configuration", show, get, newConfigSetCmd(s), newTrustCmd(s), path)
	g.Long = "Show and change the configuration.\n\nThe first of these counts: flags, TASKLOCK_… variables, the file of this clone or project\n(.tasklock/config.yaml), the repository's tasklock.yaml, the user's file, the defaults.\n\n" + settingsHelp()
	return g
}

func settingsHelp() string {
	var b strings.Builder
	b.WriteString("Settings:\n")
	for _, s := range config.Settings {
		fmt.Fprintf(&b, "  %-24s %s (%s)\n", s.Key, s.Note, s.Env)
	}
	return strings.TrimRight(b.String(), "\n")
}

// settingArgs checks the number of arguments and that the first is a setting.
func settingArgs(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return session.Usagef("takes %d arguments, got %d", n, len(args))
		}
		if _, ok := config.Find(args[0]); !ok {
			return session.Usagef("unknown key %s%s", config.Quoted(args[0]), config.DidYouMean(args[0]))
		}
		return nil
	}
}

func completeSetting(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var keys []string
	if len(args) == 0 {
		for _, s := range config.Settings {
			keys = append(keys, s.Key+"\t"+s.Note)
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}

func configShow(s *session.Session) error {
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	var views []config.SettingView
	var rows [][]term.Text
	for _, setting := range config.Settings {
		v := cfg.View(setting)
		v.Value = config.WithoutPassword(v.Value)
		views = append(views, v)
		rows = append(rows, term.Row(v.Key, term.Strong.Of(v.Value), term.Faint.Of(v.Origin)))
	}
	return s.Answer(map[string]any{"settings": views}, func(p *term.Printer) {
		p.Table([]string{"KEY", "VALUE", "ORIGIN"}, rows)
	})
}

func configGet(s *session.Session, key string) error {
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	setting, _ := config.Find(key)
	v := cfg.View(setting)
	return s.Answer(v, func(p *term.Printer) { p.Line("%s", v.Value) })
}

// configFile is one place where configuration may be.
type configFile struct {
	Scope  string `json:"scope"`
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
}

func configFiles(s *session.Session) ([]configFile, error) {
	p, err := s.FindPlace()
	if err != nil {
		return nil, err
	}
	files := []configFile{{Scope: "project", Path: p.Config()}, {Scope: "shared", Path: config.SharedFile(p)}, {Scope: "user", Path: config.UserFile(s.Env)}}
	for i, f := range files {
		files[i].Exists = f.Path != "" && repo.Exists(f.Path)
	}
	return slices.DeleteFunc(files, func(f configFile) bool { return f.Path == "" }), nil
}

// configPath reads no file, so it helps when one is broken.
func configPath(s *session.Session) error {
	files, err := configFiles(s)
	if err != nil {
		return err
	}
	var rows [][]term.Text
	for _, f := range files {
		state := term.Green.Of("exists")
		if !f.Exists {
			state = term.Faint.Of("missing")
		}
		rows = append(rows, term.Row(f.Scope, term.Strong.Of(f.Path), state))
	}
	return s.Answer(map[string]any{"files": files}, func(p *term.Printer) {
		p.Table([]string{"FILE", "PATH", "STATE"}, rows)
	})
}

// noProjectError: there is no file for the settings of a project.
type noProjectError struct{ next string }

func (e *noProjectError) Problem(problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.Setup, Code: "NO_PLACE", Next: e.next}
}

func (e *noProjectError) Error() string {
	return "no repository or project here, so there is no file for its settings; use --user for your own settings, or make this folder a project: tasklock init"
}

func newTrustCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "trust", Short: "Trust the store in the repository's " + repo.SharedName,
		Long: `Trust the store in the repository's ` + repo.SharedName + `: exactly this value, in this
clone. A changed value needs trust again.

A remote of this repository and a place among its files need no trust.`,
		Args: session.NoArgs, RunE: s.Run(func(ctx context.Context, _ []string) error { return configTrust(ctx, s) }),
	}
}

func configTrust(ctx context.Context, s *session.Session) error {
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	sharedStore := cfg.Shared
	if sharedStore == nil {
		return session.Usagef("no %s here names a store: there is nothing to trust", repo.SharedName)
	}
	changed, err := config.AddTrust(ctx, s.Env, *sharedStore, s.DryRun)
	if err != nil {
		return err
	}
	data := map[string]any{"file": sharedStore.File, "store": sharedStore.Value, "needed": !sharedStore.Free, "changed": changed}
	return s.Answer(data, func(p *term.Printer) {
		switch {
		case sharedStore.Free:
			p.Line("%s needs no trust: it is part of this repository.", sharedStore.Value)
		case !changed:
			p.Line("%s is trusted already.", sharedStore.Value)
		case s.DryRun:
			p.Line("Would trust %s, which %s names.", sharedStore.Value, sharedStore.File)
		default:
			p.Line("Trusted: %s, which %s names.", sharedStore.Value, sharedStore.File)
		}
	})
}
