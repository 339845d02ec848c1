package taskcmd

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/task"
)

func NewSections(s *session.Session) *cobra.Command {
	return s.Group("sections", "Groups of tasks, worked on by one owner at a time",
		newSectionsAddCmd(s), newSectionsListCmd(s), newSectionsShowCmd(s), newSectionsDependsCmd(s), newSectionsGraphCmd(s),
		newSectionsPriorityCmd(s), newSectionsSkipCmd(s), newSectionsDeleteCmd(s))
}

func oneSection(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return session.Usagef("takes one section, got %d; a name with spaces needs quotes", len(args))
	}
	return nil
}

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
	WaitsFor []string            `json:"waitsFor"`
}

func newSectionInfo(s task.SectionInfo) sectionInfo {
	i := sectionInfo{sectionData: newSectionData(s.Section), Tasks: map[task.Status]int{}, LockedBy: s.LockedBy, WaitsFor: append([]string{}, s.WaitsFor...)}
	for _, status := range task.Statuses {
		i.Tasks[status] = s.Tasks[status]
		if status.Open() {
			i.Open += s.Tasks[status]
		}
	}
	return i
}

func newSectionsListCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the sections: what is in them, who works there",
		Long: `List the sections in the order of next, what is in them and who works there. In a
pipe the fields are separated by tabs: name, priority, shared or exclusive, open
tasks, all tasks, locked by, state, depends on. --quiet prints the names alone.`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error {
			st, err := s.Store(ctx, false)
			if err != nil {
				return err
			}
			out, err := task.Sections(ctx, st, "")
			if err != nil {
				return err
			}
			if s.Quiet && !s.JSON {
				p := s.Printer()
				for _, section := range out.Sections {
					p.Line("%s", section.Name)
				}
				return p.Flush()
			}
			list := make([]sectionInfo, len(out.Sections))
			for i, section := range out.Sections {
				list[i] = newSectionInfo(section)
			}
			return s.Answer(map[string]any{"sections": list}, func(p *term.Printer) {
				p.Wide = p.Wide || s.Identity().Agent
				shown := list
				if s.Identity().Agent && len(shown) > session.AgentLimit {
					shown = shown[:session.AgentLimit]
					defer s.Note("%d of %d sections; --json has all.", len(shown), len(list))
				}
				if len(list) == 0 && p.Wide {
					p.Line("No sections.")
					return
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
		rows = append(rows, term.Row(term.Strong.Of(s.Name), priority, s.kind(), s.Open, total, term.Yellow.Of(s.LockedBy), look.Of(s.state()), strings.Join(s.DependsOn, ",")))
	}
	p.Table([]string{"SECTION", "PRIORITY", "KIND", "OPEN", "TASKS", "LOCKED BY", "STATE", "DEPENDS ON"}, rows)
}

func (s sectionInfo) kind() string {
	if s.Shared {
		return "shared"
	}
	return "exclusive"
}

func (s sectionInfo) state() string {
	switch {
	case s.Skipped:
		return "skipped"
	case len(s.WaitsFor) > 0:
		return "waits for " + strings.Join(s.WaitsFor, ", ")
	case s.Open == 0:
		return "nothing open"
	}
	return "open"
}

func newSectionsShowCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:               "show SECTION",
		Short:             "Show everything about one section",
		Args:              oneSection,
		ValidArgsFunction: sectionNames(s, 1),
		RunE: s.Run(func(ctx context.Context, names []string) error {
			st, err := s.Store(ctx, false)
			if err != nil {
				return err
			}
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
	rows := [][2]string{{"section", s.Name}, {"state", s.state()}, {"kind", s.kind()}, {"priority", priorityName(s.Priority)}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, [2]string{name, value})
		}
	}
	add("depends on", strings.Join(s.DependsOn, ", "))
	add("locked by", s.LockedBy)
	for _, status := range task.Statuses {
		if n := s.Tasks[status]; n > 0 {
			add(string(status), strconv.Itoa(n))
		}
	}
	add("created", p.When(s.CreatedAt))
	p.Fields(rows)
}
