package local

import (
	"encoding/json"
	"testing"
)

func TestAppendRevisions(t *testing.T) {
	for _, revs := range []map[string]int64{
		{}, {"lock/": 7}, {"z/": -1, "a/": 0, "event/": 1 << 62, "id": 3},
		{"": 1, `a"b\/`: 2, "<&>": 3, "é/": 4, "\xff": 5, "new\nline/": 6, "\u2028": 7},
	} {
		want, err := json.Marshal(revs)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(AppendRevisions([]byte("x"), revs)); got != "x"+string(want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
