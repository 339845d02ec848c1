package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/task"
)

// setSection makes or changes a section, and says so.
func (a *App) setSection(ctx context.Context, r task.SectionRequest, text func(*printer, task.Section)) error {
	id, err := a.caller()
	if err != nil {
		return err
	}
	st, err := a.Store(ctx, r.New)
	if err != nil {
		return err
	}
	r.By, r.DryRun = id.Owner, a.DryRun
	s, err := task.SetSection(ctx, st, r)
	if err != nil {
		return err
	}
	return a.answer(map[string]any{"section": newSectionData(s)}, func(p *printer) { text(p, s) })
}

func newSectionsAddCmd(a *App) *cobra.Command {
	r := task.SectionRequest{New: true}
	priority := priorityFlag{}
	shared := false
	cmd := &cobra.Command{
		Use:   "add SECTION",
		Short: "Make a section",
		Long: `Make a section. Whoever works on a task in it holds the whole section, so that one
owner works there at a time; with --shared several may, each on another task.
tasks add --section makes one by itself.`,
		Example: `  tasklock sections add Backend --priority high
  tasklock sections add Docs --shared --depends-on Backend`,
		Args:              oneSection,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.does(func(ctx context.Context, names []string) error {
			r.Name, r.Shared = names[0], &shared
			if priority.given {
				r.Priority = &priority.value
			}
			return a.setSection(ctx, r, func(p *printer, s task.Section) {
				p.line("%s section %s.", a.did("Added", "Would add"), s.Name)
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&shared, "shared", false, "several may work in it")
	f.Var(&priority, "priority", "high, medium, low, or a number from 1 (first) to 999")
	f.StringArrayVar(&r.On, "depends-on", nil, "a section without open tasks before this one begins; repeat for more")
	_ = cmd.RegisterFlagCompletionFunc("depends-on", a.sectionNames)
	_ = cmd.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions([]string{"high", "medium", "low"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func newSectionsDependsCmd(a *App) *cobra.Command {
	r := task.SectionRequest{}
	cmd := &cobra.Command{
		Use:   "depends SECTION [OTHER...]",
		Short: "A section must wait until others have no open tasks",
		Long: `Make a section wait until the others have no open tasks left; --remove ends that.
A circle is refused and named (exit 11).`,
		Example: `  tasklock sections depends Docs Backend
  tasklock sections depends Docs --remove Backend`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && !cmd.Flags().Changed("remove") {
				return usagef("needs a section, and what it depends on or --remove SECTION")
			}
			return nil
		},
		ValidArgsFunction: a.sectionNames,
		RunE: a.does(func(ctx context.Context, names []string) error {
			r.Name, r.On = names[0], names[1:]
			return a.setSection(ctx, r, func(p *printer, s task.Section) { p.depends("Section "+s.Name, s.DependsOn, a.DryRun) })
		}),
	}
	cmd.Flags().StringArrayVar(&r.Off, "remove", nil, "it no longer depends on this section; repeat for more")
	_ = cmd.RegisterFlagCompletionFunc("remove", a.sectionNames)
	return cmd
}

func newSectionsPriorityCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:     "priority SECTION PRIORITY",
		Short:   "Which section comes first",
		Long:    `Set the priority of a section: high, medium, low, or a number from 1 (first) to 999.`,
		Example: `  tasklock sections priority Backend high`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("takes a section and a priority, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{"high", "medium", "low"}, cobra.ShellCompDirectiveNoFileComp
			}
			return a.firstSection(cmd, args, text)
		},
		RunE: a.does(func(ctx context.Context, args []string) error {
			var priority priorityFlag
			if err := priority.Set(args[1]); err != nil {
				return usagef("priority %q: %v", short(args[1], 40), err)
			}
			r := task.SectionRequest{Name: args[0], Priority: &priority.value}
			return a.setSection(ctx, r, func(p *printer, s task.Section) {
				p.line("%s the priority of section %s to %s.", a.did("Set", "Would set"), s.Name, priorityName(s.Priority))
			})
		}),
	}
}

func newSectionsSkipCmd(a *App) *cobra.Command {
	off := false
	cmd := &cobra.Command{
		Use:   "skip SECTION",
		Short: "Nothing in a section is picked or claimed, until skip --off",
		Example: `  tasklock sections skip Docs
  tasklock sections skip Docs --off`,
		Args:              oneSection,
		ValidArgsFunction: a.firstSection,
		RunE: a.does(func(ctx context.Context, names []string) error {
			skipped := !off
			r := task.SectionRequest{Name: names[0], Skipped: &skipped}
			return a.setSection(ctx, r, func(p *printer, s task.Section) {
				if off {
					p.line("%s section %s again.", a.did("Opened", "Would open"), s.Name)
				} else {
					p.line("%s section %s.", a.did("Skipped", "Would skip"), s.Name)
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&off, "off", false, "pick from it again")
	return cmd
}

func newSectionsDeleteCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:               "delete SECTION",
		Short:             "Remove a section without tasks",
		Args:              oneSection,
		ValidArgsFunction: a.firstSection,
		RunE: a.does(func(ctx context.Context, names []string) error {
			id, err := a.caller()
			if err != nil {
				return err
			}
			st, err := a.Store(ctx, false)
			if err != nil {
				return err
			}
			if err := task.DeleteSection(ctx, st, names[0], id.Owner, a.DryRun); err != nil {
				return err
			}
			return a.answer(map[string]string{"section": names[0]}, func(p *printer) {
				p.line("%s section %s.", a.did("Deleted", "Would delete"), names[0])
			})
		}),
	}
}
