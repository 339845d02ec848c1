package schedule

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode"
)

// maxOutput is how much of a run's output its record keeps.
const maxOutput = 2048

// output keeps the end of a command's output, and passes it on line by line under the
// name of its job.
type output struct {
	mu      sync.Mutex
	job     string
	tail    []byte
	streams []*stream
}

type stream struct {
	out  *output
	to   io.Writer
	line []byte // has no end yet
}

func (o *output) stream(to io.Writer) *stream {
	s := &stream{out: o, to: to}
	o.streams = append(o.streams, s)
	return s
}

func (o *output) begin(job string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.job = job
}

// Write never fails: a command must not end because nobody reads the log.
func (s *stream) Write(b []byte) (int, error) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	s.out.tail = append(s.out.tail, b...)
	if over := len(s.out.tail) - 2*maxOutput; over > 0 {
		s.out.tail = append(s.out.tail[:0], s.out.tail[over:]...)
	}
	s.line = append(s.line, b...)
	if end := bytes.LastIndexByte(s.line, '\n'); end >= 0 {
		s.pass(s.line[:end])
		s.line = append(s.line[:0], s.line[end+1:]...)
	} else if len(s.line) > 32*maxOutput {
		s.pass(s.line)
		s.line = s.line[:0]
	}
	return len(b), nil
}

// pass writes whole lines, in one piece.
func (s *stream) pass(lines []byte) {
	if s.to == nil {
		return
	}
	var b bytes.Buffer
	for line := range bytes.SplitSeq(lines, []byte("\n")) {
		b.WriteString("[" + s.out.job + "] ")
		b.Write(line)
		b.WriteByte('\n')
	}
	_, _ = s.to.Write(b.Bytes())
}

// flush passes on what has no end.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.streams {
		if len(s.line) > 0 {
			s.pass(s.line)
			s.line = nil
		}
	}
}

// String is the end of the output, without control characters, from the beginning of a
// line if there is one.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(o.tail), ""))
	if over := len(text) - maxOutput; over > 0 {
		text = strings.ToValidUTF8(text[over:], "")
		if _, rest, ok := strings.Cut(text, "\n"); ok && strings.TrimSpace(rest) != "" {
			text = rest
		}
	}
	return strings.TrimSpace(text)
}
