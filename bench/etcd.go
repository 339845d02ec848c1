package main

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
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
	b.section("etcd, one member, fsync: pairs (acquire and release) a second, different keys")
	server, err := etcdtest.New(b.fresh("etcd"), 1)
	check(err)
	defer server.Stop()
	redisAddr, stop := b.redis()
	defer stop()
	for _, n := range []int{1, 16} {
		each := func(client func(i int) (pair func())) float64 { return b.clients(n, client) }
		with := fmt.Sprintf(", %d", n)

		b.note("Txn with a kept lease"+with, fmt.Sprintf("%.0f", each(func(i int) func() { return txnPair(etcdClient(server), i) })))
		b.note("Mutex with a kept session"+with, fmt.Sprintf("%.0f", each(func(i int) func() { return mutexPair(etcdClient(server), i, true) })))
		peer := each(func(i int) func() { return mutexPair(etcdClient(server), i, false) })
		b.note("Mutex with a session for each lock"+with, fmt.Sprintf("%.0f", peer))
		b.note("redislock, appendfsync always"+with, fmt.Sprintf("%.0f", each(func(i int) func() { return redisPair(redisAddr, i) })))
		ours := each(func(i int) func() {
			s, err := etcdstore.Open(ctx, server.URL("bench"), &etcdstore.Options{Create: true})
			check(err)
			st, key := store.New(s), fmt.Sprint("key", i)
			return func() { pair(st, key, key) }
		})
		b.row("lock: acquire and release, audited"+with, fmt.Sprintf("%.0f = %.2f of that session", ours, ours/peer), ">= 1.0 of it", ours >= peer)
	}
}

// clients makes n clients, and then pairs from all of them for a while.
func (b *bench) clients(n int, client func(i int) func()) float64 {
	var pairs []func()
	for i := range n {
		pairs = append(pairs, client(i))
		pairs[i]() // connected
	}
	var total atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for _, pair := range pairs {
		wg.Go(func() {
			for time.Since(start) < length {
				pair()
				total.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(total.Load()) / time.Since(start).Seconds()
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

func mutexPair(c *clientv3.Client, i int, kept bool) func() {
	session := func() *concurrency.Session {
		s, err := concurrency.NewSession(c, concurrency.WithTTL(300))
		check(err)
		return s
	}
	name := fmt.Sprint("mutex/", kept, "/", i)
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
