package etcdstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	mvccpb "go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/store/driver"
)

// A keyspace is the prefix of one store:
//
//	PREFIX/format          see format
//	PREFIX/kind/KIND       written with every change of the kind: its revision is that of the last one
//	PREFIX/record/KEY      a record: its value, and on a last line when it was written
//	PREFIX/record/KEY NUL alive   exists until the ttl of the record ends
//
// The last of these, the sign, is on a lease of etcd, which removes it. The record
// stays, so that it can be shown, renewed and ended as on any other store. A
// range that ends at upTo holds a record and its sign; in every range the sign
// comes right after its record.
type keyspace string

const aliveSuffix = "\x00alive"

func (k keyspace) format() string { return string(k) + "/format" }
func (k keyspace) kind(kind string) string {
	return string(k) + "/kind/" + strings.TrimSuffix(kind, "/")
}
func (k keyspace) record(key string) string   { return string(k) + "/record/" + key }
func (k keyspace) alive(key string) string    { return k.record(key) + aliveSuffix }
func (k keyspace) upTo(key string) string     { return k.record(key) + "\x01" }
func (k keyspace) end(prefix string) string   { return clientv3.GetPrefixRangeEnd(k.record(prefix)) }
func (k keyspace) name(etcdKey []byte) string { return string(etcdKey[len(k)+len("/record/"):]) }

// A stamp is the last line of a stored record.
type stamp struct {
	At  time.Time `json:"at"`
	TTL float64   `json:"ttl,omitempty"` // seconds
}

const stampTime = "2006-01-02T15:04:05.000Z07:00"

// seal returns the stored form of a value. It rounds the time up: a record never
// looks older than it is.
func seal(value []byte, now time.Time, ttl time.Duration) string {
	at := now.Add(time.Millisecond - 1).Truncate(time.Millisecond).UTC().Format(stampTime)
	if ttl > 0 {
		return fmt.Sprintf("%s\n{\"at\":%q,\"ttl\":%g}", value, at, ttl.Seconds())
	}
	return fmt.Sprintf("%s\n{\"at\":%q}", value, at)
}

// unseal takes the stored form apart. Anything that seal would not make was put
// there by somebody else.
func unseal(stored []byte) (value []byte, s stamp, err error) {
	i := bytes.LastIndexByte(stored, '\n')
	if i < 0 {
		return nil, s, fmt.Errorf("%w: no line that says when it was written", driver.ErrDamaged)
	}
	if err := json.Unmarshal(stored[i+1:], &s); err != nil || s.At.IsZero() || s.TTL < 0 {
		return nil, s, fmt.Errorf("%w: the last line does not say when it was written", driver.ErrDamaged)
	}
	return stored[:i:i], s, nil
}

// A kept is a key of etcd with a record, and whether it had its sign.
type kept struct {
	kv    *mvccpb.KeyValue // nil: absent
	alive bool
}

func isSign(kv *mvccpb.KeyValue) bool { return bytes.HasSuffix(kv.Key, []byte(aliveSuffix)) }

// join pairs records with their signs. It drops a sign without a record.
func join(kvs []*mvccpb.KeyValue) (records []kept) {
	for _, kv := range kvs {
		name, sign := bytes.CutSuffix(kv.Key, []byte(aliveSuffix))
		switch n := len(records); {
		case !sign: // a record on a lease was written before there were signs
			records = append(records, kept{kv: kv, alive: kv.Lease != 0})
		case n > 0 && bytes.Equal(records[n-1].kv.Key, name):
			records[n-1].alive = true
		}
	}
	return records
}

// decode turns a key of etcd into a record.
func (s *Store) decode(k kept, f *format, now time.Time) (driver.Record, error) {
	value, st, err := unseal(k.kv.Value)
	if err != nil {
		return driver.Record{}, fmt.Errorf("etcd key %q: %w", k.kv.Key, err)
	}
	return driver.Record{Key: s.keys.name(k.kv.Key), Rev: f.rev(k.kv.ModRevision), Time: now.Add(-st.age(now, k.alive)), Value: value}, nil
}

// age is the age that we show. The server decides by the record's sign whether
// its ttl is over, whatever the clocks say. A live record keeps a little time to
// live, so that nobody asks again and again for the rest of it.
func (s stamp) age(now time.Time, alive bool) time.Duration {
	age, ttl := max(0, now.Sub(s.At)), s.ttl()
	switch {
	case ttl == 0:
		return age
	case alive:
		return min(age, ttl-min(time.Second, ttl/10))
	}
	return max(age, ttl+time.Millisecond)
}

func (s stamp) ttl() time.Duration { return time.Duration(s.TTL * float64(time.Second)) }
