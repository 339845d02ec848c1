package filestore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/tasklock/tasklock/internal/local"
)

// A state is the content of the file "state": the store's revision, and how far
// the record files have followed. It is written after every commit and never
// synced, so it counts only for the boot and mount that it names; every other
// process begins with the journal. It is one line, overwritten in place; its
// checksum shows a read in the middle of a write.
type state struct {
	Format     int              `json:"format"`
	Generation uint64           `json:"generation"` // of the journal
	Revision   int64            `json:"revision"`   // of the newest commit that is on the disk
	End        int64            `json:"end"`        // of that commit in the journal
	Applied    int64            `json:"applied"`    // up to here, the record files have what the journal has
	Kinds      map[string]int64 `json:"kinds"`      // revision of the last change of each kind
	Spares     int              `json:"spares"`     // see tree.put
	Lives      []string         `json:"lives"`      // see Store.life
}

const (
	stateFile = "state"
	maxState  = 4 << 20
	maxLives  = 16
)

// errNoState: there is none, or it does not count. The journal has everything.
var errNoState = errors.New("no usable state")

func (st state) counts(life string) bool { return slices.Contains(st.Lives, life) }

// lived returns the lives with one more. The others stay: a mount that ended
// does not come back, and one that goes on shares the memory with ours.
func (st state) lived(life string) []string {
	if st.counts(life) {
		return st.Lives
	}
	lives := append(slices.Clone(st.Lives), life)
	return lives[max(0, len(lives)-maxLives):]
}

// encodeState returns the line. The text after its checksum is what json.Marshal
// makes of st.
func encodeState(st state) []byte {
	b := append(make([]byte, 0, 512), "........ "...)
	field := func(name string, n int64) {
		b = strconv.AppendInt(append(b, name...), n, 10)
	}
	field(`{"format":`, int64(st.Format))
	b = strconv.AppendUint(append(b, `,"generation":`...), st.Generation, 10)
	field(`,"revision":`, st.Revision)
	field(`,"end":`, st.End)
	field(`,"applied":`, st.Applied)
	b = local.AppendRevisions(append(b, `,"kinds":`...), st.Kinds)
	field(`,"spares":`, int64(st.Spares))
	b = append(b, `,"lives":[`...)
	for i, life := range st.Lives {
		if i > 0 {
			b = append(b, ',')
		}
		b = local.AppendText(b, life)
	}
	b = append(b, "]}"...)
	hex.Encode(b, binary.BigEndian.AppendUint32(nil, crc32.Checksum(b[9:], castagnoli())))
	return append(b, '\n')
}

func decodeState(data []byte) (state, error) {
	line, _, ok := bytes.Cut(data, []byte("\n"))
	if !ok || len(line) < 9 {
		return state{}, errNoState
	}
	sum, err := strconv.ParseUint(string(line[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(line[9:], castagnoli()) {
		return state{}, errNoState
	}
	var st state
	if err := json.Unmarshal(line[9:], &st); err != nil {
		return state{}, errNoState
	}
	if st.Format > format {
		return state{}, newerFormat(st.Format)
	}
	if st.Kinds == nil {
		st.Kinds = make(map[string]int64)
	}
	return st, nil
}

// readState reads the file. Its error may be one that passes: see errNoState.
func (s *Store) readState() (state, error) {
	f, err := s.openState(false)
	if err != nil {
		return state{}, err
	}
	buf := make([]byte, s.lineSize())
	for {
		n, err := f.ReadAt(buf, 0)
		if err != nil && err != io.EOF {
			if errors.Is(err, fs.ErrClosed) {
				return state{}, errNoState
			}
			return state{}, s.explain(err, stateFile)
		}
		if n < len(buf) || bytes.IndexByte(buf, '\n') >= 0 || len(buf) > maxState {
			st, err := s.decoded(buf[:n])
			return st, s.explain(err, stateFile)
		}
		buf = make([]byte, 8*len(buf))
	}
}

// decoded is decodeState that remembers the last line: most of the time nothing
// has changed.
func (s *Store) decoded(data []byte) (state, error) {
	s.mu.Lock()
	last, st := s.lastLine, s.lastState
	s.mu.Unlock()
	if len(last) > 0 && bytes.HasPrefix(data, last) {
		return st, nil
	}
	st, err := decodeState(data)
	if err == nil {
		s.remember(data[:bytes.IndexByte(data, '\n')+1], st)
	}
	return st, err
}

// lineSize is how much to read to get the whole line, most of the time: asking
// for more than there is costs a second read, for the end of the file.
func (s *Store) lineSize() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.lastLine); n > 0 {
		return n
	}
	return 512
}

func (s *Store) remember(line []byte, st state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastLine, s.lastState = line, st
}

// publish shows st to everyone. The caller has the guard, and has read the state
// since it took it.
func (s *Store) publish(st state) error {
	line := encodeState(st)
	for try := 0; ; try++ {
		f, err := s.openState(true)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(line, 0)
		if err == nil {
			s.remember(line, st)
			return nil
		}
		if !errors.Is(err, fs.ErrClosed) || try > 2 {
			return s.explain(err, stateFile)
		} // a reader has found another file there
	}
}

// openState returns the file, which stays open while it is the one that others
// see: see [Store.same].
func (s *Store) openState(create bool) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != nil {
		return s.state, nil
	}
	fi, err := s.root.Lstat(stateFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, s.explain(err, stateFile)
	}
	if err != nil && !create {
		return nil, errNoState
	}
	if fi != nil {
		if err := local.CheckFile(s.path(stateFile), fi); err != nil {
			return nil, err
		}
	}
	f, err := s.openFor(stateFile, create)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoState
	}
	if err != nil {
		return nil, s.explain(err, stateFile)
	}
	if fi, err = f.Stat(); err != nil {
		_ = f.Close()
		return nil, s.explain(err, stateFile)
	}
	s.closeState()
	s.state, s.stateID = f, fi
	return f, nil
}

func (s *Store) closeState() {
	if s.state != nil {
		_ = s.state.Close()
	}
	s.state, s.stateID = nil, nil
}

// openFor opens a file of the store for reading and writing, or only for reading
// if we may not write.
func (s *Store) openFor(name string, create bool) (*os.File, error) {
	if s.frozen {
		return s.root.OpenFile(name, os.O_RDONLY, 0)
	}
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	return s.root.OpenFile(name, flag, 0o600)
}
