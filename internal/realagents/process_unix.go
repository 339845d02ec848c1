//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup lets a process and its children be killed together, and has no terminal.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
