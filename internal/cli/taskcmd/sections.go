package taskcmd

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func NewSections(s *session.Session) *cobra.Command {
	return session.Group("sections", "Manage groups of tasks",
		newSectionsAddCmd(s), newSectionsListCmd(s), newSectionsShowCmd(s), newSectionsDependsCmd(s), newSectionsGraphCmd(s),
		newSectionsPriorityCmd(s), newSectionsUpdateCmd(s), newSectionsRenameCmd(s), newSectionsSkipCmd(s), newSectionsDeleteCmd(s))
}

var oneSection = session.One("section", "a name with spaces needs quotes")

// sectionData is a section with every field present.
type sectionData struct {
	task.Section
	Shared    bool     `json:"shared"`
	Skipped   bool     `json:"skipped"`
	DependsOn []string `json:"dependsOn"`
}

func newSectionData(s task.Section) sectionData {
	return sectionData{s, s.Shared, s.Skipped, append([]string{}, s.DependsOn...)}
}

type sectionInfo struct {
	sectionData
	Tasks    map[task.Status]int `json:"tasks"`
	Open     int                 `json:"open"`
	LockedBy string              `json:"lockedBy"`
	Owners   []string            `json:"owners,omitempty"`
	WaitsFor []string            `json:"waitsFor"`
}

func newSectionInfo(s task.SectionInfo) sectionInfo {
	i := sectionInfo{sectionData: newSectionData(s.Section), Tasks: map[task.Status]int{}, LockedBy: s.LockedBy, Owners: s.Owners, WaitsFor: append([]string{}, s.WaitsFor...)}
	for _, status := range task.Statuses {
		i.Tasks[status] = s.Tasks[status]
		if status.Open() {
			i.Open += s.Tasks[status]
		}
	}
	return i
}

func (s sectionInfo) kind() string {
	switch {
	case s.Shared:
		return "shared"
	case s.Workers > 0:
		return "for " + strconv.Itoa(s.Workers)
	}
	return "exclusive"
}

// workers are those who work in the section.
func (s sectionInfo) workers() string { return cmp.Or(s.LockedBy, strings.Join(s.Owners, ", ")) }

func (s sectionInfo) state() string {
	switch {
	case s.MovesTo != "":
		return "gets the name " + s.MovesTo
	case s.MovesFrom != "":
		return "gets the tasks of " + s.MovesFrom
	case s.Skipped:
		return "skipped"
	case len(s.WaitsFor) > 0:
		return "waits for " + strings.Join(s.WaitsFor, ", ")
	case s.Open == 0:
		return "nothing open"
	}
	return "open"
}

// setSection makes or changes a section, and says so.
func setSection(ctx context.Context, s *session.Session, r task.SectionRequest, text func(*term.Printer, task.Section)) error {
	id, st, err := s.Act(ctx, r.New)
	if err != nil {
		return err
	}
	r.By, r.DryRun = id.Owner, s.DryRun
	section, err := task.SetSection(ctx, st, r)
	if err != nil {
		return err
	}
	return s.Answer(map[string]any{"section": newSectionData(section)}, func(p *term.Printer) { text(p, section) })
}

// allSections are what list and graph show.
func allSections(ctx context.Context, st *store.Store) ([]sectionInfo, error) {
	out, err := task.Sections(ctx, st, "")
	list := make([]sectionInfo, len(out.Sections))
	for i, section := range out.Sections {
		list[i] = newSectionInfo(section)
	}
	return list, err
}

func newSectionsListCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the sections, their tasks and who works there",
		Long: `List the sections in the order of next, their tasks and who works there.

In a pipe, tabs separate the fields: name, priority, shared or exclusive, open tasks,
all tasks, locked by, state, depends on. --quiet prints only the names.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error {
			list, err := allSections(ctx, st)
			if err != nil {
				return err
			}
			names := term.Each(list, func(section sectionInfo) string { return section.Name })
			return s.AnswerNames(map[string]any{"sections": list}, names, func(p *term.Printer) {
				p.Wide = p.Wide || s.Identity().Agent
				shown := list
				if s.Identity().Agent && len(shown) > session.AgentLimit {
					shown = shown[:session.AgentLimit]
					defer s.Note("%d of %d sections; --json has all.", len(shown), len(list))
				}
				printSections(p, shown)
			})
		}),
	}
}

func printSections(p *term.Printer, list []sectionInfo) {
	var rows [][]term.Text
	for _, s := range list {
		total := 0
		for _, n := range s.Tasks {
			total += n
		}
		look := term.Normal
		if s.Skipped {
			look = term.Faint
		}
		priority := priorityName(s.Priority)
		if !p.Wide {
			priority = strconv.Itoa(s.Priority)
		}
		rows = append(rows, term.Row(term.Strong.Of(s.Name), priority, s.kind(), s.Open, total, term.Yellow.Of(s.workers()), look.Of(s.state()), strings.Join(s.DependsOn, ",")))
	}
	p.List("No sections.", []string{"SECTION", "PRIORITY", "KIND", "OPEN", "TASKS", "LOCKED BY", "STATE", "DEPENDS ON"}, rows)
}

func newSectionsShowCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:               "show SECTION",
		Short:             "Show everything about one section",
		Args:              oneSection,
		ValidArgsFunction: sectionNames(s, 1),
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, names []string) error {
			out, err := task.Sections(ctx, st, names[0])
			if err != nil {
				return err
			}
			section := newSectionInfo(out.Sections[0])
			return s.Answer(map[string]any{"section": section}, func(p *term.Printer) { printSection(p, section) })
		}),
	}
}

func printSection(p *term.Printer, s sectionInfo) {
	rows := term.Fields{{"section", s.Name}, {"state", s.state()}, {"kind", s.kind()}, {"priority", priorityName(s.Priority)}}
	rows.Add("depends on", strings.Join(s.DependsOn, ", "))
	rows.Add("locked by", s.LockedBy)
	rows.Add("in use by", strings.Join(s.Owners, ", "))
	for _, status := range task.Statuses {
		if n := s.Tasks[status]; n > 0 {
			rows.Add(string(status), strconv.Itoa(n))
		}
	}
	rows.Add("created", p.When(s.CreatedAt))
	p.Fields(rows)
}

func newSectionsGraphCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "graph",
		Short: "Draw which sections depend on which",
		Long: `Draw the sections. Below each one is what it depends on; a section that was drawn
before is only named. --json prints the sections as list does.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error {
			list, err := allSections(ctx, st)
			if err != nil {
				return err
			}
			return s.Answer(map[string]any{"sections": list}, func(p *term.Printer) { drawSections(s, p, list) })
		}),
	}
}

func drawSections(s *session.Session, p *term.Printer, list []sectionInfo) {
	if len(list) == 0 {
		p.Line("No sections.")
		return
	}
	byName := map[string]sectionInfo{}
	var below []string
	for _, section := range list {
		byName[section.Name] = section
		below = append(below, section.DependsOn...)
	}
	var roots, rest []string
	for _, section := range list {
		if slices.Contains(below, section.Name) {
			rest = append(rest, section.Name)
		} else {
			roots = append(roots, section.Name)
		}
	}
	label := func(name string) string {
		section, ok := byName[name]
		if !ok {
			return term.Short(name, 80) + " (gone)"
		}
		return term.Short(name, 80) + " (" + section.state() + ")"
	}
	if !p.Tree(roots, rest, label, func(name string) []string { return byName[name].DependsOn }) {
		s.Note("The first %d lines; --json has all.", term.TreeLines)
	}
}
