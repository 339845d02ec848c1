package filestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// The journal is one file with a page of text and two halves of zeros. One
// half is in use: it begins with a base entry (the revision, and that of each
// kind, when the half was begun), and every commit appends an entry. When it is
// full and the record files are on the disk, a base entry with the next
// generation is written into the other half, and from then on that one counts.
// The old half stays until then, so there is always a journal.
//
// An append overwrites blocks that exist, so it costs one write and does not
// change the file's metadata. An entry counts if its checksum is right. The
// checksum covers the generation and the place, so the rest of an older
// generation does not count.
const (
	journalText = "tasklock journal; the lock on its first byte is the guard.     \n" // 64 bytes
	formatText  = "format "
	format      = 1

	pageSize   = 4096
	halfSize   = 3 << 19 // more than the largest entry and base together
	softLimit  = 1 << 20 // a half with more than that is full
	roundLimit = 1 << 18 // batches beyond that go into the next entry

	entryMagic = 0x454a4c54 // "TLJE"
	entryHead  = 32
	entryAlign = 64
)

const (
	baseEntry   = 1
	commitEntry = 2
)

func halfStart(gen uint64) int64 { return pageSize + int64((gen+1)%2)*halfSize }

// An entry is one append.
type entry struct {
	gen     uint64
	rev     int64 // of its last batch
	kind    byte
	sum     uint32
	pos     int64
	end     int64 // where the next one begins
	payload []byte
}

// encodeEntry returns the bytes to write at pos.
func encodeEntry(gen uint64, rev int64, kind byte, pos int64, payload []byte) []byte {
	size := (entryHead + len(payload) + entryAlign - 1) / entryAlign * entryAlign
	b := make([]byte, size)
	binary.LittleEndian.PutUint32(b, entryMagic)
	binary.LittleEndian.PutUint64(b[8:], gen)
	binary.LittleEndian.PutUint64(b[16:], uint64(rev))
	binary.LittleEndian.PutUint32(b[24:], uint32(len(payload)))
	b[28] = kind
	copy(b[entryHead:], payload)
	binary.LittleEndian.PutUint32(b[4:], entrySum(b[:entryHead+len(payload)], pos))
	return b
}

func entrySum(b []byte, pos int64) uint32 {
	var place [8]byte
	binary.LittleEndian.PutUint64(place[:], uint64(pos))
	return crc32.Update(crc32.Checksum(place[:], castagnoli()), castagnoli(), b[8:])
}

// decodeEntry reads the entry at the beginning of b, which lies at pos.
func decodeEntry(b []byte, pos int64) (entry, bool) {
	gen, ok := entryGeneration(b)
	if !ok {
		return entry{}, false
	}
	size := int64(entryHead) + int64(binary.LittleEndian.Uint32(b[24:]))
	sum := binary.LittleEndian.Uint32(b[4:])
	if size > int64(len(b)) || entrySum(b[:size], pos) != sum {
		return entry{}, false
	}
	return entry{
		gen: gen, rev: int64(binary.LittleEndian.Uint64(b[16:])), kind: b[28], sum: sum,
		pos: pos, end: pos + (size+entryAlign-1)/entryAlign*entryAlign, payload: b[entryHead:size],
	}, true
}

// entryGeneration reads the head of what may be an entry.
func entryGeneration(b []byte) (gen uint64, ok bool) {
	if len(b) < entryHead || binary.LittleEndian.Uint32(b) != entryMagic {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[8:]), true
}

var (
	errNoJournal     = errors.New("is not a journal of ours")
	errNoBase        = errors.New("has no valid beginning")
	errMiddle        = errors.New("is damaged in the middle")
	errBadEntry      = errors.New("holds an entry that makes no sense")
	errBadGeneration = errors.New("has lost the beginning of its newest half")
)

// A journal is what a scan of the whole file found.
type journal struct {
	gen     uint64
	base    entry
	entries []entry
	end     int64
	rev     int64
	kinds   map[string]int64
}

// scanJournal reads a whole journal file. An invalid entry ends it: that is an
// append that a crash cut short. But nothing is appended before the last append
// is on the disk, so if a valid entry of the same generation comes after it,
// a committed entry is gone.
func scanJournal(data []byte) (journal, error) {
	if len(data) < pageSize {
		return journal{}, errNoJournal
	}
	if err := checkHead(data[len(journalText):pageSize]); err != nil {
		return journal{}, err
	}
	var j journal
	for gen := range uint64(2) {
		start := halfStart(gen)
		if start >= int64(len(data)) {
			continue
		}
		if e, ok := decodeEntry(data[start:], start); ok && e.kind == baseEntry && halfStart(e.gen) == start && e.gen > j.gen {
			j.gen, j.base = e.gen, e
		}
	}
	if j.gen == 0 {
		return journal{}, errNoBase
	}
	if newerEntry(data, halfStart(j.gen+1), j.gen+1) {
		return journal{}, errBadGeneration
	}
	for j.end = j.base.end; j.end < int64(len(data)); {
		e, ok := decodeEntry(data[j.end:], j.end)
		if !ok || e.gen != j.gen {
			break
		}
		j.entries = append(j.entries, e)
		j.end = e.end
	}
	if newerEntry(data, j.end, j.gen) {
		return journal{}, errMiddle
	}
	return j, j.sumUp()
}

// checkHead reads the line after the text.
func checkHead(line []byte) error {
	line, _, ok := bytes.Cut(line, []byte("\n"))
	version, ours := bytes.CutPrefix(line, []byte(formatText))
	switch n := parseUint(version); {
	case !ok || !ours || n < format:
		return errNoJournal
	case n > format:
		return newerFormat(n)
	}
	return nil
}

func parseUint(b []byte) (n int) {
	for _, c := range b {
		if c < '0' || c > '9' || n > 1<<20 {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// newerEntry looks for an entry of generation gen or later from pos to the end
// of its half.
func newerEntry(data []byte, pos int64, gen uint64) bool {
	end := min(int64(len(data)), halfStart(gen)+halfSize)
	for ; pos+entryHead <= end; pos += entryAlign {
		if g, ok := entryGeneration(data[pos:]); !ok || g < gen {
			continue
		}
		if _, ok := decodeEntry(data[pos:], pos); ok {
			return true
		}
	}
	return false
}

// sumUp adds the entries to the base.
func (j *journal) sumUp() (err error) {
	j.rev = j.base.rev
	if j.kinds, err = decodeKinds(j.base.payload); err != nil {
		return err
	}
	for _, e := range j.entries {
		records, err := decodeCommits(e.payload)
		if err != nil || e.kind != commitEntry || e.rev <= j.rev {
			return errBadEntry
		}
		for _, r := range records {
			j.kinds[driver.Kind(r.key)] = r.rev
		}
		j.rev = e.rev
	}
	return nil
}

// newJournal is the content of the journal of an empty store.
func newJournal() []byte {
	b := make([]byte, pageSize+halfSize)
	copy(b, journalText+formatText+"1\n")
	pos := halfStart(1)
	copy(b[pos:], encodeEntry(1, 0, baseEntry, pos, encodeKinds(nil)))
	return b
}

func encodeKinds(kinds map[string]int64) []byte {
	b := binary.AppendUvarint(nil, uint64(len(kinds)))
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		b = appendString(b, kind)
		b = binary.AppendUvarint(b, uint64(kinds[kind]))
	}
	return b
}

func decodeKinds(b []byte) (map[string]int64, error) {
	d := decoder{b: b}
	kinds := make(map[string]int64)
	for n := d.uint(); n > 0 && !d.bad; n-- {
		kind := string(d.bytes())
		kinds[kind] = int64(d.uint())
	}
	return kinds, d.done()
}

// A commit entry has the time of its commits and then the batches, each with
// its revision and its writes.
func appendTime(b []byte, t local.Stamp) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Wall))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Awake))
	return appendString(b, t.Domain)
}

func appendBatch(b []byte, rev int64, writes []driver.Write) []byte {
	b = binary.AppendUvarint(b, uint64(rev))
	b = binary.AppendUvarint(b, uint64(len(writes)))
	for _, w := range writes {
		b = appendString(b, w.Key)
		if w.Value == nil {
			b = append(b, 0)
			continue
		}
		b = append(b, 1)
		b = binary.AppendUvarint(b, uint64(max(0, w.TTL)))
		b = appendString(b, string(w.Value))
	}
	return b
}

// decodeCommits returns the writes of an entry in their order. Their values
// are part of payload.
func decodeCommits(payload []byte) (records []record, err error) {
	d := decoder{b: payload}
	t := local.Stamp{Wall: int64(d.fixed()), Awake: int64(d.fixed()), Domain: string(d.bytes())}
	for len(d.b) > 0 && !d.bad {
		rev := int64(d.uint())
		for n := d.uint(); n > 0 && !d.bad; n-- {
			r := record{key: string(d.bytes()), rev: rev, time: t}
			if d.byte() != 0 {
				r.ttl, r.value = time.Duration(d.uint()), d.bytes()
			}
			if !d.bad && driver.CheckKey(r.key) != nil {
				return nil, errBadEntry
			}
			records = append(records, r)
		}
	}
	return records, d.done()
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// A decoder takes a payload apart; after an error it returns zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	taken := d.b[:n:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.bad = true
		return 0
	}
	d.take(uint64(size))
	return n
}

func (d *decoder) fixed() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) bytes() []byte { return d.take(d.uint()) }

func (d *decoder) done() error {
	if d.bad || len(d.b) > 0 {
		return errBadEntry
	}
	return nil
}
