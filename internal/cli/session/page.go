package session

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/term"
)

// A Page is the part of a list that a command shows.
type Page struct {
	Limit int    // 0: all
	After string // it begins after this key or id
	Asked bool   // a flag asks for pages; otherwise Limit is that of a coding agent
}

// Flags adds --limit and --after to a command. A name says what --after takes.
func (p *Page) Flags(cmd *cobra.Command, name string) {
	p.LimitFlag(cmd)
	cmd.Flags().StringVar(&p.After, "after", "", "begin after this `"+name+"`, for the next page")
	_ = cmd.RegisterFlagCompletionFunc("after", cobra.NoFileCompletions)
}

// LimitFlag adds only --limit.
func (p *Page) LimitFlag(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.Limit, "limit", 0, "show at most this many; 0: all")
}

// Begin looks at the flags of a command that runs. It bounds what a coding agent has
// to read.
func (p *Page) Begin(s *Session, cmd *cobra.Command) error {
	if p.Limit < 0 {
		return Usagef("--limit: must not be negative")
	}
	f := cmd.Flags()
	if !f.Changed("limit") && !s.JSON && s.Identity().Agent {
		p.Limit = AgentLimit
	}
	p.Asked = f.Lookup("after") != nil && (p.After != "" || f.Changed("limit") && p.Limit > 0)
	return nil
}

// More tells which command shows the next page, if there may be one.
func (s *Session) More(next string) {
	if next != "" && !s.JSON { // which has it
		s.Note("More: tasklock %s", term.QuotedLine(nextPage(s.line.words, next)))
	}
}

// nextPage is the command of the page after this one.
func nextPage(words []string, next string) []string {
	words = slices.Clone(words)
	for i := 0; i < len(words); i++ {
		switch {
		case words[i] == "--after":
			words = slices.Delete(words, i, min(i+2, len(words)))
			i--
		case strings.HasPrefix(words[i], "--after="):
			words = slices.Delete(words, i, i+1)
			i--
		}
	}
	return append(words, "--after", next)
}
