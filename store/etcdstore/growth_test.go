package etcdstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/internal/etcdtest"
	"github.com/tasklock/tasklock/store/driver"
)

// countedKV counts the keys in the answers of a server.
type countedKV struct {
	clientv3.KV
	keys *int
}

type countedTxn struct {
	clientv3.Txn
	keys *int
}

func (c countedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := c.KV.Get(ctx, key, opts...)
	if err == nil {
		*c.keys += len(resp.Kvs)
	}
	return resp, err
}

func (c countedKV) Txn(ctx context.Context) clientv3.Txn { return countedTxn{c.KV.Txn(ctx), c.keys} }

func (c countedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	return countedTxn{c.Txn.Then(ops...), c.keys}
}

func (c countedTxn) Commit() (*clientv3.TxnResponse, error) {
	resp, err := c.Txn.Commit()
	if err == nil {
		for _, part := range flatten([]*pb.RangeResponse{}, resp.Responses) {
			*c.keys += len(part.GetKvs())
		}
	}
	return resp, err
}

// A page takes as many keys of the server however many there are.
func TestKeysOfAPage(t *testing.T) {
	c := etcdtest.Start(t, 1, "--unsafe-no-fsync")
	const page = 50
	for _, n := range []int{1000, 6000} {
		s, err := Open(t.Context(), c.URL(fmt.Sprintf("growth%d", n)), &Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var b driver.Batch
		for i := range n {
			b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("lease/%06d", i), Value: []byte(`{}`), TTL: time.Hour})
		}
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		keys := 0
		s.client.KV = countedKV{s.client.KV, &keys}
		for _, limit := range []int{page, -page} {
			keys = 0
			snap, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "lease/", After: fmt.Sprintf("lease/%06d", n/2), Limit: limit}}})
			if err != nil || len(snap.Records) != page {
				t.Fatalf("%d records, %v", len(snap.Records), err)
			}
			if most := 3*page + 10; keys > most || keys < page { // each record has a sign
				t.Errorf("a page of %d among %d: the server sent %d keys, at most %d", limit, n, keys, most)
			}
		}
	}
}
