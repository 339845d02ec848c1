package filestore

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

// An index lists the keys of one kind in their order, so that a part of a large
// kind is found without listing its folder. It is the file "index/KIND":
//
//	tasklock index 2
//	kind      "event/"
//	life      …                 (as in the state: it counts for that boot and mount)
//	journal   7 210240 210880 1a2b3c4d
//	size      561288
//	sum       5e6f7a8b
//
//	9a0b1c2d event/20261116T120336.567001054Z-002-wy2rrtkqxagp656t
//	…
//
// Each line begins with the checksum of its key and of the head: a reader reads few
// of the lines, and a damaged one would hide records.
//
// It is true at one place of the journal: behind the entry of that generation,
// beginning, end and checksum. A reader adds what the journal has since then, so
// writers need not know of it, and an older tasklock may write too. Whoever finds
// that the journal has much more, or has listed a large folder for a small part
// of it, writes the index again; nothing is lost with it. A range with neither a
// limit nor more than a kind in its prefix lists the folder as ever.
//
// A record file that a person adds is in no index. A Get finds it at once, a part
// of a range when the index is next made from the folder: remove the file
// "index/KIND" for that.
const (
	indexDir     = "index"
	indexDraft   = indexDir + "/~new"
	indexMagic   = "tasklock index 2\n"
	indexBlock   = 8 << 10 // more than three lines
	indexHead    = 1 << 10
	indexLeast   = 256      // names in a folder that is worth an index
	indexJournal = 32 << 10 // and a quarter of the index: what the journal may have since
)

var errNoIndex = errors.New("no usable index")

// An index is an open index file.
type index struct {
	f     *os.File
	kind  string
	begin int64 // of the lines in the file
	size  int64 // of all lines
	place place
	seed  uint32 // of the checksums of the lines
}

// A place is where the index is true.
type place struct {
	gen      uint64
	pos, end int64  // of the entry before it
	sum      uint32 // of that entry
}

func placeAfter(e entry) place { return place{gen: e.gen, pos: e.pos, end: e.end, sum: e.sum} }

func indexFile(kind string) string { return indexDir + "/" + encodeName(strings.TrimSuffix(kind, "/")) }

func (s *Store) openIndex(kind string) (*index, error) {
	f, err := s.root.OpenFile(indexFile(kind), os.O_RDONLY, 0)
	if err != nil {
		return nil, errNoIndex
	}
	ix := &index{f: f, kind: kind}
	if err := ix.readHead(s.life); err != nil {
		_ = f.Close()
		return nil, err
	}
	return ix, nil
}

func (ix *index) close() { _ = ix.f.Close() }

func (ix *index) readHead(life string) error {
	b := make([]byte, indexHead)
	n, err := ix.f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return errNoIndex
	}
	head, _, ok := bytes.Cut(b[:n], []byte("\n\n"))
	if !ok {
		return errNoIndex
	}
	ix.begin = int64(len(head)) + 2
	p := &ix.place
	_, err = fmt.Sscanf(string(lineOf(head, "journal")), "%d %d %d %08x", &p.gen, &p.pos, &p.end, &p.sum)
	if err != nil {
		return errNoIndex
	}
	if ix.size, err = strconv.ParseInt(string(lineOf(head, "size")), 10, 64); err != nil {
		return errNoIndex
	}
	fi, err := ix.f.Stat()
	if err != nil || fi.Size() != ix.begin+ix.size || !bytes.Equal(indexHeadOf(ix.kind, life, *p, ix.size), b[:ix.begin]) {
		return errNoIndex
	}
	ix.seed = lineSeed(ix.kind, life, *p)
	return nil
}

// lineOf returns what a head says under a name.
func lineOf(head []byte, name string) []byte {
	for line := range bytes.Lines(head) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			return bytes.TrimSpace(rest)
		}
	}
	return nil
}

func indexHeadOf(kind, life string, p place, size int64) []byte {
	b := fmt.Appendf([]byte(indexMagic), "kind      %q\nlife      %s\njournal   %d %d %d %08x\nsize      %d\n", kind, life, p.gen, p.pos, p.end, p.sum, size)
	return fmt.Appendf(b, "sum       %08x\n\n", crc32.Checksum(b, castagnoli()))
}

// Keys may have line breaks.
var (
	toLine   = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	fromLine = strings.NewReplacer(`\\`, `\`, `\n`, "\n")
)

func lineSeed(kind, life string, p place) uint32 {
	return crc32.Checksum(indexHeadOf(kind, life, p, 0), castagnoli())
}

func appendLine(b []byte, seed uint32, key string) []byte {
	text := toLine.Replace(key)
	start := len(b) + 9
	b = append(append(b, "........ "...), text...)
	hex.Encode(b[start-9:], binary.BigEndian.AppendUint32(nil, crc32.Update(seed, castagnoli(), b[start:])))
	return append(b, '\n')
}

// keyOf returns the key of a line.
func (ix *index) keyOf(line []byte) (string, error) {
	sum, text, _ := bytes.Cut(line, []byte(" "))
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || uint32(want) != crc32.Update(ix.seed, castagnoli(), text) {
		return "", errNoIndex
	}
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text), nil
	}
	return fromLine.Replace(string(text)), nil
}

// search returns where the first line that is not below key begins.
func (ix *index) search(key string) (int64, error) {
	low, high := int64(0), ix.size // both are beginnings of lines, or the end
	for high-low > indexBlock {
		mid := low + (high-low)/2
		block, err := ix.read(mid, min(high, mid+indexBlock))
		if err != nil {
			return 0, err
		}
		_, rest, ok := bytes.Cut(block, []byte("\n"))
		line, _, whole := bytes.Cut(rest, []byte("\n"))
		if !ok || !whole {
			return 0, errNoIndex
		}
		start := mid + int64(len(block)-len(rest))
		found, err := ix.keyOf(line)
		if err != nil {
			return 0, err
		}
		if found < key {
			low = start + int64(len(line)) + 1
		} else {
			high = start
		}
	}
	block, err := ix.read(low, high)
	for len(block) > 0 && err == nil {
		line, rest, _ := bytes.Cut(block, []byte("\n"))
		var found string
		if found, err = ix.keyOf(line); found >= key {
			break
		}
		low += int64(len(block) - len(rest))
		block = rest
	}
	return low, err
}

func (ix *index) read(from, to int64) ([]byte, error) {
	b := make([]byte, to-from)
	if _, err := ix.f.ReadAt(b, ix.begin+from); err != nil {
		return nil, errNoIndex
	}
	return b, nil
}

// keys returns the keys of a range in order.
func (ix *index) keys(rg driver.Range) ([]string, error) {
	low, err := ix.search(rg.From())
	if err != nil {
		return nil, err
	}
	high, err := ix.search(rg.Prefix + "\xff") // which is in no text
	if err != nil {
		return nil, err
	}
	limit, high := rg.Limit, max(low, high)
	for size := int64(indexBlock); ; size *= 8 {
		from, to := low, high
		switch {
		case limit > 0:
			to = min(high, low+size)
		case limit < 0:
			from = max(low, high-size)
		}
		block, err := ix.read(from, to)
		if err != nil {
			return nil, err
		}
		if from > low { // the first line may not be whole
			_, block, _ = bytes.Cut(block, []byte("\n"))
		}
		if to == high && len(block) > 0 && block[len(block)-1] != '\n' {
			return nil, errNoIndex
		}
		keys, err := ix.linesOf(block)
		if err != nil {
			return nil, err
		}
		if from == low && to == high || len(keys) >= max(limit, -limit) {
			return some(keys, limit), nil
		}
	}
}

// linesOf returns the keys in the whole lines of a block.
func (ix *index) linesOf(block []byte) (keys []string, err error) {
	for {
		line, rest, whole := bytes.Cut(block, []byte("\n"))
		if !whole {
			return keys, nil
		}
		key, err := ix.keyOf(line)
		if err != nil {
			return nil, err
		}
		keys, block = append(keys, key), rest
	}
}

// some applies the limit of a range to sorted keys.
func some(keys []string, limit int) []string {
	switch {
	case limit > 0:
		return keys[:min(len(keys), limit)]
	case limit < 0:
		return keys[max(0, len(keys)+limit):]
	}
	return keys
}

// A change is what the journal says of the keys of a kind since an index was
// true: which are there now and which are not.
type change struct {
	keys  map[string]bool
	last  entry // where it ends
	bytes int64
}

// since returns what the journal has beyond the place of an index.
func (s *Store) since(p place, st state, kind string) (change, error) {
	entries, err := s.entriesAfter(p, st)
	if err != nil {
		return change{}, err
	}
	c := change{keys: make(map[string]bool), last: entries[len(entries)-1]}
	for _, e := range entries[1:] {
		c.bytes += e.end - e.pos
		if e.kind != commitEntry {
			continue
		}
		records, err := decodeCommits(e.payload)
		if err != nil {
			return change{}, errNoIndex
		}
		for _, r := range records {
			if strings.HasPrefix(r.key, kind) {
				c.keys[r.key] = r.value != nil
			}
		}
	}
	return c, nil
}

// entriesSince returns the entries of all commits after a revision up to st, or more.
// They may begin in the half that was in use before.
func (s *Store) entriesSince(rev int64, st state) ([]entry, error) {
	now, err := s.entries(st.Generation, halfStart(st.Generation), st.End)
	if err != nil || len(now) == 0 {
		return nil, errNoIndex
	}
	if rev >= now[0].rev {
		return now[1:], nil
	}
	before, err := s.entries(st.Generation-1, halfStart(st.Generation-1), 0)
	if err != nil || len(before) == 0 || before[0].kind != baseEntry || rev < before[0].rev || before[len(before)-1].rev != now[0].rev {
		return nil, errNoIndex
	}
	return append(before[1:], now[1:]...), nil
}

// entriesAfter returns the entry before a place, and all from there to st. They
// may begin in the half that was in use before.
func (s *Store) entriesAfter(p place, st state) (entries []entry, err error) {
	switch {
	case p.gen == st.Generation && p.end <= st.End:
		entries, err = s.entries(p.gen, p.pos, st.End)
	case p.gen+1 == st.Generation:
		if entries, err = s.entries(p.gen, p.pos, 0); err != nil || len(entries) == 0 {
			return nil, errNoIndex
		}
		var now []entry
		if now, err = s.entries(st.Generation, halfStart(st.Generation), st.End); err != nil || len(now) == 0 || now[0].rev != entries[len(entries)-1].rev {
			return nil, errNoIndex // the half was used again meanwhile
		}
		entries = append(entries, now...)
	default:
		return nil, errNoIndex
	}
	if err != nil || len(entries) == 0 || placeAfter(entries[0]) != p {
		return nil, errNoIndex
	}
	return entries, nil
}

// indexed returns the keys of a range from the index of their kind.
func (v *view) indexed(rg driver.Range) ([]string, error) {
	kind := driver.Kind(rg.Prefix)
	ix, err := v.s.openIndex(kind)
	if err != nil {
		return nil, err
	}
	defer ix.close()
	c, err := v.s.since(ix.place, v.state, kind)
	if err != nil {
		return nil, err
	}
	more, gone := rg, 0
	for _, there := range c.keys {
		if !there {
			gone++
		}
	}
	if rg.Limit > 0 {
		more.Limit += gone
	} else if rg.Limit < 0 {
		more.Limit -= gone
	}
	keys, err := ix.keys(more)
	if err != nil {
		return nil, err
	}
	if c.bytes > indexJournal+ix.size/4 {
		if whole, err := ix.keys(driver.Range{Prefix: kind}); err == nil {
			v.s.writeIndex(kind, c.apply(whole, driver.Range{Prefix: kind}), placeAfter(c.last))
		}
	}
	return some(c.apply(keys, rg), rg.Limit), nil
}

// apply returns keys, which are of a range, as they are after the change.
func (c change) apply(keys []string, rg driver.Range) []string {
	keys = slices.DeleteFunc(keys, func(key string) bool { _, changed := c.keys[key]; return changed })
	for key, there := range c.keys {
		if there && rg.Selects(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// makeIndex writes the index of a kind whose keys were listed at st or later.
func (s *Store) makeIndex(kind string, keys []string, st state) {
	entries, err := s.entries(st.Generation, halfStart(st.Generation), st.End)
	if err == nil && len(entries) > 0 {
		s.writeIndex(kind, keys, placeAfter(entries[len(entries)-1]))
	}
}

// writeIndex replaces the index of a kind, if nobody has the guard. Its failure
// does not matter.
func (s *Store) writeIndex(kind string, keys []string, p place) {
	if s.frozen || !s.guard.TryLock() {
		return
	}
	defer s.guard.Unlock()
	var lines []byte
	seed := lineSeed(kind, s.life, p)
	for _, key := range keys {
		lines = appendLine(lines, seed, key)
	}
	if err := s.root.Mkdir(indexDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return
	}
	_ = s.root.Remove(indexDraft)
	f, err := s.root.OpenFile(indexDraft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	_, err = f.Write(append(indexHeadOf(kind, s.life, p, int64(len(lines))), lines...))
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.root.Rename(indexDraft, indexFile(kind))
	}
	if err != nil {
		_ = s.root.Remove(indexDraft)
	}
}
