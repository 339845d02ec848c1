package filestore

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// The line of a state is its JSON with a checksum, whatever is in it: older versions
// read it too.
func TestStateLine(t *testing.T) {
	for _, st := range []state{
		{Format: 1, Kinds: map[string]int64{}, Lives: []string{}},
		{Format: 1, Generation: 1 << 60, Revision: 7, End: 8, Applied: 9, Kinds: map[string]int64{"lock/": 7, `"<é`: 3}, Spares: 4, Lives: []string{"boot/1/2", `"\`}},
	} {
		line := encodeState(st)
		want, err := json.Marshal(st)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSuffix(string(line[9:]), "\n"); got != string(want) {
			t.Errorf("%s, want %s", got, want)
		}
		if back, err := decodeState(line); err != nil || !reflect.DeepEqual(back, st) {
			t.Errorf("%v became %v: %v", st, back, err)
		}
	}
}
