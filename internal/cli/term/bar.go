package term

import (
	"strings"
)

// Bar is a bar of how much is done: [=====>      ].
func Bar(done, total int) string {
	const width = 26
	n := 0
	if total > 0 {
		n = min(done, total) * (width - 1) / total
	}
	return "[" + strings.Repeat("=", n) + ">" + strings.Repeat(" ", width-1-n) + "]"
}
