package cli

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  noArgs,
		RunE:  a.does(func(context.Context, []string) error { return version(a) }),
	}
}

type versionData struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (a *App) version() string {
	if a.Version != "" {
		return a.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

func version(a *App) error {
	data := versionData{Version: a.version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	return a.answer(data, func(p *printer) {
		p.line("tasklock %s (%s %s/%s)", data.Version, data.Go, data.OS, data.Arch)
	})
}
