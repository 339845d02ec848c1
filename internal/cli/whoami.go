package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/place"
)

func newWhoamiCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show who is asking and which store answers, and how that was found out",
		Long: `Show the owner under whose name locks are taken, and the chain in which it was
looked for: the first that has a value counts. Then the store, and why it is that
one; nothing is asked of it.`,
		Args: noArgs,
		RunE: a.does(func(context.Context, []string) error { return whoami(a) }),
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

func whoami(a *App) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	id, err := a.holder()
	if err != nil {
		return err
	}
	label := id.Label
	if label == "" {
		label = identity.Label(a.Dir)
	}
	url, why := a.which(cfg)
	data := whoamiData{
		Store: url, Why: why,
		Owner: id.Owner, Source: id.Source, Label: label, Session: id.Session,
		Agent: id.Agent, PID: id.PID, Warning: id.Warning, Chain: id.Chain,
	}
	return a.answer(data, func(p *printer) {
		rows := [][2]string{{"owner", id.Owner}, {"from", id.Source}}
		add := func(name, value string) {
			if value != "" {
				rows = append(rows, [2]string{name, value})
			}
		}
		add("label", label)
		add("session", id.Session)
		if id.Agent {
			add("coding agent", "yes: acquire does not wait unless told with --wait")
		}
		if id.PID > 0 {
			add("process", strconv.Itoa(id.PID))
		}
		add("store", url)
		add("because", why)
		if there := a.Env(leaseStoreEnv); there != "" {
			add("lease's store", withoutPassword(there)+" (for commands about "+strings.Join(a.leaseEnv().keys, ", ")+")")
		}
		p.fields(rows)
		p.line("")
		for _, s := range id.Chain {
			mark := " "
			if s.Used {
				mark = "*"
			}
			value := s.Value
			if value == "" {
				value = "-"
			}
			p.line("%s %s: %s", mark, s.Source, value)
		}
	})
}

// which is the store for people, and why it is this one, or none.
func (a *App) which(cfg *Config) (url, why string) {
	url, named, err := cfg.Where()
	if err == nil && !named && !place.Has(cfg.place.Folder) {
		err = a.unmade(cfg)
	}
	if err != nil {
		return "", "none: " + err.Error()
	}
	return withoutPassword(url), cfg.Why()
}
