package term

import (
	"testing"
)

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{
		"a-b.c/d:1":  "a-b.c/d:1",
		"":           "''",
		"two words":  "'two words'",
		"it's":       `'it'\''s'`,
		"a;rm -rf ~": "'a;rm -rf ~'",
		"größe":      "'größe'",
		"$(x)":       "'$(x)'",
		"~":          "'~'",
		"*":          "'*'",
		"\x1b[31m'":  `$'\x1b[31m\''`,
		"\u202e":     `$'\xe2\x80\xae'`,
	} {
		if got := ShellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}
