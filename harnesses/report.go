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
	fmt.Printf("   FAILED %s: %s\n%s", s.check, why, indent(seen))
	if r.failed[s.check] == "" {
		r.failed[s.check] = why
	}
}

// failScript fails all checks of a script that cannot go on.
func (r *report) failScript(s script, why string) {
	fmt.Printf("   FAILED: %s\n", why)
	r.problems = append(r.problems, why)
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
	case r.failed[check] != "":
		return "FAILED"
	case r.passed[check] > 0:
		return "yes"
	case check == oneOwner && !r.mcp, check == subagents && r.spawn == nil:
		return "has none"
	}
	return "not tried"
}

// table is harness × check, as it stands in docs/agents.md.
func table(reports []report) string {
	var b strings.Builder
	b.WriteString("| harness | " + strings.Join(checks, " | ") + " |\n|---" + strings.Repeat("|---", len(checks)) + "|\n")
	for _, r := range reports {
		fmt.Fprintf(&b, "| %s %s |", r.title, r.version)
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
			if why := r.failed[c]; why != "" {
				fmt.Fprintf(&b, "%s, %s: %s\n", r.title, c, why)
			}
		}
	}
	return b.String()
}

// verdict is an error if anything failed.
func verdict(reports []report) error {
	for _, r := range reports {
		if len(r.failed)+len(r.problems) > 0 {
			return errors.New("not all checks hold")
		}
	}
	return nil
}
