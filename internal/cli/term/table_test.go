package term

import (
	"slices"
	"testing"
)

func TestColumns(t *testing.T) {
	rows := [][]Text{
		Row(Faint.Of("KEY"), Faint.Of("OWNER")),
		Row("größe", Red.Of("a\x1b[2Jb")),
		Row("x", ""),
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
