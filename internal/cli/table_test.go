package cli

import (
	"slices"
	"testing"
)

func TestColumns(t *testing.T) {
	rows := [][]styled{
		row(faint.of("KEY"), faint.of("OWNER")),
		row("größe", red.of("a\x1b[2Jb")),
		row("x", ""),
	}
	want := []string{"KEY    OWNER", "größe  a^[[2Jb", "x"}
	if got := columns(rows, false); !slices.Equal(got, want) {
		t.Errorf("plain: %q, want %q", got, want)
	}
	want = []string{"\x1b[2mKEY\x1b[0m    \x1b[2mOWNER\x1b[0m", "größe  \x1b[31ma^[[2Jb\x1b[0m", "x"}
	if got := columns(rows, true); !slices.Equal(got, want) {
		t.Errorf("coloured: %q, want %q", got, want)
	}
}

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
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}
