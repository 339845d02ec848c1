package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// A record is one stored value as it lies in its file and in the journal.
type record struct {
	key   string
	rev   int64
	time  local.Stamp
	ttl   time.Duration // as the writer gave it; shown, not used
	value []byte        // nil in the journal: deleted
}

// A record's file has a head for people and for us, an empty line, and the
// value exactly as it was written:
//
//	tasklock record 1
//	key       "lock/deploy"
//	revision  42
//	written   2026-11-15T03:04:05.123456789Z
//	awake     8123456789012 in 5f0c6a…
//	expires   2026-11-15T04:04:05.123456789Z   (if it was written with a ttl)
//	see       records/lease/me+k3v9            (if the value names a lease)
//	size      93
//	sum       1a2b3c4d
//
//	{"key":"deploy","lease":"me/k3v9","owner":"me","since":"…"}
//
// Any other content is damage.
const (
	recordMagic   = "tasklock record "
	recordVersion = 1
	timeLayout    = "2006-01-02T15:04:05.000000000Z"
	maxShownTTL   = 100 * 365 * 24 * time.Hour
	maxRecordFile = driver.MaxValue + 16<<10 // no file of ours is longer
)

var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// encodeRecord returns the content of r's file.
func encodeRecord(r record) []byte { return encodeFile(r, seeAlso(r.value)) }

func encodeFile(r record, see string) []byte {
	b := make([]byte, 0, len(r.value)+len(r.key)+len(see)+320)
	b = append(b, recordMagic...)
	b = strconv.AppendInt(b, recordVersion, 10)
	b = append(b, "\nkey       "...)
	b = strconv.AppendQuote(b, r.key)
	b = append(b, "\nrevision  "...)
	b = strconv.AppendInt(b, r.rev, 10)
	b = append(b, "\nwritten   "...)
	b = time.Unix(0, r.time.Wall).UTC().AppendFormat(b, timeLayout)
	b = append(b, "\nawake     "...)
	b = strconv.AppendInt(b, r.time.Awake, 10)
	b = append(b, " in "...)
	b = append(b, r.time.Domain...)
	if r.ttl > 0 && r.ttl <= maxShownTTL {
		b = append(b, "\nexpires   "...)
		b = time.Unix(0, r.time.Wall).Add(r.ttl).UTC().AppendFormat(b, timeLayout)
	}
	if see != "" {
		b = append(b, "\nsee       "...)
		b = append(b, see...)
	}
	b = append(b, "\nsize      "...)
	b = strconv.AppendInt(b, int64(len(r.value)), 10)
	sum := crc32.Update(crc32.Checksum(b, castagnoli()), castagnoli(), r.value)
	b = fmt.Appendf(b, "\nsum       %08x\n\n", sum)
	b = append(b, r.value...)
	return append(b, '\n')
}

// seeAlso names the file of the lease that a value points to, for a person who
// looks at a lock.
func seeAlso(value []byte) string {
	_, rest, ok := bytes.Cut(value, []byte(`"lease":"`))
	id, _, whole := bytes.Cut(rest, []byte(`"`))
	if !ok || !whole || len(id) == 0 || bytes.IndexByte(id, '\\') >= 0 {
		return ""
	}
	return recordsDir + "/lease/" + encodeName(string(id))
}

var (
	errNotOurs = errors.New("is not a record of ours")
	errEmpty   = errors.New("is empty")
)

// newerFormat is the format of a file, if this program does not know it.
type newerFormat int

func (newerFormat) Error() string { return "has a newer format" }

// decodeRecord reads the content of a record's file. The value is part of data.
func decodeRecord(data []byte) (record, error) {
	if len(data) == 0 {
		return record{}, errEmpty
	}
	head, value, ok := bytes.Cut(data, []byte("\n\n"))
	version, rest, _ := strings.Cut(string(head), "\n")
	if v, isRecord := strings.CutPrefix(version, recordMagic); isRecord && v != strconv.Itoa(recordVersion) {
		if n, err := strconv.Atoi(v); err == nil && n > recordVersion {
			return record{}, newerFormat(n)
		}
		return record{}, errNotOurs
	}
	if !ok || len(value) == 0 {
		return record{}, errNotOurs
	}
	r, see, err := parseHead(rest)
	if err != nil {
		return record{}, err
	}
	r.value = value[: len(value)-1 : len(value)-1]
	if !bytes.Equal(encodeFile(r, see), data) {
		return record{}, errNotOurs
	}
	return r, nil
}

// parseHead reads the lines of a head as far as they can be understood. It
// need not be strict: its result is encoded again and compared.
func parseHead(head string) (r record, see string, err error) {
	for line := range strings.SplitSeq(head, "\n") {
		name, text, _ := strings.Cut(line, " ")
		text = strings.TrimLeft(text, " ")
		switch name {
		case "key":
			r.key, err = strconv.Unquote(text)
		case "revision":
			r.rev, err = strconv.ParseInt(text, 10, 64)
		case "written":
			r.time.Wall, err = parseTime(text)
		case "awake":
			var reading string
			reading, r.time.Domain, _ = strings.Cut(text, " in ")
			r.time.Awake, err = strconv.ParseInt(reading, 10, 64)
		case "expires":
			var wall int64
			wall, err = parseTime(text)
			r.ttl = time.Duration(wall - r.time.Wall)
		case "see":
			see = text
		}
		if err != nil {
			return record{}, "", errNotOurs
		}
	}
	if r.rev <= 0 || driver.CheckKey(r.key) != nil {
		return record{}, "", errNotOurs
	}
	return r, see, nil
}

func parseTime(text string) (int64, error) {
	t, err := time.Parse(timeLayout, text)
	return t.UnixNano(), err
}
