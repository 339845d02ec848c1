package etcdstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/internal/etcdtest"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/etcdstore"
)

func TestMain(m *testing.M) {
	drivertest.Main(m, func(place string) (driver.Store, error) {
		return etcdstore.Open(context.Background(), place, &etcdstore.Options{Create: true})
	})
}

// one starts a cluster of one member. What is written need not survive the loss
// of power here.
func one(t testing.TB, flags ...string) *etcdtest.Cluster {
	return etcdtest.Start(t, 1, append(flags, "--unsafe-no-fsync")...)
}

// three starts a cluster that can lose a member.
func three(t testing.TB) *etcdtest.Cluster { return etcdtest.Start(t, 3, "--unsafe-no-fsync") }

// newPrefix is one that nobody has used.
func newPrefix() string { return "t-" + strings.ToLower(rand.Text()[:12]) }

// openWith opens a store. A cluster that elects a leader on a busy machine may be
// slow to answer: that is not a failure, so openWith asks again for a minute.
func openWith(t testing.TB, url string, o etcdstore.Options) *etcdstore.Store {
	t.Helper()
	o.Create = true
	s, err := etcdstore.Open(t.Context(), url, &o)
	for end := time.Now().Add(time.Minute); err != nil && !driver.Refusal(err) && time.Now().Before(end); {
		s, err = etcdstore.Open(t.Context(), url, &o)
	}
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func open(t testing.TB, url string) *etcdstore.Store {
	t.Helper()
	return openWith(t, url, etcdstore.Options{})
}

// client talks to a cluster as any other program would.
func client(t testing.TB, c *etcdtest.Cluster) *clientv3.Client {
	t.Helper()
	cl, err := c.Client()
	must(t, err)
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(key string) driver.Write { return driver.Write{Key: key, Value: []byte(`{}`)} }

func get(t testing.TB, s driver.Store, key string) driver.Record {
	t.Helper()
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{key}})
	must(t, err)
	if len(snap.Records) == 0 {
		return driver.Record{}
	}
	return snap.Records[0]
}

// count is the counter, and what an increment leaves behind.
type count struct {
	N int `json:"n"`
}

// increment adds one to the counter, once for a nonce however often it is called.
// It goes on through every fault, for as long as the test lives.
func increment(ctx context.Context, st *store.Store, nonce string) error {
	for {
		_, err := st.Update(ctx, driver.Query{Keys: []string{"counter/a", "nonce/" + nonce}}, func(tx *store.Tx) error {
			done, err := store.Get[count](tx, "nonce/"+nonce)
			if err != nil || done.Exists() {
				return err
			}
			c, err := store.Get[count](tx, "counter/a")
			if err != nil {
				return err
			}
			c.Value.N++
			receipt := "event/" + rand.Text()
			tx.Receipt(receipt)
			return errors.Join(tx.Put("counter/a", c.Value), tx.Put("nonce/"+nonce, c.Value), tx.Put(receipt, c.Value))
		})
		if err == nil || driver.Refusal(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// counted requires that the counter is n.
func counted(t testing.TB, st *store.Store, n int) {
	t.Helper()
	err := st.View(t.Context(), driver.Query{}, func(tx *store.Tx) error {
		c, err := store.Get[count](tx, "counter/a")
		if err == nil && c.Value.N != n {
			t.Errorf("the counter is at %d after %d increments", c.Value.N, n)
		}
		return err
	})
	must(t, err)
}
