//go:build linux

package shellwrites

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A repository with more files than can be named one by one: a command that writes
// in one folder writes in that folder, and not in the whole repository with
// tasklock's store.
func TestManyNames(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * maxListed {
		write(fmt.Sprintf("docs/d%d.md", i), "some text")
		write(fmt.Sprintf("src/p%d/a[%d].ts", i%30, i), "other text")
		write(fmt.Sprintf("node_modules/m%d/x.js", i), "some text")
	}
	write(".tasklock/tasklock.db", "records")
	write(".gitignore", "node_modules\n.tasklock\n")
	write("README.md", "other text")
	if out, err := bash(dir, dir, "git init -q . && git add . && git -c user.name=a -c user.email=a commit -qm 1 && git checkout -qb other && git rm -rq docs src && git -c user.name=a -c user.email=a commit -qm 2 && git checkout -q -").CombinedOutput(); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	view := View{Git: AskGit(context.Background(), time.Minute), Time: time.Minute}
	for _, line := range []string{
		"git ls-files docs | xargs sed -i s/a/b/",
		"git ls-files 'docs/*' | while read -r f; do rm \"$f\"; done",
		"for f in $(git ls-files docs); do rm $f; done",
		"cd docs && git ls-files | xargs rm",
		"find docs -type f -exec sed -i s/a/b/ {} +",
		"find . -name '*.md' -path './docs/*' | xargs rm",
		"find . -path ./node_modules -prune -o -name 'd*.md' -print | xargs rm",
		"find $PWD/docs -name '*.md' | xargs -I{} rm {}",
		"grep -rl some . --exclude-dir=node_modules | xargs sed -i s/a/b/",
		"grep -rl 'some text' --include='*.md' . | xargs sed -i s/a/b/",
		"grep -rl some docs | xargs sed -i s/a/b/",
		"rg -l some | xargs sed -i s/a/b/",
		"git grep -l some | xargs sed -i s/a/b/",
		"git grep -lz some -- docs | xargs -0 sed -i s/a/b/",
	} {
		targets := Read(line, dir, view).Targets
		if len(targets) == 0 {
			t.Errorf("%s: nothing is known", line)
		}
		for _, target := range targets {
			if !strings.HasPrefix(target.Path, filepath.Join(dir, "docs")+"/") || target.Pattern && !target.There {
				t.Errorf("%s: %+v", line, target)
				break
			}
		}
	}
	for _, line := range []string{"rg -l nothing | xargs rm", "git grep -l records | xargs rm", "find . -name '*.orig' | xargs rm -f"} {
		if targets := Read(line, dir, view).Targets; len(targets) > 0 {
			t.Errorf("%s: %+v", line, targets[0])
		}
	}
	// Of more files than there may be targets the last one counts, too.
	for _, line := range []string{"git checkout other", "git clean -fdx", "git rm -rq docs src", "git stash -a"} {
		found := false
		for _, target := range Read(line, dir, view).Targets {
			found = found || strings.HasPrefix(target.Path, filepath.Join(dir, "src", "p9")+"/") || strings.HasPrefix(target.Path, filepath.Join(dir, "node_modules", "**"))
		}
		if !found {
			t.Errorf("%s: %+v", line, Read(line, dir, view).Targets)
		}
	}
	// A copy of what is there is new.
	for _, target := range Read("find docs -name '*.md' | xargs -I{} cp {} {}.bak", dir, view).Targets {
		if target.There || !strings.HasSuffix(target.Path, ".bak") {
			t.Errorf("%+v", target)
		}
	}
}

// Where there is no time to see all files, those count that were not seen, and no
// others.
func TestUnseen(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".tasklock/db", "a/1", "a/2", "b/c/1", "b/c/2", "b/d/1", "e/1", "f", ".git/x", "z.md"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ stop, name, want string }{
		{"b/c/2", "", "./e/** ./f ./z.md ./b/d/** ./b/c/2"},
		{"b/c/2", "*.md", "./e/**/*.md ./z.md ./b/d/**/*.md"},
		{"z.md", "", "./z.md"},
		{"", "*.md", "./**/*.md"},
		{".tasklock", "", "./.tasklock/** ./a/** ./b/** ./e/** ./f ./z.md"},
	} {
		got := strings.Join(unseen(".", dir, filepath.Join(dir, test.stop), test.name), " ")
		if got = strings.NewReplacer(anyPath, "**", anyName, "*").Replace(got); got != test.want {
			t.Errorf("%s %s\n got %s\nwant %s", test.stop, test.name, got, test.want)
		}
	}
}

// A git that does not answer in time keeps nobody from reading.
func TestSlowGit(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{".git", ".tasklock", "src"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	view := View{Git: func(string, ...string) (string, error) { return "", ErrSlow }, Time: time.Minute}
	for _, line := range []string{"git ls-files", "git ls-files | xargs wc -l", "git diff --name-only | head", "wc -l $(git ls-files)", "git grep -l x", "git status", "git checkout -b new"} {
		if targets := Read(line, dir, view).Targets; len(targets) > 0 {
			t.Errorf("%s: %+v", line, targets)
		}
	}
	for line, want := range map[string]string{
		"git ls-files | xargs rm": "src/**", "git diff --name-only | xargs sed -i s/a/b/": "src/**",
		"git checkout other": "", "git merge other": "", "git stash": "", "git reset --hard": "", "git rm x": "", "git clean -fd": "",
	} {
		targets := Read(line, dir, view).Targets
		if len(targets) != 1 || targets[0].Path != filepath.Join(dir, want) || !targets[0].There {
			t.Errorf("%s: %+v", line, targets)
		}
	}
}
