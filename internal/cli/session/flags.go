package session

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
)

// DurationFlag is a flag whose value must lie within a range.
type DurationFlag struct {
	Value    time.Duration
	Given    bool
	Min, Max time.Duration
	None     bool // "none" is lease.Endless
}

func (f *DurationFlag) Set(s string) error {
	if f.None && s == "none" {
		f.Value, f.Given = lease.Endless, true
		return nil
	}
	d, err := term.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("needs a number with a unit, like 90s or 15m, between %s", f.bounds())
	}
	if d < f.Min || d > f.Max {
		return fmt.Errorf("must be between %s", f.bounds())
	}
	f.Value, f.Given = d, true
	return nil
}

func (f *DurationFlag) bounds() string {
	if f.None {
		return term.Exact(f.Min) + " and " + term.Exact(f.Max) + ", or none"
	}
	return term.Exact(f.Min) + " and " + term.Exact(f.Max)
}

func (f *DurationFlag) Type() string { return "duration" }

func (f *DurationFlag) String() string {
	switch {
	case !f.Given:
		return ""
	case f.None && f.Value == lease.Endless:
		return "none"
	}
	return term.Exact(f.Value)
}

// Whose limits a list to one owner. --owner does not: it says who asks, and a
// caller that adds it to every command must still see the others.
type Whose struct {
	mine bool
	of   string
}

// Flags adds them to a command.
func (w *Whose) Flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.mine, "mine", false, "only those of the caller and its children")
	cmd.Flags().StringVar(&w.of, "of", "", "only those of this `OWNER` and its children")
	cmd.MarkFlagsMutuallyExclusive("mine", "of")
}

// Owner is the one that is meant, empty for all.
func (w *Whose) Owner(s *Session) string {
	if w.mine {
		return s.Identity().Owner
	}
	return w.of
}
