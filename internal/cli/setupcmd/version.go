package setupcmd

import (
	"context"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
)

func NewVersion(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  session.NoArgs,
		RunE:  s.Run(func(context.Context, []string) error { return version(s) }),
	}
}

type versionData struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func version(s *session.Session) error {
	data := versionData{Version: s.ProgramVersion(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	return s.Answer(data, func(p *term.Printer) {
		p.Line("tasklock %s (%s %s/%s)", data.Version, data.Go, data.OS, data.Arch)
	})
}
