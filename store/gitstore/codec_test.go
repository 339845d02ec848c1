package gitstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tasklock/tasklock/store/driver"
)

func sample(key, value string) *record {
	return &record{key: key, rev: 7, written: time.Unix(1_700_000_000, 123_000_000).UTC(), by: "host.example", value: []byte(value)}
}

var values = []string{
	`{}`, `{"owner":"ci-7","keys":["a","b"],"ttlSeconds":3600,"host":null,"deep":{"a":[{"b":true}]}}`,
	`{"s":"<&> \"quoted\" back\\slash \n \u00e9 é 日本語 😀"}`, `{ "a": 1 }`, "{}\n", `{"a":1,"a":2}`, `{"t":"\ud83d\ude00"}`,
	"{\"s\":\"\u2028 \ufeff \u202e\"}", `{"k":"key: value # no comment","l":"- x","m":"*a &b !c %d @e |f"}`, `{"<<":{"a":1}}`,
	`{"n":12345678901234567890,"e":1e400,"f":-0.0}`, strings.Repeat(`{"a":`, 40) + `{}` + strings.Repeat(`}`, 40), "no JSON at all \xff",
}

func TestRecordRoundTrip(t *testing.T) {
	for _, key := range []string{"lock/a", "lock/line\nbreak", "lease/claude:4f/agent/1", "lock/\x01\x7f\u0085\u202e", "lock/" + strings.Repeat("日", 300)} {
		for _, value := range values {
			r := sample(key, value)
			back, err := decodeRecord(r.encode())
			if err != nil || !reflect.DeepEqual(back, r) {
				t.Errorf("%q %q:\n%s\n%v %v", key, value, r.encode(), back, err)
			}
		}
	}
}

// What we write is YAML to everybody: the header, and the value as data.
func TestRecordIsYAML(t *testing.T) {
	for _, value := range values {
		file := sample("lock/a: \"b\" # c\nd", value).encode()
		var doc struct {
			Key     string
			Rev     int64
			Written time.Time
			By      string
			Value   any
		}
		d := yaml.NewDecoder(bytes.NewReader(file))
		d.KnownFields(true)
		if err := d.Decode(&doc); err != nil {
			t.Errorf("%v in\n%s", err, file)
			continue
		}
		if doc.Key != "lock/a: \"b\" # c\nd" || doc.Rev != 7 || !doc.Written.Equal(time.Unix(1_700_000_000, 123_000_000)) {
			t.Errorf("%+v from\n%s", doc, file)
		}
		if text, quoted := doc.Value.(string); quoted {
			if text != value && json.Valid([]byte(value)) {
				t.Errorf("%q became %q", value, text)
			}
			continue
		}
		var want any
		if json.Unmarshal([]byte(value), &want) == nil && fmt.Sprint(want) != fmt.Sprint(doc.Value) && !strings.Contains(value, "e400") {
			t.Errorf("%v became %v", want, doc.Value)
		}
	}
	if file := string(sample("lock/a", values[1]).encode()); !strings.Contains(file, "\n    \"owner\": \"ci-7\",\n") {
		t.Errorf("not one field on a line:\n%s", file)
	}
}

// Every change of a file by hand is noticed or changes what the file says.
func TestRecordIsStrict(t *testing.T) {
	file := sample("lock/a", values[1]).encode()
	for i := range file {
		for _, c := range []byte{' ', '\n', '0', '"', file[i] ^ 1} {
			edited := bytes.Clone(file)
			edited[i] = c
			if r, err := decodeRecord(edited); err == nil && !bytes.Equal(r.encode(), edited) {
				t.Fatalf("byte %d as %q is accepted:\n%s", i, c, edited)
			}
		}
		if _, err := decodeRecord(file[:i]); err == nil {
			t.Fatalf("the first %d bytes are accepted", i)
		}
	}
	for _, bad := range []string{"", "x", string(file) + "\n", "\ufeff" + string(file), strings.ReplaceAll(string(file), "\n", "\r\n")} {
		if _, err := decodeRecord([]byte(bad)); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestState(t *testing.T) {
	for _, s := range []state{
		{id: "abc", rev: 1, kinds: map[string]int64{}},
		{id: "abc", rev: 1<<53 + 1, kinds: map[string]int64{"lock/": 3, "o: \"dd\n/": 1 << 53, "ä/": 2}},
	} {
		file := s.encode()
		back, err := decodeState(file)
		if err != nil || !reflect.DeepEqual(back, s) {
			t.Errorf("%s\n%v %v", file, back, err)
		}
		var doc map[string]any
		if err := yaml.Unmarshal(file, &doc); err != nil || len(doc) != 4 {
			t.Errorf("%v %v", doc, err)
		}
		for i := range file {
			if _, err := decodeState(file[:i]); err == nil && file[i-1] != '\n' {
				t.Fatalf("the first %d bytes are accepted", i)
			}
		}
	}
	newer := strings.Replace(string(state{id: "a", kinds: map[string]int64{}}.encode()), "format: 1\n", "format: 2\nother: true\n", 1)
	if _, err := decodeState([]byte(newer)); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer format: %v", err)
	}
}

func TestNames(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{
		"a", "A", "a.b", ".a", "..", ".git", "a%2fb", "a/b", "a~1", "git~1", "CON", "a b", "ä", strings.Repeat("x", 300), strings.Repeat("X", 300),
		strings.Repeat("x", longName), strings.Repeat("x", longName+1), strings.Repeat("/", 200), strings.Repeat("x", 118) + strings.Repeat("/", 200),
	} {
		key := "lock/" + name
		file := fileName(key)
		if other, taken := files[file]; taken {
			t.Errorf("%q and %q are both %s", key, other, file)
		}
		files[file] = key
		if len(file) > 200 || strings.ContainsAny(file, "/\\:*?<>|\" ") || strings.HasPrefix(file, ".") {
			t.Errorf("%q has the file %q", key, file)
		}
		back, ours := keyOf("lock/", file)
		if !ours || back != key && back != "" || back == "" != strings.Contains(file, "~") {
			t.Errorf("%q: %q, %v", file, back, ours)
		}
	}
	for _, foreign := range []string{"a", "a.yml", "%61.yaml", "%2F.yaml", "%zz.yaml", "%.yaml", ".yaml", ".a.yaml", "ä.yaml", "a b.yaml"} {
		if key, ours := keyOf("lock/", foreign); ours {
			t.Errorf("%q is taken for %q", foreign, key)
		}
	}
	for _, kind := range []string{"lock/", "README.md/", "tasklock.yaml/", "../", strings.Repeat("k", 500) + "/"} {
		folder := folderName(kind)
		if back, ours := kindOf(folder); !ours || back != kind && back != "" || strings.Contains(folder, ".") {
			t.Errorf("%q is the folder %q, and that is %q, %v", kind, folder, back, ours)
		}
	}
}

func TestPorcelain(t *testing.T) {
	const ref = "refs/heads/tasklock"
	for out, want := range map[string]string{
		"To x\n*\tabc:" + ref + "\t[new branch]\nDone\n": "*[new branch]",
		"To x\n \tabc:" + ref + "\t1..2\nDone\n":         " 1..2",
		"To x\n=\tabc:" + ref + "\t[up to date]\nDone\n": "=[up to date]",
		"!\tabc:" + ref + "\t[rejected] (stale info)\n":  "![rejected] (stale info)",
		"!\tabc:refs/heads/other\t[rejected]\n":          "",
		"":                                               "", "Done\n": "", "\t\t\n": "", "*\t" + ref + "\n": "",
	} {
		flag, summary := porcelain(out, ref)
		got := summary
		if flag != 0 {
			got = string(flag) + summary
		}
		if got != want {
			t.Errorf("%q: %q", out, got)
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, v := range values {
		f.Add("lock/a", v)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		if driver.CheckKey(key) != nil {
			return
		}
		r := sample(key, value)
		file := r.encode()
		back, err := decodeRecord(file)
		if err != nil || back.key != key || string(back.value) != value {
			t.Fatalf("%q %q: %v\n%s", key, value, err, file)
		}
		name := fileName(key)
		if k, ours := keyOf(driver.Kind(key), name); !ours || k != "" && k != key {
			t.Fatalf("%q is the file %q, which is %q", key, name, k)
		}
		if _, err := decodeRecord([]byte(value)); err == nil && !strings.HasPrefix(value, "key: ") {
			t.Fatalf("%q is a record", value)
		}
	})
}

func FuzzPorcelain(f *testing.F) {
	f.Add("To x\n*\tabc:refs/heads/tasklock\t[new branch]\nDone\n")
	f.Fuzz(func(t *testing.T, out string) {
		if flag, _ := porcelain(out, "refs/heads/tasklock"); flag != 0 && !strings.Contains(out, ":refs/heads/tasklock\t") {
			t.Fatal(out)
		}
		_ = clean(redactURL(out))
		_, _ = parseCommit("x", []byte(out))
		_, _ = parseTree([]byte(out), 40)
		_, _ = decodeState([]byte(out))
	})
}
