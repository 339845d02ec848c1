package gitstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// catFile is one `git cat-file --batch`, started when first needed and kept: it
// reads packed objects.
type catFile struct {
	git *git

	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// get reads objects of a kind and gives each to f, in order. A missing object, or
// one of another kind, is errCache; one longer than max is errHuge.
func (c *catFile) get(ids []oid, kind string, max int64, f func(i int, body []byte) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.start(); err != nil {
		return err
	}
	in, asked := c.in, make(chan struct{})
	go func() { // git answers while we still ask: no pipe may fill up
		defer close(asked)
		w := bufio.NewWriter(in)
		for _, id := range ids {
			_, _ = w.WriteString(string(id) + "\n")
		}
		_ = w.Flush() // a broken pipe shows in the answer
	}()
	var err error
	for i := range ids {
		var body []byte
		if body, err = c.answer(kind, max); err == nil {
			err = f(i, body)
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		c.stop() // drop the other answers; the next call starts it again
	}
	<-asked
	return err
}

func (c *catFile) answer(kind string, max int64) ([]byte, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%w: git cat-file: %w", errCache, err)
	}
	words := strings.Fields(line)
	if len(words) != 3 || words[1] != kind {
		return nil, fmt.Errorf("%w: %s", errCache, clean(strings.TrimSpace(line)))
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errCache, err)
	case size > max:
		return nil, errHuge
	}
	body := make([]byte, size+1) // and a line feed
	if _, err := io.ReadFull(c.out, body); err != nil {
		return nil, fmt.Errorf("%w: git cat-file: %w", errCache, err)
	}
	return body[:size], nil
}

func (c *catFile) start() error {
	if c.cmd != nil {
		return nil
	}
	cmd := c.git.command("cat-file", "--batch")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.cmd, c.in, c.out = cmd, in, bufio.NewReaderSize(out, 64<<10)
	return nil
}

func (c *catFile) stop() {
	if c.cmd == nil {
		return
	}
	_ = c.in.Close()
	kill(c.cmd)
	_ = c.cmd.Wait()
	c.cmd = nil
}

func (c *catFile) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop()
}
