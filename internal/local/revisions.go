package local

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// AppendRevisions appends what json.Marshal makes of the map. Every commit writes
// such a map, and reflection took longer than the rest of that.
func AppendRevisions(b []byte, revs map[string]int64) []byte {
	keys := slices.AppendSeq(make([]string, 0, len(revs)), maps.Keys(revs))
	slices.Sort(keys)
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendText(b, key), ':')
		b = strconv.AppendInt(b, revs[key], 10)
	}
	return append(b, '}')
}

// AppendText appends what json.Marshal makes of the text.
func AppendText(b []byte, s string) []byte {
	plain := func(r rune) bool {
		return r == '/' || r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		text, _ := json.Marshal(s) // of a string there is no error
		return append(b, text...)
	}
	return append(append(append(b, '"'), s...), '"')
}
