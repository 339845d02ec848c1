package harness

import "bytes"

// block is the part of a text between two marks.
type block struct{ begin, end, text string }

// install puts the block at the end of the text, before its last newlines, so that
// remove can restore it. Lines end as those of the text do.
func (b *block) install(text []byte) []byte {
	nl := newline(text)
	whole := bytes.ReplaceAll([]byte(b.begin+"\n"+b.text+"\n"+b.end), []byte("\n"), []byte(nl))
	if from, to := b.find(text); from >= 0 {
		return bytes.Join([][]byte{text[:from], whole, text[to:]}, nil)
	}
	switch {
	case text == nil:
		return append(whole, nl...)
	case len(text) == 0: // a file that was there and empty: no newline tells remove
		return whole
	}
	at := len(bytes.TrimRight(text, "\r\n"))
	return bytes.Join([][]byte{text[:at], []byte(nl + nl), whole, text[at:]}, nil)
}

func (b *block) remove(text []byte) []byte {
	from, to := b.find(text)
	if from < 0 {
		return text
	}
	switch {
	case from == 0 && to == len(text):
		return []byte{}
	case from == 0 && len(bytes.TrimSpace(text[to:])) == 0:
		return nil
	}
	for _, gap := range []string{"\r\n\r\n", "\n\n"} {
		if bytes.HasSuffix(text[:from], []byte(gap)) {
			from -= len(gap)
			break
		}
	}
	return append(bytes.Clone(text[:from]), text[to:]...)
}

// find returns where the block begins and ends, or -1. After a mark without its
// other half the text is the user's own.
func (b *block) find(text []byte) (from, to int) {
	for at := 0; ; at = to {
		n := bytes.Index(text[at:], []byte(b.end))
		if n < 0 {
			return -1, -1
		}
		to = at + n + len(b.end)
		if n = bytes.LastIndex(text[at:to], []byte(b.begin)); n >= 0 {
			return at + n, to
		}
	}
}

// newline is how the lines of a text end.
func newline(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}
