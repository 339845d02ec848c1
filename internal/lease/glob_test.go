package lease

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/torture/long"
)

func TestGlobsOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"src/api", "src/api", true},
		{"src/api", "src/api/v1/get.go", true}, // a folder covers what is below
		{"src/api", "src/apis", false},
		{"src/api", "src", true},
		{"src/api/**", "src/api", true},
		{"src/api/**", "src/web/**", false},
		{"src/**", "src/api/**", true},
		{"**", "a/b/c", true},
		{"**/*.go", "src/api/get.go", true},
		{"**/*.go", "src/api", true}, // which may be a folder with such files
		{"**/*.go", "src/*.md", false},
		{"src/*", "src/api/get.go", false}, // a wildcard at the end covers nothing below
		{"src/*", "src/api", true},
		{"src/*/x", "src/a/b/x", false},
		{"src/*/x", "src/**/x", true},
		{"a/**/b", "a/c/**/b", true},
		{"a/**/b", "c/**/b", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"*a", "b*", true},
		{"*ab*", "*ba*", true},
		{"a*b", "a?", true},
		{"a*b", "?a", false},
		{"Src/API", "src/api/x", true}, // many file systems do not tell them apart
		{"straße", "STRASSE", false},
		{"caf\u00e9", "cafe\u0301", true},
		{"?", "é", true},
		{"**/a/**/b/**", "x", true},
		{"**/a", "**/b", true}, // a/b is below one and is the other
		{"**/a*", "**/b*", false},
	} {
		a, b := glob(t, c.a), glob(t, c.b)
		if a.Overlaps(b) != c.want || b.Overlaps(a) != c.want {
			t.Errorf("%s and %s: want %v", c.a, c.b, c.want)
		}
	}
}

func TestPlacesThatAreTouched(t *testing.T) {
	for _, c := range []struct {
		lock  string
		place Glob
		want  bool
	}{
		{"**/*.go", File("src/README.md"), false},
		{"**/*.go", Tree("src"), true},
		{"src/api", File("src/api/x[1]{2}*.go"), true},
		{"src/?1?", File("src/[1]"), true},
		{"src/api", File("src"), false}, // no file can be where a folder is
		{"src/api", Tree("src"), true},
		{"src/a*", File("src/*"), false}, // a star in a file's name is a star
		{"src", Tree(""), true},
		{"**", File("x"), true},
		{"/src", File("/src/a"), true}, // whole paths, where there is no repository
		{"/src/*.go", File("/src/a.go"), true},
		{"/src", File("src"), false},
		{"src", File("/src"), false},
		{"/**", File("/src"), true},
	} {
		if got := glob(t, c.lock).Overlaps(c.place); got != c.want {
			t.Errorf("%s and %v: %v", c.lock, c.place, got)
		}
	}
}

// A hook compares each lock with each file of a command: what differs in a name
// must cost next to nothing, or the hook is too late to deny.
func TestOverlapOfOtherNamesIsCheap(t *testing.T) {
	lock, file := glob(t, "src/web/a/*.ts"), File("src/web/b/x.ts")
	if n := testing.AllocsPerRun(100, func() { lock.Overlaps(file) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestGlobsThatAreRefused(t *testing.T) {
	for _, name := range []string{"", "/", "//a", "/a//b", "/./a", "a//b", "a/", "./a", "a/../b", "a[b", "{a,b}", `a\b`, "a**", "**b/c", "a/***"} {
		if _, err := ParseGlob(name); err == nil {
			t.Errorf("%q was accepted", name)
		}
		if _, err := CheckKey("path:" + name); err == nil {
			t.Errorf("key path:%q was accepted", name)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		outer, inner string
		want         bool
	}{
		{"src", "src/api/**", true},
		{"src/**", "src", true},
		{"src/api", "src/**", false},
		{"src/*", "src/api", false},
		{"src/*", "src/*.go", true},
		{"src/*.go", "src/*", false},
		{"src/*/x", "src/y/x", true},
		{"**", "**/x", true},
		{"**/x", "**", false},
	} {
		if got := covers("path:"+c.outer, "path:"+c.inner); got != c.want {
			t.Errorf("%s covers %s: %v", c.outer, c.inner, got)
		}
	}
}

// TestOverlapByEnumeration compares every pair of small patterns with what a
// list of all small paths says: two overlap if some path is in both.
func TestOverlapByEnumeration(t *testing.T) {
	long.NotShort(t)
	names := []string{}
	for _, a := range []string{"", "a", "b"} {
		for _, b := range []string{"", "a", "b"} {
			for _, c := range []string{"a", "b"} {
				if a == "" || b != "" {
					names = append(names, a+b+c)
				}
			}
		}
	}
	paths := append([]string{}, names...)
	for depth, last := 0, names; depth < 2; depth++ {
		var next []string
		for _, p := range last {
			for _, n := range names {
				next = append(next, p+"/"+n)
			}
		}
		paths, last = append(paths, next...), next
	}
	patterns := smallPatterns()
	sets := make([][]uint64, len(patterns))
	globs := make([]Glob, len(patterns))
	for i, p := range patterns {
		globs[i] = glob(t, p)
		re := reference(p)
		sets[i] = make([]uint64, len(paths)/64+1)
		for j, path := range paths {
			if re.MatchString("/" + path) {
				sets[i][j/64] |= 1 << (j % 64)
			}
			if got := globs[i].Overlaps(File(path)); got != re.MatchString("/"+path) {
				t.Fatalf("%s has %s: %v", p, path, got)
			}
		}
	}
	for i, a := range sets {
		for j, b := range sets[:i+1] {
			want, part := false, false
			for k := range a {
				want = want || a[k]&b[k] != 0
				part = part || b[k]&^a[k] != 0
			}
			if got := globs[i].Overlaps(globs[j]); got != want {
				t.Fatalf("%s and %s: %v, by enumeration %v", patterns[i], patterns[j], got, want)
			}
			if part && globs[i].covers(globs[j]) {
				t.Fatalf("%s does not cover all of %s", patterns[i], patterns[j])
			}
		}
	}
}

func smallPatterns() (out []string) {
	parts := []string{"**"}
	tokens := []string{"a", "b", "*", "?"}
	for _, x := range tokens {
		parts = append(parts, x)
		for _, y := range tokens {
			if x+y != "**" {
				parts = append(parts, x+y)
			}
		}
	}
	out = append(out, parts...)
	for _, a := range parts {
		for _, b := range parts {
			out = append(out, a+"/"+b)
		}
	}
	return out
}

// reference is the meaning of a pattern in the words of another language.
func reference(pattern string) *regexp.Regexp {
	var b strings.Builder
	parts := strings.Split(pattern, "/")
	if !strings.ContainsAny(parts[len(parts)-1], "*?") {
		parts = append(parts, "**")
	}
	for _, p := range parts {
		if p == "**" {
			b.WriteString("(/[^/]+)*")
			continue
		}
		b.WriteString("/" + strings.NewReplacer("*", "[^/]*", "?", "[^/]").Replace(p))
	}
	return regexp.MustCompile("^" + b.String() + "$")
}

func FuzzGlob(f *testing.F) {
	for _, s := range []string{"src/**", "**/*.go", "a?b/*", "[", "é/E"} {
		f.Add(s, "src/a.go", "x/y")
	}
	f.Fuzz(func(t *testing.T, a, b, file string) {
		g, errA := ParseGlob(a)
		h, errB := ParseGlob(b)
		if errA != nil || errB != nil {
			return
		}
		both := g.Overlaps(h)
		if both != h.Overlaps(g) {
			t.Errorf("%q and %q: not symmetric", a, b)
		}
		if !g.Overlaps(g) {
			t.Errorf("%q does not overlap itself", a)
		}
		if x := File(file); len(x.parts) > 0 && g.Overlaps(x) && h.Overlaps(x) && !both {
			t.Errorf("%q and %q have %q in common", a, b, file)
		}
		if g.covers(h) && !both {
			t.Errorf("%q covers %q without overlap", a, b)
		}
	})
}

func glob(t *testing.T, name string) Glob {
	t.Helper()
	g, err := ParseGlob(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
