package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxLine bounds one message, below the bound of the protocol's own reader.
const maxLine = 8 << 20

// lines are the messages of a client, one in a line. The protocol's own reader
// ends at the first line that it cannot read, and the server would end with it and
// release every lease; so this type answers those lines itself. It leaves out a
// line without an id, because no client waits for its answer.
type lines struct {
	io.Closer
	in   *bufio.Reader
	out  io.Writer
	note func(text string)
	end  func() // when there is nothing more to read: calls that wait must not keep the server alive
	rest []byte // of a message that was not read whole
}

func (l *lines) Read(b []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.line()
		if why := unreadable(line, err); why != nil {
			if err := l.refuse(line, why); err != nil {
				l.end()
				return 0, err
			}
		} else if len(line) > 0 {
			l.rest = append(line, '\n')
		}
		if err != nil && !errors.Is(err, errLongLine) && len(l.rest) == 0 {
			l.end()
			return 0, err
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

var errLongLine = errors.New("the message has more than 8 MB")

// line reads a line, without what surrounds it. One that is too long is skipped.
func (l *lines) line() (line []byte, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case len(line) > maxLine && err == nil:
			err = errLongLine
		}
		return bytes.TrimSpace(line), err
	}
}

// unreadable says why a line is not a message. It is nil for a message and for an empty line.
func unreadable(line []byte, err error) *jsonrpc.Error {
	code := int64(jsonrpc.CodeInvalidRequest)
	var batch []json.RawMessage
	switch {
	case errors.Is(err, errLongLine):
	case len(line) == 0:
		return nil
	case !json.Valid(line):
		code, err = jsonrpc.CodeParseError, errors.New("the line is not JSON")
	case json.Unmarshal(line, &batch) == nil && len(batch) > 0:
		err = nil
		for _, one := range batch {
			_, wrong := jsonrpc.DecodeMessage(one)
			err = errors.Join(err, wrong)
		}
	default:
		_, err = jsonrpc.DecodeMessage(line)
	}
	if err == nil {
		return nil
	}
	return &jsonrpc.Error{Code: code, Message: err.Error()}
}

// refuse answers a line that is not a message, if it has an id.
func (l *lines) refuse(line []byte, why *jsonrpc.Error) error {
	var about struct {
		ID any `json:"id"`
	}
	_ = json.Unmarshal(line, &about)
	switch about.ID.(type) {
	case string, float64:
	default:
		l.note("left out a line that is not a message of the protocol: " + why.Message)
		return nil
	}
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": about.ID, "error": why})
	if err == nil {
		_, err = l.out.Write(append(answer, '\n'))
	}
	return err
}

// lineWriter lets two write whole lines to one pipe.
type lineWriter struct {
	io.WriteCloser
	mu sync.Mutex
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(b)
}
