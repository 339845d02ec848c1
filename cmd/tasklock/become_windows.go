package main

import (
	"errors"
	"os"
	"os/exec"
)

// become runs the program in place of this one: Windows cannot replace a process.
func become(name string, argv []string) error {
	cmd := &exec.Cmd{Path: name, Args: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err == nil || errors.As(err, &exit) {
		os.Exit(cmd.ProcessState.ExitCode())
	}
	return err
}
