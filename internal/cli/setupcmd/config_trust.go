package setupcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/repo"
)

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
