package tasklock_test

import (
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestWords fails on the phrases that docs/words.md refuses: in pages
// everywhere, in Go files in comments and strings.
func TestWords(t *testing.T) {
	refused := refusedPhrases(t)
	out, err := exec.Command("git", "ls-files", "*.md", "*.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range refused.in(name, string(text)) {
			t.Error(found)
		}
	}
}

// TestWordsCanFail shows that each rule finds its phrase, and passes where it
// should.
func TestWordsCanFail(t *testing.T) {
	refused := refusedPhrases(t)
	for _, r := range refused {
		if found := refused.in("page.md", "One line.\nIt "+r.phrase+", they say.\n"); len(found) == 0 {
			t.Errorf("%q passes in a page", r.phrase)
		}
		for _, right := range r.unless {
			if found := (phrases{r}).in("page.md", "It "+right+", they say."); len(found) > 0 {
				t.Errorf("%q is right: %s", right, found)
			}
		}
	}
	all := phrases{{phrase: "sign of life", find: phrase("sign of life")}}
	for source, want := range map[string]int{
		"package p // a sign of life":                  1,
		"package p\n// no sign\n// of life\n":          1,
		"package p\nconst c = \"Sign of life\"":        1,
		"package p\nfunc f() { sign := of(life) }":     0,
		"package p\nconst c = \"assign of lifetimes\"": 0,
	} {
		if got := len(all.in("file.go", source)); got != want {
			t.Errorf("%d findings, want %d: %s", got, want, source)
		}
	}
}

// A refusal is one line of the table in docs/words.md.
type refusal struct {
	phrase string
	unless []string
	write  string
	find   *regexp.Regexp
}

type phrases []refusal

func refusedPhrases(t *testing.T) (all phrases) {
	t.Helper()
	text, err := os.ReadFile("docs/words.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| phrase |")
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			break
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		r := refusal{phrase: cells[1], write: cells[3], find: phrase(cells[1])}
		if cells[2] != "" {
			r.unless = strings.Split(cells[2], ", ")
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		t.Fatal("docs/words.md refuses no phrase")
	}
	return all
}

// phrase matches words, even across a line break of a comment.
func phrase(words string) *regexp.Regexp {
	return regexp.MustCompile(`\b` + strings.ReplaceAll(regexp.QuoteMeta(strings.ToLower(words)), " ", `(?:\s|//)+`) + `\b`)
}

// unchecked are files that may have the phrases: the list, its test, and the past.
var unchecked = []string{"docs/words.md", "words_test.go", "CHANGELOG.md"}

func (all phrases) in(name, text string) (found []string) {
	switch {
	case slices.ContainsFunc(unchecked, func(u string) bool { return strings.HasPrefix(name, u) }):
		return nil
	case filepath.Ext(name) == ".go":
		text = prose(text)
	}
	text = strings.ToLower(text)
	for _, r := range all {
		if !strings.Contains(text, strings.Fields(r.phrase)[0]) {
			continue
		}
		for _, at := range r.find.FindAllStringIndex(text, -1) {
			if !r.right(text, at) {
				line := 1 + strings.Count(text[:at[0]], "\n")
				found = append(found, name+":"+strconv.Itoa(line)+": "+text[at[0]:at[1]]+": write "+r.write)
			}
		}
	}
	return found
}

// right tells whether a finding is part of a phrase that is right.
func (r refusal) right(text string, at []int) bool {
	for _, u := range r.unless {
		near := text[max(0, at[0]-len(u)):min(len(text), at[1]+len(u))]
		if phrase(u).MatchString(near) {
			return true
		}
	}
	return false
}

// prose returns a Go file with everything blanked but comments and strings.
func prose(source string) string {
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	s.Init(file, []byte(source), nil, scanner.ScanComments)
	kept := []byte(source)
	for i := range kept {
		if kept[i] != '\n' {
			kept[i] = ' '
		}
	}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return string(kept)
		}
		if tok == token.COMMENT || tok == token.STRING {
			copy(kept[file.Offset(pos):], lit)
		}
	}
}
