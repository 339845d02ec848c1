package setupcmd

import (
	"cmp"
	"context"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/place"
)

func NewWhoami(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show your owner and your store, and why",
		Long: `Show your owner, and the chain in which tasklock looked for it: the first value
counts. Then show the store, and why it is this one; it does not ask the store.`,
		Args: session.NoArgs,
		RunE: s.Run(func(context.Context, []string) error { return whoami(s) }),
	}
}

// whoamiData is an identity for programs.
type whoamiData struct {
	Owner   string          `json:"owner"`
	Source  string          `json:"source"`
	Label   string          `json:"label"`
	Session string          `json:"session"`
	Agent   bool            `json:"agent"`
	PID     int             `json:"pid"`
	Warning string          `json:"warning,omitempty"`
	Chain   []identity.Step `json:"chain"`
	Store   string          `json:"store,omitempty"`
	Why     string          `json:"storeFrom"` // or why there is none
}

func whoami(s *session.Session) error {
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	id, err := s.Holder()
	if err != nil {
		return err
	}
	label := id.Label
	if label == "" {
		label = identity.Label(s.Dir)
	}
	url, why := which(s, cfg)
	data := whoamiData{
		Store: url, Why: why,
		Owner: id.Owner, Source: id.Source, Label: label, Session: id.Session,
		Agent: id.Agent, PID: id.PID, Warning: id.Warning, Chain: id.Chain,
	}
	return s.Answer(data, func(p *term.Printer) {
		rows := term.Fields{{"owner", id.Owner}, {"from", id.Source}}
		rows.Add("label", label)
		rows.Add("session", id.Session)
		if id.Agent {
			rows.Add("coding agent", "yes: acquire waits only with --wait")
		}
		if id.PID > 0 {
			rows.Add("process", strconv.Itoa(id.PID))
		}
		rows.Add("store", url)
		rows.Add("because", why)
		if there := s.Env(config.LeaseEnv); there != "" {
			rows.Add("lease's store", config.WithoutPassword(there)+" (for commands about "+strings.Join(s.LeaseEnv().Keys, ", ")+")")
		}
		p.Fields(rows)
		p.Line("")
		for _, step := range id.Chain {
			mark := " "
			if step.Used {
				mark = "*"
			}
			p.Line("%s %s: %s", mark, step.Source, cmp.Or(step.Value, "-"))
		}
	})
}

// which is the store for people, and why it is this one, or none.
func which(s *session.Session, cfg *config.Config) (url, why string) {
	url, named, err := cfg.Where()
	if err == nil && !named && !place.Has(cfg.Place.Folder) {
		err = cfg.Unmade()
	}
	if err != nil {
		return "", "none: " + err.Error()
	}
	return config.WithoutPassword(url), cfg.Why()
}

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
