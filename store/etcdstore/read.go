package etcdstore

import (
	"context"
	"errors"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	mvccpb "go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/store/driver"
)

// page is how many records of a range one answer holds.
const page = 1000

// Read implements driver.Store: one Txn for everything, and one more request for
// each further page, at the revision of the first.
func (s *Store) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	living, done, err := s.call(ctx)
	if err != nil {
		return driver.Snapshot{}, err
	}
	defer done()
	if snap, ok := s.recall(q); ok {
		return snap, nil
	}
	for {
		snap, err := s.read(living, q)
		if !errors.Is(err, rpctypes.ErrCompacted) { // else: between two pages
			return snap, s.life.Ended(ctx, err)
		}
	}
}

// recall answers from memory if the query allows it.
func (s *Store) recall(q driver.Query) (driver.Snapshot, bool) {
	records, at, ok := s.memory.recall(q)
	f := s.known()
	if !ok || f.rev(at) < q.Since || s.lines.doubtful() {
		return driver.Snapshot{}, false
	}
	snap := driver.Snapshot{Rev: f.rev(at), Now: time.Now(), Old: true}
	for _, k := range records {
		r, err := s.decode(k, f, snap.Now)
		if err != nil {
			return driver.Snapshot{}, false
		}
		snap.Records = append(snap.Records, r)
	}
	return snap, true
}

func (s *Store) read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	ops := []clientv3.Op{clientv3.OpGet(s.keys.format())}
	for _, k := range q.Keys {
		ops = append(ops, clientv3.OpGet(s.keys.record(k), clientv3.WithRange(s.keys.upTo(k))))
	}
	known := s.known()
	for _, r := range q.Ranges {
		ops = append(ops, s.first(r, known))
	}
	high := s.highest()
	answer, err := s.ask(ctx, ops)
	if err != nil {
		return driver.Snapshot{}, err
	}
	parts := flatten(nil, answer.Responses)
	f, err := s.formatOf(ctx, answer, parts[0], high)
	if err != nil {
		return driver.Snapshot{}, err
	}
	if f.value != known.value && slices.ContainsFunc(q.Ranges, func(r driver.Range) bool { return r.Since > 0 }) {
		return s.read(ctx, q) // it asked for what is new by another way to count
	}
	at := answer.Header.Revision
	snap := driver.Snapshot{Rev: f.rev(at), Now: time.Now()}
	add := func(records []kept) error {
		for _, k := range records {
			r, err := s.decode(k, f, snap.Now)
			if err != nil {
				return err
			}
			snap.Records = append(snap.Records, r)
		}
		return nil
	}
	for i, part := range parts[1:] {
		records := join(part.Kvs)
		if i < len(q.Keys) {
			var k kept
			if len(records) > 0 {
				k = records[0]
			}
			if !q.Poll { // so many would displace what is about to be written
				s.memory.note(q.Keys[i], k, at)
			}
		} else {
			if records, err = s.rest(ctx, q.Ranges[i-len(q.Keys)], f, part, at); err != nil {
				return snap, err
			}
		}
		if err := add(records); err != nil {
			return snap, err
		}
	}
	return snap, nil
}

// ask sends one Txn that reads.
func (s *Store) ask(ctx context.Context, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	resp, err := s.client.Txn(ctx).Then(nest(ops, 0)...).Commit()
	return resp, s.failed("read", err)
}

// formatOf is the format at the revision of an answer. If that is below the
// highest known revision, a backup was restored; after a new connection one may
// have been.
func (s *Store) formatOf(ctx context.Context, answer *clientv3.TxnResponse, part *pb.RangeResponse, high int64) (*format, error) {
	f, err := parseFormat(s.keys.format(), part.Kvs)
	if err != nil {
		return nil, err
	}
	if f, err = s.here(ctx, f, cluster(answer.Header.ClusterId)); err != nil {
		return nil, err
	}
	fell := answer.Header.Revision < high
	if s.saw(answer.Header.Revision); fell || s.lines.doubtful() {
		if f, err = s.prove(ctx, f); err != nil {
			return nil, err
		}
	}
	if fell {
		s.fell(answer.Header.Revision)
	}
	s.learn(f)
	return f, nil
}

// first asks for the first page of a range, or for the last records of it.
func (s *Store) first(r driver.Range, f *format) clientv3.Op {
	return clientv3.OpGet(s.keys.record(r.From()), pageOf(r, f, s.keys.end(r.Prefix), 0)...)
}

// pageOf asks for the next page of a range after n records. The sign of the last
// record comes after it, so it asks for one more. A commit writes a record and its
// sign together, so both are new or neither is.
func pageOf(r driver.Range, f *format, end string, n int) []clientv3.OpOption {
	opts := []clientv3.OpOption{clientv3.WithRange(end)}
	if r.Since > 0 && r.Limit == 0 {
		mod, _ := f.modOf(r.Since)
		opts = append(opts, clientv3.WithMinModRev(mod+1))
	}
	switch {
	case r.Limit < 0:
		opts = append(opts, clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
		return append(opts, clientv3.WithLimit(int64(-r.Limit-n)))
	case r.Limit > 0:
		return append(opts, clientv3.WithLimit(int64(min(page, r.Limit-n+1))))
	}
	return append(opts, clientv3.WithLimit(page))
}

// rest is the whole range, given its first page.
func (s *Store) rest(ctx context.Context, r driver.Range, f *format, first *pb.RangeResponse, at int64) ([]kept, error) {
	kvs, more, n := first.Kvs, first.More, records(first.Kvs)
	from, end := s.keys.record(r.From()), s.keys.end(r.Prefix)
	for more && !enough(r, n, kvs) {
		if last := string(kvs[len(kvs)-1].Key); r.Limit < 0 {
			end = last
		} else {
			from = last + "\x00"
		}
		resp, err := s.next(ctx, from, append(pageOf(r, f, end, n), clientv3.WithRev(at)))
		if err != nil {
			return nil, err
		}
		kvs, more, n = append(kvs, resp.Kvs...), resp.More, n+records(resp.Kvs)
	}
	if r.Limit < 0 {
		slices.Reverse(kvs)
	}
	all := join(kvs)
	if r.Limit > 0 {
		all = all[:min(len(all), r.Limit)]
	}
	return all, nil
}

// enough reports whether the n records that were read, with their signs, are all
// that a range asks for. The sign of a record comes after it, or before it if the
// last records are asked for.
func enough(r driver.Range, n int, kvs []*mvccpb.KeyValue) bool {
	if r.Limit <= 0 {
		return r.Limit < 0 && n >= -r.Limit
	}
	return n > r.Limit || n == r.Limit && isSign(kvs[len(kvs)-1])
}

// records counts the keys that are not signs.
func records(kvs []*mvccpb.KeyValue) (n int) {
	for _, kv := range kvs {
		if !isSign(kv) {
			n++
		}
	}
	return n
}

func (s *Store) next(ctx context.Context, from string, opts []clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	resp, err := s.client.Get(ctx, from, opts...)
	return resp, s.failed("read", err)
}

// maxOps is etcd's limit for a Txn, --max-txn-ops: conditions or operations,
// whichever are more; a nested Txn has what the outer one leaves.
const maxOps = 128

// nest packs operations into as few as etcd takes beside these conditions: as
// they are, or in two levels of Txn within the Txn, which all happen at once.
func nest(ops []clientv3.Op, conditions int) []clientv3.Op {
	if len(ops) <= maxOps {
		return ops
	}
	top := max(conditions, maxOps/3)
	leaf := (maxOps - top) / 2
	return txns(txns(ops, leaf), maxOps-top-leaf)
}

// txns makes one Txn without conditions of each n operations.
func txns(ops []clientv3.Op, n int) (packed []clientv3.Op) {
	for chunk := range slices.Chunk(ops, n) {
		packed = append(packed, clientv3.OpTxn(nil, chunk, nil))
	}
	return packed
}

// flatten undoes nest in the answers to reads.
func flatten(parts []*pb.RangeResponse, responses []*pb.ResponseOp) []*pb.RangeResponse {
	for _, r := range responses {
		if inner := r.GetResponseTxn(); inner != nil {
			parts = flatten(parts, inner.Responses)
			continue
		}
		parts = append(parts, r.GetResponseRange())
	}
	return parts
}
