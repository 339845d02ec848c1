package session

import (
	"io"
	"os"

	"github.com/tasklock/tasklock/internal/repo"
)

// Path is a file as the caller means it.
func (s *Session) Path(name string) string { return repo.Absolute(s.Dir, name) }

// ReadFile reads a file that the caller named, or stdin, and a little more
// than most, so that what checks the size can refuse it.
func (s *Session) ReadFile(name string, most int64) ([]byte, error) {
	in := s.Stdin
	if _, err := s.Config(); err != nil { // another program may have to go on, and read it
		return nil, err
	}
	if name != "-" {
		f, err := os.Open(s.Path(name))
		if err != nil {
			return nil, Usagef("%v", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, Usagef("%v", err)
	}
	return data, nil
}
