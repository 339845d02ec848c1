package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// show writes a target as the tables below do: "tree:" and "unsaved:" before
// it, and "glob:" where it has wildcards.
func show(t Target, dir string) string {
	p := t.Path
	if rel, err := filepath.Rel(dir, p); err == nil && !strings.HasPrefix(rel, "..") {
		p = filepath.ToSlash(rel)
	}
	if t.Pattern {
		p = "glob:" + p
	}
	if t.Tree {
		p = "tree:" + p
	}
	if t.Unsaved {
		p = "unsaved:" + p
	}
	if t.There {
		p = "there:" + p
	}
	return p
}

func TestWrites(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"src/api", "docs"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "src/a.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", "/home/me")
	for _, c := range []struct{ script, want string }{
		{"ls -l src", ""},
		{"cat src/a.go", ""},
		{"echo x > src/a.go", "src/a.go"},
		{"echo x >> 'src/a b.go'", "src/a␣b.go"},
		{"echo x >| src/a.go 2>&1", "src/a.go"},
		{"cmd 2> err.log >out.log", "err.log out.log"},
		{"cmd &> all.log", "all.log"},
		{"cmd < in.txt >&2", ""},
		{"echo '> not/this' \"> nor/that\" \\> a", ""},
		{"cat <<EOF > src/x\n> in/body\nEOF\necho > src/y", "src/x src/y"},
		{"cat <<-'END' >a\n\tx > b\n\tEND\nrm c", "a tree:c"},
		{"a | tee -a src/log | tee src/two", "src/log src/two"},
		{"sed -i s/a/b/ src/a.go src/b.go", "src/a.go src/b.go"},
		{"sed -i.bak -e s/a/b/ src/a.go", "src/a.go"},
		{"sed --in-place=.bak 's/a/b/' src/a.go", "src/a.go"},
		{"sed -ni 's/a/b/' src/a.go", "src/a.go"},
		{"sed -n s/a/b/p src/a.go", ""},
		{"perl -pi -e 's/a/b/' src/a.go", "src/a.go"},
		{"perl -e 'print 1' src/a.go", ""},
		{"cp src/a.go src/b.go", "tree:src/b.go"},
		{"cp -r src/a.go docs", "tree:docs/a.go"},
		{"cp a b c docs/", "tree:docs/a tree:docs/b tree:docs/c"},
		{"cp -t docs a b", "tree:docs/a tree:docs/b"},
		{"mv src/a.go docs", "tree:src/a.go tree:docs/a.go"},
		{"mv src/a.go src/c.go", "tree:src/a.go tree:src/c.go"},
		{"rm -rf src/api", "tree:src/api"},
		{"rm -f src/*.go", "tree:glob:src/*.go"},
		{"rm src/[ab].go src/{x,y}.go", "tree:glob:src/?.go tree:glob:src/*.go"},
		{"rm 'src/*.go'", "tree:src/*.go"},
		{"touch a; mkdir -p b && chmod 600 c || chown -R me d", "a b c tree:d"},
		{"dd if=/dev/zero of=src/big bs=1M", "src/big"},
		{"cd src && echo x > a.go", "src/a.go"},
		{"(cd src; rm a) ; rm b", "tree:src/a tree:b"},
		{"cd $X && rm a", ""},
		{"F=src/a.go; echo > $F", "src/a.go"},
		{"F=src; rm \"${F}/a.go\"", "tree:src/a.go"},
		{"rm $UNKNOWN/x ${A:-b}", ""},
		{"rm ~/x", "tree:/home/me/x"},
		{"rm \"$HOME/x\" /abs/y", "tree:/home/me/x tree:/abs/y"},
		{"sudo -n rm a", "tree:a"},
		{"env A=1 B=2 tee a", "a"},
		{"A=1 tee a", "a"},
		{"timeout 5s tee a", "a"},
		{"bash -c 'echo > src/x'", "src/x"},
		{"bash -lc \"cd src && rm x\"", "tree:src/x"},
		{"bash <<'E'\nrm y\nE", "tree:y"},
		{"eval 'rm z'", "tree:z"},
		{"x=$(rm sub) ; echo `tee tick`", "tree:sub tick"},
		{"diff <(rm p) q", "tree:p"},
		{"if true; then rm a; else rm b; fi", "tree:a tree:b"},
		{"for f in x y; do rm fixed; done", "tree:fixed"},
		{"{ rm a; }", "tree:a"},
		{"# rm a\nrm b # rm c", "tree:b"},
		{"/bin/rm a", "tree:a"},
		{"git status && git diff > d.patch", "d.patch"},
		{"git checkout -- src", "unsaved:tree:src"},
		{"git checkout HEAD~1 -- src/a.go", "unsaved:tree:src/a.go"},
		{"git checkout main", ""},
		{"git checkout -b new", ""},
		{"git checkout src/a.go", "unsaved:tree:src/a.go"},
		{"git checkout .", "unsaved:tree:."},
		{"git restore src", "unsaved:tree:src"},
		{"git restore --staged src", ""},
		{"git -C src restore a.go", "unsaved:tree:src/a.go"},
		{"git clean -fd", "unsaved:tree:."},
		{"git clean -nd", ""},
		{"git clean -f -- docs", "unsaved:tree:docs"},
		{"git stash", "unsaved:tree:."},
		{"git stash push -m x -- src", "unsaved:tree:src"},
		{"git stash pop", ""},
		{"git stash list", ""},
		{"git reset --hard HEAD", "unsaved:tree:."},
		{"git reset HEAD", ""},
		{"git rm -r docs", "tree:docs"},
		{"git checkout -f main", "unsaved:tree:."},
		{"git switch --discard-changes main", "unsaved:tree:."},
		{"git stash push docs", "unsaved:tree:docs"},
		{"bash -euo pipefail -c 'rm x'", "tree:x"},
		{"sh -c 'rm \"$1\"' _ x", "tree:x"},
		{"sudo -u me rm x; env -u A rm y; timeout -s KILL 5 rm z", "tree:x tree:y tree:z"},
		{"nohup sh -c 'rm x' & timeout 0.5m dash -c 'rm y'; sudo sh -c 'rm z'", "tree:x tree:y tree:z"},
		{"tasklock run k -- rm x", "tree:x"},
		{"export F=x; rm $F", "tree:x"},
		{"echo > $(pwd)/x; echo > `pwd`/y", "x y"},
		{"cd docs && cd - && rm x; pushd src; popd; rm y", "tree:x tree:y"},
		{"for f in x y; do rm \"$f\"; done; rm z", "tree:x tree:y tree:z"},
		{"for a in x y\ndo\n for b in 1 2; do rm $a/$b; done\ndone", "tree:x/1 tree:x/2 tree:y/1 tree:y/2"},
		{"for f in src/*.go; do sed -i s/a/b/ $f; done", "glob:src/*.go"},
		{"find src -name '*.go' -delete", "there:tree:glob:src/**/*.go"},
		{"find src -name x -exec sed -i s/a/b/ {} +", "there:glob:src/**/x"},
		{"find src -name x -exec grep y {} +", ""},
		{"find src | xargs -0 rm", "tree:src there:tree:glob:src/**"},
		{"find src -name x | grep -v y | xargs -I% mv % docs/z", "there:tree:glob:src/**/x tree:docs/z"},
		{"find src -name x | while IFS= read -r f; do rm \"$f\"; done", "there:tree:glob:src/**/x"},
		{"while read f; do rm $f; done < <(find src -name x)", "there:tree:glob:src/**/x"},
		{"while read f; do rm $f; done <<< x; xargs rm <<< 'y z'", "tree:x tree:y tree:z"},
		{"find src -name x | xargs -I {} sh -c 'sed -i s/a/b/ {}'", "there:glob:src/**/x"},
		{"F='a b.go'; rm $F; rm \"$F\"", "tree:a tree:b.go tree:a␣b.go"},
		{"sort -o x y; go fmt ./src/...; mkdir -p docs", "x tree:src"},
		{"grep -rl --include='*.go' a src | xargs sed -i s/a/b/", "there:glob:src/**/*.go"},
		{"sed -i s/a/b/ $(git ls-files src)", "src there:glob:src/**"},
		{"ls | xargs wc; cat x | xargs rm", ""},
		{"gofmt -w src; gofmt -l docs; prettier --check docs", "tree:src"},
		{"curl -sSo x u; wget -O y u; sponge z", "x y z"},
		{"rsync -a docs/ src", "tree:src"},
		{"chmod -x a; chmod -R 600 b", "a tree:b"},
		{"perl -Mstrict -ne 1 a; ruby -rfileutils -e 1 b", ""},
		{"[[ a > b ]] && rm c", "tree:c"},
		{"echo \"$(echo \")\")\" $'a\\'b' $((1<<2)) > x", "x"},
		{"git commit -m \"$(cat <<'E'\nit's (here\nrm x > y\nE\n)\" && rm z", "tree:z"},
		{"apply_patch <<'E'\n*** Begin Patch\n*** Update File: src/a.go\n*** Move to: src/z.go\n*** End Patch\nE", "src/a.go src/z.go"},
		{"", ""},
		{"'", ""},
		{"\"$(", ""},
		{"echo > ", ""},
		{"<<", ""},
		{"((((", ""},
		{"))))", ""},
		{"\\", ""},
	} {
		var got []string
		for _, target := range Writes(c.script, dir) {
			got = append(got, show(target, dir))
		}
		if want := strings.ReplaceAll(strings.Join(got, " "), "a b.go", "a␣b.go"); want != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.script, want, c.want)
		}
	}
}

// What a line of a few hundred characters can grow to is bounded: each of
// these would take more memory than there is, and is read up to where it grows.
func TestWritesThatGrow(t *testing.T) {
	double := "A=ab; " + strings.Repeat("A=$A$A; ", 60)
	for name, script := range map[string]string{
		"variables": double + "rm $A; rm x",
		"words":     "A='" + strings.Repeat("a ", 1000) + "'; echo " + strings.Repeat("$A ", 100_000) + "; rm x",
		"quoted":    double + "echo " + strings.Repeat(`"$A" `, 100_000) + "; rm x",
		"names":     "echo " + strings.Repeat("a", 100_000) + " | xargs -I{} echo " + strings.Repeat("{} ", 100_000) + "; rm x",
	} {
		targets := Writes(script, "/repo")
		if n := len(targets); n == 0 || n > 2 || targets[n-1].Path != "/repo/x" {
			t.Errorf("%s: %d targets, the last is not x", name, n)
		}
	}
}

func FuzzWrites(f *testing.F) {
	for _, s := range []string{"echo > a", "git -C x clean -fd", "bash -c 'rm $(echo x)'", "cat <<E\nE\n", "a=${b:-`c`}; sed -i s/x/y/ [a-z]* {1,2}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		if n := len(Writes(script, "/repo")); n > maxTargets {
			t.Errorf("%d targets", n)
		}
	})
}
