package pgtest

import "os/exec"

func (*Server) as(*exec.Cmd) {}
