package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func newSectionsAddCmd(s *session.Session) *cobra.Command {
	r := task.SectionRequest{New: true}
	o := sectionOptions{}
	cmd := &cobra.Command{
		Use:   "add SECTION",
		Short: "Add a section",
		Long: `Add a section. An owner that works on a task in it holds the whole section, so that
one owner works there at a time; with --workers several may, each on other tasks.
tasks add --section also adds one.`,
		Example: `  tasklock sections add Backend --priority high
  tasklock sections add Frontend --workers 3
  tasklock sections add Docs --workers any --depends-on Backend`,
		Args:              oneSection,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.Run(func(ctx context.Context, names []string) error {
			r.Name = names[0]
			if err := o.set(&r); err != nil {
				return err
			}
			return setSection(ctx, s, r, func(p *term.Printer, section task.Section) {
				p.Line("%s section %s.", p.Did("Added", "Would add"), section.Name)
			})
		}),
	}
	o.flags(s, cmd, &r)
	cmd.Flags().BoolVar(&o.shared, "shared", false, "the same as --workers any")
	return cmd
}

// sectionOptions are the settings that add and update take.
type sectionOptions struct {
	priority priorityFlag
	workers  workersFlag
	shared   bool
}

func (o *sectionOptions) flags(s *session.Session, cmd *cobra.Command, r *task.SectionRequest) {
	f := cmd.Flags()
	f.Var(&o.workers, "workers", "let this many owners work in it, 1 to 16, or any")
	f.Var(&o.priority, "priority", "high, medium, low, or a number from 1 (first) to 999")
	f.StringArrayVar(&r.On, "depends-on", nil, "wait for this section; repeat for more")
	_ = cmd.RegisterFlagCompletionFunc("depends-on", sectionNames(s, 0))
	_ = cmd.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions([]string{"high", "medium", "low"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("workers", cobra.FixedCompletions([]string{"1", "2", "any"}, cobra.ShellCompDirectiveNoFileComp))
}

// set puts the settings into the request.
func (o *sectionOptions) set(r *task.SectionRequest) error {
	if o.priority.given {
		r.Priority = &o.priority.value
	}
	if o.shared && o.workers.given && o.workers.value != task.AnyWorkers {
		return session.Usagef("--shared means --workers any")
	}
	if o.workers.given {
		r.Workers = &o.workers.value
	} else if o.shared {
		r.Shared = &o.shared
	}
	return nil
}

func newSectionsUpdateCmd(s *session.Session) *cobra.Command {
	r := task.SectionRequest{}
	o := sectionOptions{}
	cmd := &cobra.Command{
		Use:   "update SECTION",
		Short: "Change how many owners may work in a section, its priority or what it waits for",
		Long: `Change a section. With --workers N as many owners may work in it at a time, each on
other tasks; with --workers any there is no limit. A smaller number takes nothing away:
those who work there go on, and nobody enters until fewer are left.

Whoever holds the whole section (tasklock acquire section:NAME) keeps all others out.
This works in sections with a number of workers, not with any.

Exit codes:
  11  somebody holds the section, or a task in it, and that does not allow the change`,
		Example: `  tasklock sections update Backend --workers 3
  tasklock sections update Docs --workers any --priority low`,
		Args:              oneSection,
		ValidArgsFunction: sectionNames(s, 1),
		RunE: s.Run(func(ctx context.Context, names []string) error {
			r.Name = names[0]
			if err := o.set(&r); err != nil {
				return err
			}
			if r.Priority == nil && r.Workers == nil && len(r.On)+len(r.Off) == 0 {
				return session.Usagef("needs a setting: --workers, --priority, --depends-on or --no-longer-on")
			}
			return setSection(ctx, s, r, func(p *term.Printer, section task.Section) {
				p.Line("%s section %s.", p.Did("Changed", "Would change"), section.Name)
			})
		}),
	}
	o.flags(s, cmd, &r)
	cmd.Flags().StringArrayVar(&r.Off, "no-longer-on", nil, "do not wait for this section; repeat for more")
	_ = cmd.RegisterFlagCompletionFunc("no-longer-on", sectionNames(s, 0))
	return cmd
}

func newSectionsRenameCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "rename SECTION NAME",
		Short: "Give a section another name",
		Long: `Give a section another name. Its tasks, its settings and the sections that depend on
it follow. While they do, nobody can claim a task in it. If the command is interrupted,
the same command again goes on.

Exit codes:
  11  somebody works in the section, or the name is taken`,
		Example: `  tasklock sections rename Core Engine`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return session.Usagef("takes a section and its new name, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: sectionNames(s, 1),
		RunE: s.RunAs(func(ctx context.Context, st *store.Store, by string, names []string) error {
			shown := s.Progress("moved")
			moved, err := task.RenameSection(ctx, st, task.RenameRequest{From: names[0], To: names[1], By: by, DryRun: s.DryRun, Progress: shown.Update})
			shown.End()
			if err != nil {
				return err
			}
			return s.Answer(map[string]any{"section": names[1], "renamedFrom": names[0], "tasks": moved}, func(p *term.Printer) {
				p.Line("%s section %s to %s, with %s.", p.Did("Renamed", "Would rename"), names[0], names[1], term.Plural(moved, "task"))
			})
		}),
	}
}

func newSectionsDependsCmd(s *session.Session) *cobra.Command {
	r := task.SectionRequest{}
	cmd := &cobra.Command{
		Use:   "depends SECTION [OTHER...]",
		Short: "Make a section wait for other sections",
		Long: `Make a section wait until the others have no open tasks; --remove ends that.

Exit codes:
  11  a cycle, which it names`,
		Example: `  tasklock sections depends Docs Backend
  tasklock sections depends Docs --remove Backend`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && !cmd.Flags().Changed("remove") {
				return session.Usagef("needs a section, and what it depends on or --remove SECTION")
			}
			return nil
		},
		ValidArgsFunction: sectionNames(s, 0),
		RunE: s.Run(func(ctx context.Context, names []string) error {
			r.Name, r.On = names[0], names[1:]
			return setSection(ctx, s, r, func(p *term.Printer, section task.Section) {
				printDepends(p, "Section "+section.Name, section.DependsOn)
			})
		}),
	}
	cmd.Flags().StringArrayVar(&r.Off, "remove", nil, "do not wait for this section; repeat for more")
	_ = cmd.RegisterFlagCompletionFunc("remove", sectionNames(s, 0))
	return cmd
}

func newSectionsPriorityCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "priority SECTION PRIORITY",
		Short:   "Set the priority of a section",
		Long:    `Set the priority of a section: high, medium, low, or a number from 1 (first) to 999.`,
		Example: `  tasklock sections priority Backend high`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return session.Usagef("takes a section and a priority, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{"high", "medium", "low"}, cobra.ShellCompDirectiveNoFileComp
			}
			return sectionNames(s, 1)(cmd, args, text)
		},
		RunE: s.Run(func(ctx context.Context, args []string) error {
			var priority priorityFlag
			if err := priority.Set(args[1]); err != nil {
				return session.Usagef("priority %q: %v", term.Short(args[1], 40), err)
			}
			r := task.SectionRequest{Name: args[0], Priority: &priority.value}
			return setSection(ctx, s, r, func(p *term.Printer, section task.Section) {
				p.Line("%s the priority of section %s to %s.", p.Did("Set", "Would set"), section.Name, priorityName(section.Priority))
			})
		}),
	}
}

func newSectionsSkipCmd(s *session.Session) *cobra.Command {
	off := false
	cmd := &cobra.Command{
		Use:   "skip SECTION",
		Short: "Exclude a section from next and claim (undo: --off)",
		Example: `  tasklock sections skip Docs
  tasklock sections skip Docs --off`,
		Args:              oneSection,
		ValidArgsFunction: sectionNames(s, 1),
		RunE: s.Run(func(ctx context.Context, names []string) error {
			skipped := !off
			r := task.SectionRequest{Name: names[0], Skipped: &skipped}
			return setSection(ctx, s, r, func(p *term.Printer, section task.Section) {
				if off {
					p.Line("%s section %s again.", p.Did("Opened", "Would open"), section.Name)
				} else {
					p.Line("%s section %s.", p.Did("Skipped", "Would skip"), section.Name)
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&off, "off", false, "include the section again")
	return cmd
}

func newSectionsDeleteCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:               "delete SECTION",
		Short:             "Delete a section without tasks",
		Args:              oneSection,
		ValidArgsFunction: sectionNames(s, 1),
		RunE: s.RunAs(func(ctx context.Context, st *store.Store, by string, names []string) error {
			if err := task.DeleteSection(ctx, st, names[0], by, s.DryRun); err != nil {
				return err
			}
			return s.Answer(map[string]string{"section": names[0]}, func(p *term.Printer) {
				p.Line("%s section %s.", p.Did("Deleted", "Would delete"), names[0])
			})
		}),
	}
}
