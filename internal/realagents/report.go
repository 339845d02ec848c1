package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A report is what became of the checks of one harness.
type report struct {
	harness
	passed   map[string]int    // steps
	failed   map[string]string // why
	problems []string
	outside  []string // hosts that it wanted to reach
}

func newReport(h harness) report {
	return report{harness: h, passed: map[string]int{}, failed: map[string]string{}}
}

func (r *report) pass(s step) { r.passed[s.check]++ }

func (r *report) fail(s step, why, seen string) {
	fmt.Printf("   %s %s: %s\n%s", r.word(s.check), s.check, why, indent(seen))
	if r.failed[s.check] == "" {
		r.failed[s.check] = why
	}
}

// word tells a fault from what is known not to work.
func (r *report) word(check string) string {
	if r.cannot[check] != "" {
		return "as known:"
	}
	return "FAILED"
}

// failScript fails all checks of a script that cannot go on.
func (r *report) failScript(s script, why string) {
	fmt.Printf("   FAILED: %s\n", why)
	for _, step := range s.steps {
		if r.can(step) && step.check != "" && r.failed[step.check] == "" {
			r.failed[step.check] = why
		}
	}
}

func (r *report) failAll(why string) {
	for _, s := range scripts {
		r.failScript(s, why)
	}
}

// note keeps what the model saw beside the scripts.
func (r *report) note(m *model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, host := range m.outside {
		if !slices.Contains(r.outside, host) {
			r.outside = append(r.outside, host)
		}
	}
}

// state is what the table says of a check.
func (r report) state(check string) string {
	switch {
	case r.failed[check] != "" && r.cannot[check] != "":
		return "no: " + r.cannot[check]
	case r.failed[check] != "":
		return "FAILED"
	case r.passed[check] > 0:
		return "yes"
	case check == oneOwner && r.mcp == nil, check == subagents && r.spawn == nil:
		return "has none"
	}
	return "not tried"
}

// table is harness × check, as it stands in docs/agents.md.
func table(reports []report) string {
	var b strings.Builder
	b.WriteString("| harness | " + strings.Join(checks, " | ") + " |\n|---" + strings.Repeat("|---", len(checks)) + "|\n")
	for _, r := range reports {
		fmt.Fprintf(&b, "| %s %s%s |", r.title, r.version, r.variant)
		for _, c := range checks {
			b.WriteString(" " + r.state(c) + " |")
		}
		b.WriteString("\n")
	}
	for _, r := range reports {
		if len(r.outside) > 0 {
			fmt.Fprintf(&b, "%s wanted to reach, and was refused: %s\n", r.title, strings.Join(r.outside, ", "))
		}
		for _, c := range checks {
			if why := r.failed[c]; why != "" && r.cannot[c] == "" {
				fmt.Fprintf(&b, "%s, %s: %s\n", r.title, c, why)
			}
		}
	}
	return b.String()
}

// verdict is an error if anything failed.
func verdict(reports []report) error {
	for _, r := range reports {
		for check := range r.failed {
			if r.cannot[check] == "" {
				return errors.New("not all checks hold")
			}
		}
		if len(r.problems) > 0 {
			return errors.New(strings.Join(r.problems, "\n"))
		}
	}
	return nil
}
