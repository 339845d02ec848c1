package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// printHelp explains a command: what it does, how to call it, examples, then the
// details, the flags with their defaults and, last, the exit codes. In the text of
// a command the details begin after the first paragraph.
func printHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	text, codes, _ := strings.Cut(cmp.Or(cmd.Long, cmd.Short), "\n\nExit codes:\n")
	about, details, _ := strings.Cut(text, "\n\n")
	fmt.Fprintln(out, about)
	section(out, "Usage:", usageLines(cmd))
	section(out, "Examples:", cmd.Example)
	section(out, "", details)
	subcommands(out, cmd)
	section(out, "Flags:", cmd.LocalFlags().FlagUsages())
	section(out, "Global Flags:", cmd.InheritedFlags().FlagUsages())
	section(out, "Exit codes:", codes)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(out, "\nUse %q for more about a command.\n", cmd.CommandPath()+" [command] --help")
	}
}

func section(out io.Writer, title, text string) {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return
	}
	if title != "" {
		title = "\n" + title
	}
	fmt.Fprintf(out, "%s\n%s\n", title, text)
}

func usageLines(cmd *cobra.Command) (lines string) {
	if cmd.Runnable() {
		lines = "  " + cmd.UseLine() + "\n"
	}
	if cmd.HasAvailableSubCommands() {
		lines += "  " + cmd.CommandPath() + " [command]\n"
	}
	if len(cmd.Aliases) > 0 {
		lines += "  also: " + strings.Join(cmd.Aliases, ", ") + "\n"
	}
	return lines
}

// subcommands lists the commands below cmd by their groups.
func subcommands(out io.Writer, cmd *cobra.Command) {
	titles := append([]*cobra.Group{{Title: "Commands:"}}, cmd.Groups()...)
	for _, g := range titles {
		lines := ""
		for _, c := range cmd.Commands() {
			if c.GroupID == g.ID && (c.IsAvailableCommand() || c.Name() == "help") {
				lines += fmt.Sprintf("  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
			}
		}
		section(out, g.Title, lines)
	}
}
