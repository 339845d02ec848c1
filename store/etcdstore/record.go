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

// A keyspace is the prefix under which everything of one store stands:
//
//	PREFIX/format          see format
//	PREFIX/kind/KIND       written with every change of the kind: its revision is that of the last one
//	PREFIX/record/KEY      a record: its value, and on a last line when it was written
type keyspace string

func (k keyspace) format() string { return string(k) + "/format" }
func (k keyspace) kind(kind string) string {
	return string(k) + "/kind/" + strings.TrimSuffix(kind, "/")
}
func (k keyspace) record(key string) string   { return string(k) + "/record/" + key }
func (k keyspace) end(prefix string) string   { return clientv3.GetPrefixRangeEnd(k.record(prefix)) }
func (k keyspace) name(etcdKey []byte) string { return string(etcdKey[len(k)+len("/record/"):]) }

// A stamp is the last line of a stored record.
type stamp struct {
	At  time.Time `json:"at"`
	TTL float64   `json:"ttl,omitempty"` // seconds
}

const stampTime = "2006-01-02T15:04:05.000Z07:00"

// seal is what is stored for a value. The time is rounded up: a record never
// looks older than it is.
func seal(value []byte, now time.Time, ttl time.Duration) string {
	at := now.Add(time.Millisecond - 1).Truncate(time.Millisecond).UTC().Format(stampTime)
	if ttl > 0 {
		return fmt.Sprintf("%s\n{\"at\":%q,\"ttl\":%g}", value, at, ttl.Seconds())
	}
	return fmt.Sprintf("%s\n{\"at\":%q}", value, at)
}

// unseal takes apart what is stored. Whatever is not as seal makes it was put
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

// decode turns a key of etcd into a record.
func (s *Store) decode(kv *mvccpb.KeyValue, f *format, now time.Time) (driver.Record, error) {
	value, st, err := unseal(kv.Value)
	if err != nil {
		return driver.Record{}, fmt.Errorf("etcd key %q: %w", kv.Key, err)
	}
	return driver.Record{Key: s.keys.name(kv.Key), Rev: f.rev(kv.ModRevision), Time: now.Add(-age(st, now)), Value: value}, nil
}

// age is how old a record looks. One with a ttl that is still there has not
// outlived it, whatever the clocks say: the server decides. It keeps a little
// time to live, so that nobody asks again and again for the rest of it.
func age(s stamp, now time.Time) time.Duration {
	age := max(0, now.Sub(s.At))
	if ttl := time.Duration(s.TTL * float64(time.Second)); ttl > 0 {
		age = min(age, ttl-min(time.Second, ttl/10))
	}
	return age
}
