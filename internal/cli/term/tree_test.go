package term

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// Whatever depends on what, a drawing ends, and is not large.
func TestTreeIsBounded(t *testing.T) {
	for name, below := range map[string]func(id string) []string{
		"a cycle": func(id string) []string { return []string{"b", "a"} },
		"deep":    func(id string) []string { return []string{id + "x"} },
		"wide": func(id string) []string {
			if id != "a" {
				return nil
			}
			all := make([]string, 5000)
			for i := range all {
				all[i] = fmt.Sprint(i)
			}
			return all
		},
	} {
		var out bytes.Buffer
		p := &Printer{W: &out}
		whole := p.Tree([]string{"a"}, nil, func(id string) string { return Short(id, 20) }, below)
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n > TreeLines || n < 2 || whole != (name != "wide") {
			t.Errorf("%s: %d lines, whole: %v", name, n, whole)
		}
	}
}
