package lease_test

import (
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
)

func TestServes(t *testing.T) {
	mine := "claude:s1" + lease.ServerMark() + "/x7"
	for _, c := range []struct {
		holder, caller string
		want           bool
	}{
		{mine, "claude:s1", true},
		{mine, "claude:s1/agent", true}, // may use what its parent holds
		{mine, "claude:s2", false},
		{mine, "claude:s", false},
		{"claude:s1/agent" + lease.ServerMark() + "/x7", "claude:s1", false}, // its subagent's own
		{"claude:s1/agent", "claude:s1", false},
		{"claude:s1", "claude:s1", false},
		{"/mcp-", "", false},
		{"", "", false},
	} {
		if got := lease.Serves(c.holder, c.caller); got != c.want {
			t.Errorf("Serves(%q, %q) is %v", c.holder, c.caller, got)
		}
	}
}
