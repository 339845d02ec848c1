package term

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"plain text ~", "plain text ~"},
		{"Grüße 日本語", "Grüße 日本語"},
		{"\x1b[31mred\x1b[0m", "^[[31mred^[[0m"},
		{"\x1b]52;c;cm0=\a", "^[]52;c;cm0=^G"},
		{"a\rb\nc\td", "a^Mb^Jc^Id"},
		{"\x00\x7f", "^@^?"},
		{"\u009b31m", `\u{9b}31m`},
		{"\u202egnp.exe", `\u{202e}gnp.exe`},
		{"a\u200bb\u2066c\ufeff", `a\u{200b}b\u{2066}c\u{feff}`},
		{"a\u2028b", `a\u{2028}b`},
		{"\xff\x9b", `\x{ff}\x{9b}`},
		{"\uFFFD", "\uFFFD"},
		{"\U000e0041", `\u{e0041}`},
	} {
		if got := Clean(c.in); got != c.want {
			t.Errorf("clean(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}} {
		if got := Short(c.in, c.n); got != c.want {
			t.Errorf("short(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

// FuzzClean: whatever goes in, what comes out cannot move a cursor, and JSON
// keeps its meaning.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "a", "\x1b[2J", "\u202e", "\xff", "\u009b", "\U000e0041", "\u2029"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		harmless := func(out string) {
			if !utf8.ValidString(out) {
				t.Errorf("%q: not text", out)
			}
			for _, r := range out {
				if !Visible(r) {
					t.Errorf("%q: %U is left", out, r)
				}
			}
		}
		out := Clean(s)
		harmless(out)
		if Clean(out) != out {
			t.Errorf("cleaning %q again changes it", out)
		}
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		escaped := Escape(encoded)
		harmless(string(escaped))
		var back string
		if err := json.Unmarshal(escaped, &back); err != nil || utf8.ValidString(s) && back != s {
			t.Errorf("escape(%s) = %s, read back as %q: %v", encoded, escaped, back, err)
		}
	})
}
