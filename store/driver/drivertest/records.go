package drivertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

var recordCases = []testCase{
	{name: "odd keys", run: oddKeys},
	{name: "keys that differ little", run: similarKeys},
	{name: "long keys", run: longKeys},
	{name: "values come back byte for byte", run: oddValues},
	{name: "values of every size", run: valueSizes},
}

// longKey returns a key of n bytes.
func longKey(prefix string, n int) string {
	const filler = "a-long-name/"
	return prefix + strings.Repeat(filler, n/len(filler)+1)[:n-len(prefix)-1] + "z"
}

// jsonOfSize returns a JSON object of n bytes, at least two.
func jsonOfSize(n int) string {
	const frame = `{"s":""}`
	if n < len(frame) {
		return "{" + strings.Repeat(" ", n-2) + "}"
	}
	return `{"s":"` + strings.Repeat("x", n-len(frame)) + `"}`
}

// keep writes every key with a value of its own, and requires that each is
// found alone, in the whole, by a guard, and after deletion of its neighbour.
func keep(t *suite, keys []string) {
	s := t.open()
	value := func(i int) string { return fmt.Sprintf(`{"n":%d}`, i) }
	var writes []driver.Write
	for i, key := range keys {
		writes = append(writes, put(key, value(i)))
	}
	rev := t.write(s, writes...)

	s = t.open() // what this handle knows, it read back
	snap := t.read(s, driver.Query{Keys: keys})
	t.wantKeys("all keys", snap.Records, keys...)
	for i, r := range snap.Records {
		if string(r.Value) != value(i) || r.Rev != rev {
			t.Fatalf("%q at %d holds %s, want %s at %d", r.Key, r.Rev, r.Value, value(i), rev)
		}
	}
	if all := t.scan(s, ""); len(all) != len(keys) {
		t.Fatalf("%d records after writing %d keys: %q", len(all), len(keys), keysOf(all))
	}
	var prefixes []driver.Range
	for _, key := range keys {
		prefixes = append(prefixes, driver.Range{Prefix: key, Limit: 1})
	}
	t.wantKeys("each the first of its own prefix", t.read(s, driver.Query{Ranges: prefixes}).Records, keys...)

	var b driver.Batch
	var left []string
	for i, key := range keys {
		if i%2 == 0 {
			b.Guards = append(b.Guards, at(key, rev))
			b.Writes = append(b.Writes, remove(key))
		} else {
			left = append(left, key)
		}
	}
	t.commit(s, b)
	t.wantKeys("after deleting every other key", t.read(s, driver.Query{Keys: keys}).Records, left...)
}

func oddKeys(t *suite) {
	var keys []string
	for _, name := range []string{
		"plain", "a/b/c", "/", "//", "/lead", "trail/", "a//b", ".", "..", "../up", "a/../b", "a/./b", ".hidden", ".git", ".git/config",
		"dot.", "dots...", "a.json", "a.lock", "a.tmp", "space ", " lead", "two words", "tab\there", "line\nbreak",
		`"double"`, "'single'", "`back`", "'; DROP TABLE records; --", "%", "%2F", "%00", "100%", "_", "__", `\`, `back\slash`, `C:\x`,
		"*", "?", "[a]", "{a,b}", "$HOME", "$(id)", "a;b", "a&b", "a|b", "<b>", "#", "~", "@{u}", "^", "a:b", "a=b", "a+b", "a,b", "!",
		"-", "--help", "CON", "nul.txt", "ä", "日本語", "\U0001f512", "e\u0301", "\u202eabc", "\u200b", "ﷺ", "ß", "İ",
		"0", "1.0-parse-tokens", "src/**", "claude:4f/agent", "user@host:tty1", "2026-01-02T03:04:05Z",
	} {
		keys = append(keys, "lock/"+name)
	}
	keep(t, keys)
}

// similarKeys are the same to a file system that folds case or composes accents,
// or one inside the other to one that makes folders of slashes.
func similarKeys(t *suite) {
	keep(t, []string{
		"lock/task", "lock/Task", "lock/TASK", "lock/é", "lock/e\u0301", "lock/É", "lock/ss", "lock/ß", "lock/ſs",
		"lock/a", "lock/a/", "lock/a/b", "lock/a/b/", "lock/a//b", "lock/a-b", "lock/a_b", "lock/a.b", "lock/a%2Fb", "lock/a%2fb", `lock/a\b`,
		"lock/16", "lock/16_2", "lock/x", "lock/x ", "lock/x.", "lock/K", "lock/\u212a",
		"Lock/a", "locks/a", "loc/k/a", "task/a",
	})
}

func longKeys(t *suite) {
	keep(t, []string{
		longKey("lock/", driver.MaxKey), longKey("lock/", driver.MaxKey-1), longKey("lock/", 1000),
		"lock/" + strings.Repeat("x", 1000), "lock/" + strings.Repeat("x", 999) + "y", "lock/" + strings.Repeat("x", 1000-5),
		"lock/" + strings.Repeat("日", 330), "lock/" + strings.Repeat("\U0001f512", 250),
		"lock/" + strings.Repeat("X", 300), "lock/" + strings.Repeat("x", 300),
		"lock/" + strings.Repeat("%", 1000), "lock/" + strings.Repeat("/", 1000), "lock/" + strings.Repeat("x/", 500),
		"lock/" + strings.Repeat("x", 255), "lock/" + strings.Repeat("x", 256),
	})
}

func oddValues(t *suite) {
	checkValues(t, []string{
		`{}`, `{ }`, "{\n}", "{}\n", " {}", "\t{}\r\n", "{\n  \"a\": 1,\n  \"b\": [ 1, 2 ]\n}\n",
		`{"z":1,"a":2,"m":3}`, `{"a":1,"a":2}`, `{"":0}`, `{"a":null,"b":true,"c":[],"d":{},"e":[[[{}]]]}`,
		`{"n":12345678901234567890,"m":-9223372036854775809,"p":3.141592653589793238462643383279}`,
		`{"n":9007199254740993,"e":1e400,"f":1.0,"g":1E+2,"h":-0,"i":-0.0,"j":0.10}`,
		`{"s":"<script>alert('&amp;')</script>","t":"a\u0026b\u003c\u003e"}`,
		`{"s":"\u00e9\u0000\u001b\b\f\n\r\t\"\\\/\ud83d\ude00","t":"\ud800"}`,
		"{\"s\":\"é e\u0301 日本語 \U0001f512 \u2028\u2029\u200b\u202e\ufeff\ufffd\"}",
		`{"s":"'; DROP TABLE records; -- \\' $1 ? %s %d :name @p {{.}}"}`,
		`{"s":"-----BEGIN-----","t":"<<<<<<< HEAD","u":"$Id$","v":"C:\\x"}`,
		"{\"s\":\"line one\\r\\nline two\"}\r\n",
		strings.Repeat(`{"a":`, 50) + `{}` + strings.Repeat(`}`, 50),
	})
}

func valueSizes(t *suite) {
	var values []string
	for _, n := range []int{
		2, 3, 7, 8, 9, 100, 255, 256, 257, 511, 512, 1000, 2000, 4095, 4096, 4097, 8191, 8192, 16384, 32767, 32768, 65535, driver.MaxValue,
	} {
		values = append(values, jsonOfSize(n))
	}
	checkValues(t, values)
}

func checkValues(t *suite, values []string) {
	s := t.open()
	var writes []driver.Write
	for i, v := range values {
		if !json.Valid([]byte(v)) {
			t.Fatalf("the case itself is wrong: %s is not JSON", v)
		}
		writes = append(writes, put(fmt.Sprintf("task/%02d", i), v))
	}
	for range 2 { // written, then overwritten
		t.write(s, writes...)
		for _, h := range []driver.Store{s, t.open()} {
			records := t.scan(h, "task/")
			if len(records) != len(values) {
				t.Fatalf("%d records of %d", len(records), len(values))
			}
			for i, r := range records {
				if !bytes.Equal(r.Value, writes[i].Value) {
					t.Fatalf("wrote %d bytes, read %d:\n%.300q\n%.300q", len(writes[i].Value), len(r.Value), writes[i].Value, r.Value)
				}
			}
		}
		// The other way round, so that every value replaces one of another size.
		for i, j := 0, len(writes)-1; i < j; i, j = i+1, j-1 {
			writes[i].Value, writes[j].Value = writes[j].Value, writes[i].Value
		}
	}
}
