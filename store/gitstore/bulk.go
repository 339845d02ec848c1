package gitstore

import (
	"bytes"
	"context"
	"encoding/binary"
)

// manyObjects is how many records are worth one pack instead of a file for each.
const manyObjects = 24

// A bulk is a pack in the making, in git's format.
type bulk struct {
	body  bytes.Buffer
	count uint32
	seen  map[oid]bool
}

var packTypes = map[string]byte{"commit": 1, "tree": 2, "blob": 3}

// add appends an object: its type and size, seven bits at a time after the
// first four, then its content.
func (b *bulk) add(o *objects, id oid, kind string, body []byte) error {
	if b.seen[id] {
		return nil
	}
	b.seen[id] = true
	b.count++
	size := len(body)
	c := packTypes[kind]<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b.body.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	b.body.WriteByte(c)
	return o.write(&b.body, body)
}

// inBulk runs f and gives git all objects that it puts as one pack.
func (o *objects) inBulk(ctx context.Context, f func() error) error {
	b := &bulk{seen: map[oid]bool{}}
	o.mu.Lock()
	o.bulk = b
	o.mu.Unlock()
	err := f()
	o.mu.Lock()
	o.bulk = nil
	o.mu.Unlock()
	if err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), b.count)
	h := o.hasher()
	_, _ = h.Write(head)
	_, _ = h.Write(b.body.Bytes())
	pack := append(append(head, b.body.Bytes()...), h.Sum(nil)...)
	_, err = o.cat.git.feed(ctx, pack, "index-pack", "--stdin")
	return err
}
