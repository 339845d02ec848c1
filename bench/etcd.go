package main

import (
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/tasklock/tasklock/internal/etcdtest"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/etcdstore"
)

// etcd compares pairs on one member, each client with a connection of its own.
func (b *bench) etcd() {
	server, err := etcdtest.New(b.fresh("etcd"), 1)
	check(err)
	defer server.Stop()
	redisAddr, stop := b.redis()
	defer stop()
	place := server.URL("bench")
	for _, n := range []int{1, 16} {
		b.section(fmt.Sprintf("etcd, one member, fsync, %d in one process: pairs, different keys", n))
		all := inTurns(
			clients("Txn with a kept lease", n, func(i int) func() { return txnPair(etcdClient(server), i) }),
			clients("Mutex with a kept session", n, func(i int) func() { return mutexPair(etcdClient(server), fmt.Sprint(i), true) }),
			clients("redislock, appendfsync always", n, func(i int) func() { return redisPair(redisAddr, i) }),
			clients("Mutex with a session for each lock", n, func(i int) func() { return mutexPair(etcdClient(server), fmt.Sprint(i), false) }),
			clients("acquire and release, audited", n, func(i int) func() {
				st, key := openEtcd(place), fmt.Sprint("key", i)
				return func() { pair(st, key, key) }
			}))
		b.beside(all[:4])
		b.atLeast(all[4], all[3], 1.3)
	}
	b.section("etcd, one member, fsync, 16 processes: pairs, different keys")
	theirs, end := workers("Mutex with a session for each lock", 16, "mutex", server.URL("mutex"))
	defer end()
	ours, end := workers("acquire and release, audited", 16, "etcd", place)
	defer end()
	all := inTurns(theirs, ours)
	b.beside(all[:1])
	b.atLeast(all[1], all[0], 1.3)
	b.section("etcd: a queue")
	d, err := etcdstore.Open(ctx, server.URL("joining"), &etcdstore.Options{Create: true})
	check(err)
	b.joining("etcd", d, 1000, 5*time.Second)
}

func openEtcd(place string) *store.Store {
	s, err := etcdstore.Open(ctx, place, &etcdstore.Options{Create: true})
	check(err)
	return store.New(s)
}

// clients is a way with n clients that are connected before they are measured.
func clients(name string, n int, client func(i int) func()) way {
	var pairs []func()
	for i := range n {
		pairs = append(pairs, client(i))
		pairs[i]()
	}
	return goroutines(name, n, func(i int) { pairs[i]() })
}

// etcdAt is a client of the server in the URL of a store.
func etcdAt(place string) *clientv3.Client {
	u, err := url.Parse(place)
	check(err)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{u.Host}})
	check(err)
	return c
}

func etcdClient(server *etcdtest.Cluster) *clientv3.Client {
	c, err := server.Client()
	check(err)
	return c
}

// txnPair is the least that a lock in etcd can cost.
func txnPair(c *clientv3.Client, i int) func() {
	lease, err := c.Grant(ctx, 600)
	check(err)
	key := fmt.Sprint("txn/", i)
	return func() {
		_, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, "me", clientv3.WithLease(lease.ID))).Commit()
		check(err)
		_, err = c.Delete(ctx, key)
		check(err)
	}
}

func mutexPair(c *clientv3.Client, name string, kept bool) func() {
	session := func() *concurrency.Session {
		s, err := concurrency.NewSession(c, concurrency.WithTTL(300))
		check(err)
		return s
	}
	name = fmt.Sprint("mutex/", kept, "/", name)
	lockWith := func(s *concurrency.Session) {
		m := concurrency.NewMutex(s, name)
		check(m.Lock(ctx))
		check(m.Unlock(ctx))
	}
	if kept {
		s := session()
		return func() { lockWith(s) }
	}
	return func() {
		s := session()
		lockWith(s)
		check(s.Close())
	}
}

// redis starts a server that loses nothing, as etcd does not.
func (b *bench) redis() (addr string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	addr = l.Addr().String()
	check(l.Close())
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", b.fresh("redis"),
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--logfile", filepath.Join(b.dir, "redis.log"))
	check(cmd.Start())
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = c.Close() }()
	for start := time.Now(); c.Ping(ctx).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			stop()
			check(fmt.Errorf("redis-server does not answer: %w", c.Ping(ctx).Err()))
		}
	}
	return addr, stop
}

func redisPair(addr string, i int) func() {
	locker := redislock.New(redis.NewClient(&redis.Options{Addr: addr}))
	key := fmt.Sprint("key", i)
	return func() {
		l, err := locker.Obtain(ctx, key, 5*time.Minute, nil)
		check(err)
		check(l.Release(ctx))
	}
}
