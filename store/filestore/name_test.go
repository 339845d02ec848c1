package filestore

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

func TestNames(t *testing.T) {
	for s, want := range map[string]string{
		"deploy": "deploy", "1.0-parse-tokens": "1.0-parse-tokens", "claude:4f/agent": "claude%3a4f+agent", "Task": "^task",
		"user@host:tty1": "user@host%3atty1", ".": "%2e", "..": "%2e%2e", ".git": "%2egit", "dot.": "dot%2e", "-rf": "%2drf",
		"CON": "^c^o^n", "con": "%63on", "nul.txt": "%6eul.txt", "com1": "%63om1", "com12": "com12", "é": "%c3%a9", "a+b": "a%2bb",
		"a~b": "a%7eb", "a b": "a%20b", "a\\b": "a%5cb", "src/**": "src+%2a%2a",
	} {
		if got := encodeName(s); got != want {
			t.Errorf("%q becomes %q, want %q", s, got, want)
		}
	}
	if _, cut, ok := decodeName(encodeName(strings.Repeat("x", 300))); ok || !cut {
		t.Error("a long name must be cut")
	}
	for _, name := range []string{"", "A", "é", "%2F", "%2", "^", "^1", "%61", "a~", "~", "x ", ".x", "-x", "con", "a/b"} {
		if _, cut, ok := decodeName(name); ok || cut {
			t.Errorf("%q is taken for one of ours", name)
		}
	}
}

// Two keys never have one file, whatever the file system folds together, and
// every name leads back to its key.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a", "A", "é", "e\u0301", "a/b", "../x", "con", "\u212a", "ſ", strings.Repeat("X", 200), "%41", "a+b"} {
		f.Add(s, strings.ToUpper(s))
		f.Add(s, s+" ")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			return
		}
		x, y := encodeName(a), encodeName(b)
		if a != b && strings.EqualFold(x, y) {
			t.Fatalf("%q and %q are both %q", a, b, x)
		}
		for _, c := range x {
			if c > unicode.MaxASCII || unicode.IsUpper(c) || c < '!' || strings.ContainsRune(`/\:*?"<>|`, c) {
				t.Fatalf("%q becomes %q", a, x)
			}
		}
		if len(x) > maxName || x[0] == '.' || x[0] == '-' || x[len(x)-1] == '.' {
			t.Fatalf("%q becomes %q", a, x)
		}
		s, cut, ok := decodeName(x)
		if ok && s != a || ok == cut || cut && !isCut(x) {
			t.Fatalf("%q becomes %q becomes %q, %v, %v", a, x, s, cut, ok)
		}
		if s, _, ok := decodeName(a); ok && encodeName(s) != a {
			t.Fatalf("%q is taken for the name of %q", a, s)
		}
	})
}

// What the decoder accepts is what the encoder makes.
func FuzzDecodeRecord(f *testing.F) {
	whole := encodeRecord(record{
		key: "lock/a b", rev: 7, time: local.Stamp{Wall: 1e18, Awake: 5, Domain: "boot"}, ttl: 1e9,
		value: []byte(`{"lease":"me/1","owner":"me"}`),
	})
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte("tasklock record 2\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data)
		if err != nil {
			return
		}
		if driver.CheckKey(r.key) != nil || r.rev <= 0 {
			t.Fatalf("accepted %+v", r)
		}
		if again, err := decodeRecord(encodeRecord(r)); err != nil || again.key != r.key || !bytes.Equal(again.value, r.value) || again.time != r.time {
			t.Fatalf("%+v came back as %+v, %v", r, again, err)
		}
	})
}

func FuzzScanJournal(f *testing.F) {
	j := newJournal()[:8192]
	payload := appendBatch(appendTime(nil, local.Stamp{Wall: 1, Awake: 2, Domain: "d"}), 1, []driver.Write{{Key: "lock/a", Value: []byte(`{}`)}, {Key: "lock/b"}})
	copy(j[halfStart(1)+64:], encodeEntry(1, 1, commitEntry, halfStart(1)+64, payload))
	f.Add(j)
	f.Add(newJournal()[:8192])
	if got, err := scanJournal(j); err != nil || got.rev != 1 || got.kinds["lock/"] != 1 {
		f.Fatalf("%+v %v", got, err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := scanJournal(data)
		if err == nil {
			_, err = j.last(0)
		}
		if err == nil && (j.rev < 0 || j.end > int64(len(data))+entryAlign) {
			t.Fatalf("%+v", j)
		}
	})
}

// The parts of an append that a crash leaves are not a commit; a hole before a
// whole one is damage.
func TestTornAppends(t *testing.T) {
	data, pos := newJournal(), halfStart(1)+64
	var starts []int64
	for rev := int64(1); rev <= 3; rev++ {
		payload := appendBatch(appendTime(nil, local.Stamp{Wall: rev}), rev, []driver.Write{{Key: "lock/a", Value: bytes.Repeat([]byte("x"), 300)}})
		starts = append(starts, pos)
		pos += int64(copy(data[pos:], encodeEntry(1, rev, commitEntry, pos, payload)))
	}
	for n := starts[2]; n < pos-entryAlign; n++ {
		torn := bytes.Clone(data)
		clear(torn[n:pos])
		if j, err := scanJournal(torn); err != nil || j.rev != 2 || j.end != starts[2] {
			t.Fatalf("cut at %d: revision %d, %v", n, j.rev, err)
		}
	}
	for n := starts[0]; n < starts[2]; n += 11 {
		if n%entryAlign > 40 && (n-starts[0])/entryAlign == 5 {
			continue // padding
		}
		broken := bytes.Clone(data)
		broken[n] ^= 0x40
		if j, err := scanJournal(broken); err == nil && j.rev != 3 {
			t.Fatalf("byte %d: revision %d without an error", n, j.rev)
		}
	}
	half := bytes.Clone(data)
	half[halfStart(1)] ^= 1
	if _, err := scanJournal(half); err == nil {
		t.Fatal("a half without its beginning was accepted")
	}
}
