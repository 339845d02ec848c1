package server_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/tasklock/tasklock/internal/access"
)

// TestPages: a list comes in pages, which together have each line once, and never as a
// whole.
func TestPages(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Worker, "ci").Secret
	var titles, want []string
	for i := range 120 {
		titles = append(titles, fmt.Sprint("task ", i))
	}
	want = w.add(key, titles...)
	for i := range 8 {
		var keys []string
		for j := range 15 {
			keys = append(keys, want[i*15+j])
		}
		w.must(200, "POST", "/v1/locks/acquire", key, id(), object{"keys": keys})
	}
	slices.Sort(want)
	type page struct {
		Next  string
		Tasks []struct{ ID string }
		Locks []struct{ Key string }
	}
	for _, list := range []string{"/v1/tasks", "/v1/locks"} {
		var got []string
		for after, pages := "", 0; ; pages++ {
			p := parse[page](w, w.must(200, "GET", list+"?limit=50&after="+url.QueryEscape(after), key, "", nil))
			if len(p.Tasks)+len(p.Locks) > 50 {
				t.Errorf("%s: a page of %d tasks and %d locks", list, len(p.Tasks), len(p.Locks))
			}
			for _, line := range p.Tasks {
				got = append(got, line.ID)
			}
			for _, line := range p.Locks {
				got = append(got, line.Key)
			}
			if after = p.Next; after == "" || pages > 10 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d lines, want %d: %q", list, len(got), len(want), got)
		}
		if p := parse[page](w, w.must(200, "GET", list, key, "", nil)); len(p.Tasks)+len(p.Locks) != 100 || p.Next == "" {
			t.Errorf("%s: %d tasks and %d locks in one page", list, len(p.Tasks), len(p.Locks))
		}
		for _, bad := range []string{"501", "-1", "x"} {
			w.must(400, "GET", list+"?limit="+bad, key, "", nil)
		}
	}
}
