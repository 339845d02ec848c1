package harness

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/internal/shellwrites"
)

// toolInput is the input of tools that write.
type toolInput struct {
	FilePath     word            `json:"file_path"`
	NotebookPath word            `json:"notebook_path"`
	Path         word            `json:"path"`
	TargetFile   word            `json:"target_file"`
	AbsolutePath word            `json:"absolute_path"`
	Source       word            `json:"source"` // of move_file
	Destination  word            `json:"destination"`
	Command      json.RawMessage `json:"command"` // a text, or a list of words
	Patch        word            `json:"patch"`
	Input        word            `json:"input"`
	Directory    word            `json:"directory"`
	DirPath      word            `json:"dir_path"`
	Workdir      word            `json:"workdir"`
	WorkingDir   word            `json:"working_directory"`
	Dir          word            `json:"cwd"`
}

// The tools that write files, and those that run commands, by their names in
// any harness.
var (
	editTools = []string{
		"Edit", "MultiEdit", "Write", "NotebookEdit", // Claude Code
		"write_file", "replace", "edit_file", "create_file", "delete_file", "move_file", // Gemini, MCP servers
		"StrReplace", "TabWrite", "Delete", "search_replace", "str_replace", // Cursor and others
		"edit", "write", // Pi
	}
	shellTools = []string{"Bash", "bash", "Shell", "shell", "local_shell", "shell_command", "exec_command", "run_shell_command", "run_terminal_cmd"}
)

// toolName is what a tool of an MCP server is called there: mcp__SERVER__TOOL, or
// in Gemini mcp_SERVER_TOOL, where both parts may have a "_" of their own.
func toolName(tool string) string {
	if strings.HasPrefix(tool, "mcp__") {
		return tool[strings.LastIndex(tool, "__")+2:]
	}
	if !strings.HasPrefix(tool, "mcp_") {
		return tool
	}
	name := tool
	for _, known := range slices.Concat(editTools, shellTools, []string{"apply_patch"}) {
		if strings.HasSuffix(tool, "_"+known) && (name == tool || len(known) > len(name)) {
			name = known
		}
	}
	return name
}

// folder is where a shell tool runs its command.
func (in toolInput) folder(dir string) string {
	for _, w := range []word{in.Directory, in.DirPath, in.Workdir, in.WorkingDir, in.Dir} {
		if w != "" {
			return repo.Absolute(dir, string(w))
		}
	}
	return dir
}

// tool notes what a tool would write.
func (e *Event) tool(in toolInput, dir string) error {
	tool := toolName(e.Tool)
	switch {
	case slices.Contains(shellTools, tool):
		line, cut, err := commandLine(in.Command)
		e.shell(line, in.folder(dir))
		e.Cut = cut
		return err
	case tool == "apply_patch":
		text, err := commandText(in.Command)
		e.Targets = shellwrites.Patched(text+"\n"+string(in.Patch)+"\n"+string(in.Input), dir)
		return err
	case !slices.Contains(editTools, tool):
		return nil
	}
	for _, w := range []word{in.FilePath, in.NotebookPath, in.TargetFile, in.AbsolutePath, in.Path, in.Source, in.Destination} {
		if w != "" {
			e.Targets = append(e.Targets, shellwrites.Target{Path: repo.Absolute(dir, string(w))})
		}
	}
	return nil
}

// GitTime is how long git may take to say what a command of it would change;
// else everything counts as changed. Tests are more patient.
var GitTime = 150 * time.Millisecond

// ReadTime is how long the reader of a command line may look for the files that a
// pattern means. It is far more than it needs: on a busy machine a look of some
// milliseconds can wait longer, and what it does not find passes. Tests are more
// patient.
var ReadTime = 500 * time.Millisecond

// shell reads a command line that is about to run in dir.
func (e *Event) shell(line, dir string) {
	if line == "" {
		return
	}
	r := shellwrites.Read(line, dir, shellwrites.View{Git: shellwrites.AskGit(context.Background(), GitTime), Time: ReadTime})
	e.Targets, e.Calls, e.Unsure = r.Targets, r.Calls, r.Unsure
}
