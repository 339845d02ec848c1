package shellwrites

import (
	"strings"
	"testing"
	"time"
)

// What no test may run, or not everywhere, is read all the same.
func TestReadWithoutRunning(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for script, want := range map[string]string{
		"sudo -n rm a":                       "/w/a",
		"sudo -u me rm x":                    "/w/x",
		"doas rm x":                          "/w/x",
		"sudo -T 5 -u me rm x":               "/w/x",
		"strace -s 99 -f rm x":               "/w/x",
		"caffeinate -t 60 -i rm x":           "/w/x",
		"ruby tool.rb -i x":                  "",
		"npx prettier --write src":           "/w/src",
		"prettier --check src":               "",
		"prettier --write 'src/**/*.ts'":     "/w/src/**/*.ts",
		"gofmt -l src":                       "",
		"black src":                          "/w/src",
		"black --check src":                  "",
		"yarn prettier --write src":          "/w/src",
		"pnpm dlx prettier --write src":      "/w/src",
		"npm exec prettier -- --write src":   "/w/src",
		"uv run --with x ruff format src":    "/w/src",
		"poetry run black src":               "/w/src",
		"python3 -m black src":               "/w/src",
		"python3 -m isort --check-only src":  "",
		"yarn install; pnpm install x y":     "",
		"yarn run build; pnpm rm x":          "",
		"bundle exec rspec x; uv run pytest": "",
		"biome check --write src":            "/w/src",
		"biome check src":                    "",
		"cargo fmt":                          "/w/**/*.rs",
		"cargo fmt --all -- --check":         "",
		"cargo build; cargo install x":       "",
		"terraform fmt":                      "/w/*.tf",
		"terraform fmt -check":               "",
		"terraform plan -out=/tmp/x":         "",
		"yq -i '.a = 1' k.yaml":              "/w/k.yaml",
		"yq e -i '.a = 1' k.yaml":            "/w/k.yaml",
		"yq '.a' k.yaml":                     "",
		"go build -o bin/x ./cmd/x":          "/w/bin/x",
		"ruff check --fix src":               "/w/src",
		"go fmt ./src/...":                   "/w/src",
		"curl -sSo x http://localhost/y":     "/w/x",
		"curl -O http://localhost/y":         "/w/y",
		"wget -O y http://localhost/z":       "/w/y",
		"echo x | sponge z":                  "/w/z",
		"rsync -a docs/ host:src":            "",
		"rsync -an docs/ src":                "",
		"parallel rm {} ::: a b":             "/w/a /w/b",
		"ruby -e 'File.write(\"x\", \"y\")'": "/w/x",
		"ruby -e 'puts File.read(\"x\")'":    "",
		"rm ~/x":                             "/home/me/x",
		"rm \"$HOME/x\" /abs/y":              "/home/me/x /abs/y",
		"rm $NOT_KNOWN/x":                    "",
		"cd $NOT_KNOWN && rm a":              "",
		"rm $(unknown-program)":              "",
		"tasklock run k -- rm x":             "/w/x",
		"ssh host rm x":                      "",
		"git --work-tree=/v mv a b":          "/v/a /v/b",
		"docker run image rm x":              "",
		"chown -R me d":                      "/w/d",
		"rm a\nif then (":                    "/w/a",
		"cat <<EOF > a\nno end":              "/w/a",
		"ls > a; )":                          "",
		"apply_patch <<'E'\n*** Update File: src/a.go\n*** Move to: src/z.go\nE": "/w/src/a.go /w/src/z.go",
		"": "", "'": "", "\"$(": "", "echo > ": "", "<<": "", "))))": "", "\\": "", "\x00": "", "a=()": "", "${": "", "$((1/0))": "",
		"echo > $((1/0))": "", "f() { f; }; f": "", "while :; do :; done": "", "for ((;;)); do :; done": "",
	} {
		var got []string
		for _, target := range Read(script, "/w", View{}).Targets {
			got = append(got, target.Path)
		}
		if text := strings.Join(got, " "); text != want && !(want == "" && text == "/w/a" && strings.Contains(script, "; )")) {
			t.Errorf("%s\n got %s\nwant %s", script, text, want)
		}
	}
}

// The reader finds every call of tasklock.
func TestReadCalls(t *testing.T) {
	r := Read(`cd x && tasklock release a --force; bash -c "tasklock break 'b c'"; echo tasklock break`, "/w", View{})
	if len(r.Calls) != 2 || strings.Join(r.Calls[0], " ") != "release a --force" || r.Calls[1][1] != "b c" {
		t.Errorf("%q", r.Calls)
	}
}

// What a line of a few hundred characters can grow to is bounded, and so is what
// a long one costs: each of these would take more memory or time than there is.
func TestReadIsBounded(t *testing.T) {
	double := "A=ab; " + strings.Repeat("A=$A$A; ", 60)
	for name, script := range map[string]string{
		"variables":     double + "rm $A; rm x",
		"words":         "A='" + strings.Repeat("a ", 1000) + "'; echo " + strings.Repeat("$A ", 30_000) + "; rm x",
		"quoted":        double + "echo " + strings.Repeat(`"$A" `, 20_000) + "; rm x",
		"one word":      double + `echo "` + strings.Repeat(`$A`, 60_000) + `"; rm x`,
		"replacements":  "A=" + strings.Repeat("a", 10_000) + "; B=" + strings.Repeat("${A//a/$A}", 5000) + "; rm x",
		"names":         "echo " + strings.Repeat("a", 50_000) + " | xargs -I{} echo " + strings.Repeat("{} ", 20_000) + "; rm x",
		"braces":        "echo {1..1000000000}; rm x",
		"more braces":   "echo " + strings.Repeat("{a,b}", 1000) + "; rm x",
		"endless":       strings.Repeat("$(", 200_000),
		"groups":        strings.Repeat("{ a; ", 30_000),
		"quotes":        strings.Repeat(`"$(`, 200_000),
		"ifs":           strings.Repeat("if ", 40_000),
		"nots":          strings.Repeat("! ", 60_000) + "rm x",
		"loops":         strings.Repeat("for a in 1 2 3 4 5 6 7 8 9; do ", 200) + "rm $a; " + strings.Repeat("done; ", 200),
		"loops inside":  "for a in {1..300}; do for b in {1..300}; do for c in {1..300}; do echo $a$b$c > $a; done; done; done",
		"recursion":     "f() { f; f; f; }; f; rm x",
		"substitution":  strings.Repeat("`echo ", 20_000),
		"formats":       "printf %1000000000d 1; rm x",
		"here":          "cat > x <<'EOF'\n" + strings.Repeat("some text here > y\n", 6000) + "EOF\n",
		"pipes":         strings.Repeat("a | ", 30_000) + "rm x",
		"ands":          strings.Repeat("a && ", 20_000) + "rm x",
		"arithmetic":    "echo $((" + strings.Repeat("(", 60_000),
		"python":        "python3 -c '" + strings.Repeat("open(", 20_000) + "'",
		"awk":           "awk '" + strings.Repeat("print > ", 15_000) + "'",
		"sed":           "sed -n '" + strings.Repeat("s/a/", 30_000) + "' x",
		"zeros":         strings.Repeat("\x00", 100_000),
		"find brackets": "find . " + strings.Repeat("\\( ", 40_000),
		"find nots":     "find . " + strings.Repeat("! ", 60_000),
		"too long":      strings.Repeat("rm x; ", 1<<20),
	} {
		began := time.Now()
		r := Read(script, "/nowhere", View{})
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: %s", name, took)
		} else {
			t.Logf("%s: %s, %d targets, %s", name, took, len(r.Targets), r.Unsure)
		}
		if len(r.Targets) > maxTargets || strings.HasPrefix(r.Unsure, faulty) {
			t.Errorf("%s: %d targets, %s", name, len(r.Targets), r.Unsure)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range strings.Split(fuzzSeeds, "\n") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		began := time.Now()
		r := Read(script, "/nowhere/repo", View{Env: func(string) string { return "" }})
		if len(r.Targets) > maxTargets || strings.HasPrefix(r.Unsure, faulty) {
			t.Errorf("%d targets, %s", len(r.Targets), r.Unsure)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s", took)
		}
	})
}

const fuzzSeeds = `echo > a
git -C x clean -fd
bash -c 'rm $(echo x)'
a=${b:-` + "`c`" + `}; sed -i s/x/y/ [a-z]* {1,2}
find . \( -name a -o -name b \) -prune -o -exec rm {} + -delete
xargs -I{} sh -c 'rm {}' < list
python3 -c "open('a','w'); Path('x').write_text(y)"
awk '{ print > "a"; system("rm b") }' c
for ((i=0;i<3;i++)); do echo $((i*2)) > ${x[$i]}; done
tar xzf a.tgz -C b --strip-components=1
vim -es -c 'w b|q' a; ed a <<< w
case $x in a*) rm b;; esac; while read -r a b; do rm $b; done <<< 'x y'`
