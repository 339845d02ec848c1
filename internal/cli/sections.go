package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/task"
)

func newSectionsCmd(a *App) *cobra.Command {
	return a.group("sections", "Groups of tasks, worked on by one owner at a time",
		newSectionsAddCmd(a), newSectionsListCmd(a), newSectionsShowCmd(a), newSectionsDependsCmd(a), newSectionsGraphCmd(a),
		newSectionsPriorityCmd(a), newSectionsSkipCmd(a), newSectionsDeleteCmd(a))
}

func oneSection(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("takes one section, got %d; a name with spaces needs quotes", len(args))
	}
	return nil
}

// firstSection is sectionNames for commands that take one.
func (a *App) firstSection(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.sectionNames(cmd, args, text)
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

func newSectionsListCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the sections: what is in them, who works there",
		Long: `List the sections in the order of next, what is in them and who works there. In a
pipe the fields are separated by tabs: name, priority, shared or exclusive, open
tasks, all tasks, locked by, state, depends on. --quiet prints the names alone.`,
		Args: noArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			st, err := a.Store(ctx, false)
			if err != nil {
				return err
			}
			out, err := task.Sections(ctx, st, "")
			if err != nil {
				return err
			}
			if a.Quiet && !a.JSON {
				p := a.printer()
				for _, s := range out.Sections {
					p.line("%s", s.Name)
				}
				return p.flush()
			}
			list := make([]sectionInfo, len(out.Sections))
			for i, s := range out.Sections {
				list[i] = newSectionInfo(s)
			}
			return a.answer(map[string]any{"sections": list}, func(p *printer) {
				p.wide = p.wide || a.Identity().Agent
				shown := list
				if a.Identity().Agent && len(shown) > agentLimit {
					shown = shown[:agentLimit]
					defer a.note("%d of %d sections; --json has all.", len(shown), len(list))
				}
				if len(list) == 0 && p.wide {
					p.line("No sections.")
					return
				}
				p.sections(shown)
			})
		}),
	}
}

func (p *printer) sections(list []sectionInfo) {
	var rows [][]styled
	for _, s := range list {
		total := 0
		for _, n := range s.Tasks {
			total += n
		}
		look := normal
		if s.Skipped {
			look = faint
		}
		priority := priorityName(s.Priority)
		if !p.wide {
			priority = strconv.Itoa(s.Priority)
		}
		rows = append(rows, row(strong.of(s.Name), priority, s.kind(), s.Open, total, yellow.of(s.LockedBy), look.of(s.state()), strings.Join(s.DependsOn, ",")))
	}
	p.table([]string{"SECTION", "PRIORITY", "KIND", "OPEN", "TASKS", "LOCKED BY", "STATE", "DEPENDS ON"}, rows)
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

func newSectionsShowCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:               "show SECTION",
		Short:             "Show everything about one section",
		Args:              oneSection,
		ValidArgsFunction: a.firstSection,
		RunE: a.does(func(ctx context.Context, names []string) error {
			st, err := a.Store(ctx, false)
			if err != nil {
				return err
			}
			out, err := task.Sections(ctx, st, names[0])
			if err != nil {
				return err
			}
			s := newSectionInfo(out.Sections[0])
			return a.answer(map[string]any{"section": s}, func(p *printer) { p.section(s) })
		}),
	}
}

func (p *printer) section(s sectionInfo) {
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
	add("created", p.when(s.CreatedAt))
	p.fields(rows)
}
