package lease_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

func TestKeys(t *testing.T) {
	long := strings.Repeat("x", lease.MaxKey)
	for _, c := range []struct {
		key, want string // want empty: refused
	}{
		{"1.0-parse-tokens", "1.0-parse-tokens"},
		{"a", "a"},
		{"two words", "two words"},
		{"a/b/c", "a/b/c"},
		{"section:Backend", "section:Backend"},
		{"job:daily digest", "job:daily digest"},
		{"other:colon", "other:colon"},
		{"Section:x", ""},
		{"section: x", ""},
		{" job :x", ""},
		{"PATH:src", ""},
		{"sections:x", "sections:x"},
		{"CON", "CON"},
		{"nul.txt", "nul.txt"},
		{"trailing.", "trailing."},
		{"*", "*"},
		{"a;rm", "a;rm"},
		{"...", "..."},
		{"a/.../b", "a/.../b"},
		{"Größe 大", "Größe 大"},
		{"e\u0301", "\u00e9"}, // NFD becomes NFC
		{"👍", "👍"},
		{long, long},
		{"Task", "Task"},
		{"task", "task"},

		{"", ""},
		{"section:", ""},
		{"job:", ""},
		{"path:src/**", "path:src/**"},
		{".", ""},
		{"..", ""},
		{"../../etc/x", ""},
		{"/abs", ""},
		{"a/../b", ""},
		{"a/./b", ""},
		{"a//b", ""},
		{"a/", ""},
		{"section:/x", ""},
		{"section:..", ""},
		{"a\x00b", ""},
		{"a\nb", ""},
		{"a\tb", ""},
		{"a\x7fb", ""},
		{"a\u0085b", ""}, // C1
		{"a\x1b[31mb", ""},
		{" a", ""},
		{"a ", ""},
		{"section: a", ""},
		{"a\u00a0b", ""}, // other spaces
		{"a\u2028b", ""},
		{"--help", ""},
		{"-rf", ""},
		{"a\u200bb", ""}, // zero width
		{"a\u200db", ""},
		{"a\ufeffb", ""},
		{"a\u2060b", ""},
		{"a\u034fb", ""},
		{"a\u3164b", ""},
		{"a\ufe0fb", ""},
		{"a\u202eb", ""}, // bidi
		{"a\u2066b", ""},
		{"a\u061cb", ""},
		{"a\u00adb", ""}, // soft hyphen
		{"\xff\xfe", ""},
		{"a\ufffdb", ""},
		{long + "x", ""},
		{strings.Repeat("x", 4096), ""},
		{strings.Repeat("\u0344", 200), ""}, // grows when normalised
	} {
		got, err := lease.CheckKey(c.key)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v", c.key, got, err)
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\n\x1b\x00") || len(err.Error()) > 300) {
			t.Errorf("%q: not one clean line: %q", c.key, err)
		}
	}
}

func TestKeysThatLookAlikeAreDifferent(t *testing.T) {
	bubble(t, func(w *world) {
		for _, key := range []string{"Task", "task", "a/b", "a-b", "a_b", "a:b", "a b", "а", "a", "section:a", "job:a"} {
			if g := w.acquire("owner of "+strings.ReplaceAll(key, "/", "|"), key); g.Keys[0].Reentrant || len(g.TookOver) > 0 {
				t.Errorf("%q: %+v", key, g)
			}
		}
	})
}

// Everything a caller may get wrong is refused before the store is touched.
func TestInvalidInput(t *testing.T) {
	ok := func() lease.AcquireRequest { return lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}} }
	with := func(change func(*lease.AcquireRequest)) lease.AcquireRequest {
		r := ok()
		change(&r)
		return r
	}
	for name, r := range map[string]lease.AcquireRequest{
		"no key":              with(func(r *lease.AcquireRequest) { r.Keys = nil }),
		"one bad key":         with(func(r *lease.AcquireRequest) { r.Keys = []string{"a", ".."} }),
		"101 keys":            with(func(r *lease.AcquireRequest) { r.Keys = manyKeys(101) }),
		"no owner":            with(func(r *lease.AcquireRequest) { r.Owner = "" }),
		"owner with slash":    with(func(r *lease.AcquireRequest) { r.Owner = "/alice" }),
		"owner slash at end":  with(func(r *lease.AcquireRequest) { r.Owner = "alice/" }),
		"owner two slashes":   with(func(r *lease.AcquireRequest) { r.Owner = "alice//x" }),
		"owner too long":      with(func(r *lease.AcquireRequest) { r.Owner = strings.Repeat("x", 513) }),
		"owner no text":       with(func(r *lease.AcquireRequest) { r.Owner = "a\xff" }),
		"owner with nul":      with(func(r *lease.AcquireRequest) { r.Owner = "a\x00" }),
		"id with slash":       with(func(r *lease.AcquireRequest) { r.ID = "a/b" }),
		"id with space":       with(func(r *lease.AcquireRequest) { r.ID = "a b" }),
		"id with control":     with(func(r *lease.AcquireRequest) { r.ID = "a\nb" }),
		"id too long":         with(func(r *lease.AcquireRequest) { r.ID = strings.Repeat("x", 129) }),
		"ttl negative":        with(func(r *lease.AcquireRequest) { r.TTL = -time.Second }),
		"ttl too small":       with(func(r *lease.AcquireRequest) { r.TTL = time.Millisecond }),
		"ttl over 30 days":    with(func(r *lease.AcquireRequest) { r.TTL = 30*24*time.Hour + 1 }),
		"ttl overflow":        with(func(r *lease.AcquireRequest) { r.TTL = math.MaxInt64 }),
		"max hold negative":   with(func(r *lease.AcquireRequest) { r.MaxHold = -1 }),
		"max hold overflow":   with(func(r *lease.AcquireRequest) { r.MaxHold = math.MaxInt64 }),
		"wait negative":       with(func(r *lease.AcquireRequest) { r.Wait = -1 }),
		"wait overflow":       with(func(r *lease.AcquireRequest) { r.Wait = math.MaxInt64 }),
		"reason too long":     with(func(r *lease.AcquireRequest) { r.Reason = strings.Repeat("x", 1<<20) }),
		"reason no text":      with(func(r *lease.AcquireRequest) { r.Reason = "\xff" }),
		"worktree too long":   with(func(r *lease.AcquireRequest) { r.Worktree = strings.Repeat("x", 4097) }),
		"session with a nul":  with(func(r *lease.AcquireRequest) { r.Session = "\x00" }),
		"session is too long": with(func(r *lease.AcquireRequest) { r.Session = strings.Repeat("x", 4097) }),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				_, err := lease.Acquire(w.ctx, w.st, r)
				as[*lease.InvalidError](w, err)
				_, err = lease.Hold(w.ctx, w.st, r)
				if name != "owner slash at end" || err != nil {
					as[*lease.InvalidError](w, err)
				}
				if n := len(w.records()); n != 0 {
					t.Errorf("%d records written", n)
				}
			})
		})
	}
	t.Run("what others ask", func(t *testing.T) {
		bubble(t, func(w *world) {
			_, release := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "", Keys: []string{"a"}})
			_, renew := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "alice", Keys: []string{"a\n"}})
			_, check := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: ".."})
			_, show := lease.Show(w.ctx, w.st, "-x")
			_, brk := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"a"}, Reason: strings.Repeat("x", 4097)})
			_, id := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"a"}, ID: "x/y"})
			_, mine := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "a", HeldBy: "alice/"})
			_, history := lease.History(w.ctx, w.st, lease.HistoryRequest{Key: ".."})
			_, clean := lease.Cleanup(w.ctx, w.st, lease.CleanupRequest{By: "root", Silent: -1})
			for _, err := range []error{release, renew, check, show, brk, id, mine, history, clean} {
				as[*lease.InvalidError](w, err)
			}
		})
	})
}

// Text from others is kept as given: whoever prints it cleans it.
func TestOddTextIsKept(t *testing.T) {
	bubble(t, func(w *world) {
		odd := "\x1b]52;c;aGk=\a\r\u202e\u0085<script>&\"'" + strings.Repeat("\x01", 4000)
		w.grant(lease.AcquireRequest{Owner: "al\x1bice", Keys: []string{"a"}, Reason: odd, Worktree: odd, Session: "x=y"})
		if l := w.check("a").Lock; l.Reason != odd || l.Worktree != odd || l.Owner != "al\x1bice" {
			t.Errorf("%+v", l)
		}
		if h := w.refused("bob", "a"); h.Reason != odd {
			t.Errorf("%+v", h)
		}
	})
}

func manyKeys(n int) (keys []string) {
	for i := range n {
		keys = append(keys, strings.Repeat("k", i+1))
	}
	return keys
}
