package store

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// A backup is text, one JSON object on a line: a head, one line for each record
// in the order of their keys, and a last line with the checksum of all before
// it. A file without that line is incomplete.

type backupHead struct {
	Backup   string    `json:"backup"` // "tasklock"
	Format   int       `json:"format"` // of its records
	From     string    `json:"from"`
	Store    string    `json:"store"` // its id
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time"`
	Records  int       `json:"records"`
}

// backupLine is a record. Bytes holds a value that JSON would not reproduce
// byte for byte.
type backupLine struct {
	Key      string          `json:"key"`
	Revision int64           `json:"revision"`
	Time     time.Time       `json:"time"`
	Value    json.RawMessage `json:"value,omitempty"`
	Bytes    []byte          `json:"bytes,omitempty"`
}

type backupEnd struct {
	End    bool   `json:"end"`
	SHA256 string `json:"sha256"`
}

// backupID begins the id of a copy that was read from a file.
const backupID = "backup "

// maxBackupLine bounds a line: a value may grow by escapes.
const maxBackupLine = 8 * (driver.MaxValue + driver.MaxKey)

// WriteBackup writes a copy for [ReadBackup].
func WriteBackup(w io.Writer, c Copy) error {
	sum := sha256.New()
	buf := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(io.MultiWriter(buf, sum))
	enc.SetEscapeHTML(false)
	head := backupHead{"tasklock", cmp.Or(c.Format, Format), c.From, c.ID, c.Rev, c.Now.UTC(), len(c.Records)}
	if err := enc.Encode(head); err != nil {
		return err
	}
	for _, r := range c.Records {
		line := backupLine{Key: r.Key, Revision: r.Rev, Time: r.Time.UTC(), Value: r.Value}
		if !exact(r.Value) {
			line.Value, line.Bytes = nil, r.Value
		}
		if err := enc.Encode(line); err != nil {
			return fmt.Errorf("record %q: %w", r.Key, err)
		}
	}
	end := backupEnd{End: true, SHA256: hex.EncodeToString(sum.Sum(nil))}
	if err := enc.Encode(end); err != nil {
		return err
	}
	return buf.Flush()
}

// exact reports whether JSON reproduces the value byte for byte.
func exact(value []byte) bool {
	again, err := Encode("", json.RawMessage(value))
	return err == nil && bytes.Equal(again, value)
}

// Why a file cannot be restored.
var (
	ErrNotBackup     = errors.New("not a backup of tasklock")
	ErrBackupDamaged = errors.New("backup damaged")
)

// ReadBackup reads what [WriteBackup] wrote. A file that was cut off or changed
// is [ErrBackupDamaged], a file of another kind [ErrNotBackup]. Now is the time
// of the backup.
func ReadBackup(r io.Reader) (Copy, error) {
	b := backupReader{in: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	c, err := b.read()
	if errors.Is(err, driver.ErrNewer) || err == nil {
		return c, err
	}
	if b.line == 1 {
		return Copy{}, fmt.Errorf("%w: %w", ErrNotBackup, err)
	}
	return Copy{}, fmt.Errorf("%w: line %d: %w", ErrBackupDamaged, b.line, err)
}

type backupReader struct {
	in   *bufio.Reader
	sum  hash.Hash
	line int
}

func (b *backupReader) read() (c Copy, err error) {
	var head backupHead
	if err := b.next(&head, true); err != nil {
		return c, err
	}
	switch {
	case head.Backup != "tasklock" || head.Format < 1 || head.Records < 0 || head.Revision < 0:
		return c, errors.New("the first line is not that of a backup")
	case head.Format > newest:
		return c, driver.Newer("the backup", head.Format, newest)
	}
	c = Copy{Format: head.Format, From: head.From, Rev: head.Revision, Now: head.Time}
	for last := ""; len(c.Records) < head.Records; {
		var l backupLine
		if err := b.next(&l, true); err != nil {
			return c, err
		}
		rec := driver.Record{Key: l.Key, Rev: l.Revision, Time: l.Time, Value: []byte(l.Value)}
		if l.Value == nil {
			rec.Value = l.Bytes
		}
		switch err := driver.CheckKey(l.Key); {
		case err != nil:
			return c, err
		case l.Key <= last || l.Key == metaKey:
			return c, fmt.Errorf("record %q is out of order", l.Key)
		case len(rec.Value) == 0 || len(rec.Value) > driver.MaxValue:
			return c, fmt.Errorf("record %q has %d bytes, between 1 and %d are possible", l.Key, len(rec.Value), driver.MaxValue)
		}
		last = l.Key
		c.Records = append(c.Records, rec)
	}
	sum := hex.EncodeToString(b.sum.Sum(nil))
	var end backupEnd
	if err := b.next(&end, false); err != nil {
		return c, err
	}
	if !end.End || end.SHA256 != sum {
		return c, errors.New("the checksum is not that of the lines before it")
	}
	if _, err := b.in.ReadByte(); !errors.Is(err, io.EOF) {
		return c, errors.New("something follows the last line")
	}
	c.ID = backupID + sum
	return c, nil
}

// next reads one line.
func (b *backupReader) next(into any, counts bool) error {
	b.line++
	var line []byte
	for {
		part, err := b.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxBackupLine:
			return errors.New("the line is too long")
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return errors.New("the file ends here")
		case err != nil:
			return err
		}
		break
	}
	if counts {
		b.sum.Write(line)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.InputOffset() != int64(len(line)-1) {
		return errors.New("more than one value on the line")
	}
	return nil
}
