// Package etcdtest runs real etcd servers for tests: one member, or several that
// tests kill, pause and start again. The server is built from its own module,
// once, into the user's cache folder. No server outlives the process that
// started it.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tasklock/tasklock/internal/proxy"
)

// startTime is how long servers may take to be ready; a busy machine is slow.
const startTime = time.Minute

// A Cluster is a number of members that know each other.
type Cluster struct {
	Members []*Member

	dir    string
	binary string
	flags  []string
	root   string // who may do everything, with that password; empty: everybody may
}

// A Member is one server.
type Member struct {
	Addr string // where clients connect, as host:port

	name, peer string
	cmd        *exec.Cmd
	paused     bool
}

// Start runs a cluster of n members until the test ends.
func Start(t testing.TB, n int, flags ...string) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "tasklock-etcd-") // not t.TempDir: its path may be long, and must go after the servers
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(dir, n, flags...)
	t.Cleanup(func() {
		if c != nil {
			if t.Failed() {
				t.Log(c.log())
			}
			c.Stop()
		}
		_ = os.RemoveAll(dir)
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// New runs a cluster of n members below dir, with further flags of etcd.
func New(dir string, n int, flags ...string) (*Cluster, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, binary: binary, flags: flags}
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	for i := range n {
		c.Members = append(c.Members, &Member{name: fmt.Sprintf("m%d", i), Addr: ports[2*i], peer: ports[2*i+1]})
	}
	for i := range n {
		if err := c.Run(i); err != nil {
			return c, err
		}
	}
	return c, c.Ready()
}

// Run starts a member, for the first time or again.
func (c *Cluster) Run(i int) error {
	m := c.Members[i]
	var peers []string
	for _, other := range c.Members {
		peers = append(peers, other.name+"=http://"+other.peer)
	}
	log, err := os.OpenFile(filepath.Join(c.dir, m.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := []string{
		"--name", m.name, "--data-dir", filepath.Join(c.dir, m.name), "--log-level", "warn",
		"--listen-client-urls", "http://" + m.Addr, "--advertise-client-urls", "http://" + m.Addr,
		"--listen-peer-urls", "http://" + m.peer, "--initial-advertise-peer-urls", "http://" + m.peer,
		"--initial-cluster", strings.Join(peers, ","), "--initial-cluster-state", "new",
	}
	cmd := exec.Command(c.binary, append(args, c.flags...)...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	m.cmd = cmd
	return nil
}

// Ready waits until the cluster has a leader and takes a write.
func (c *Cluster) Ready() error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	deadline := time.Now().Add(startTime)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := client.Put(ctx, "etcdtest", "ready")
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("etcd is not ready after %v: %w\n%s", startTime, err, c.log())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Client returns a client of the whole cluster.
func (c *Cluster) Client() (*clientv3.Client, error) {
	return c.client(c.Addrs()...)
}

func (c *Cluster) client(addrs ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addrs, Username: c.root, Password: c.root, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
}

// Addrs are the members' addresses.
func (c *Cluster) Addrs() (all []string) {
	for _, m := range c.Members {
		all = append(all, m.Addr)
	}
	return all
}

// URL is that of a store in the cluster.
func (c *Cluster) URL(prefix string) string {
	return "etcd://" + strings.Join(c.Addrs(), ",") + "/" + prefix
}

// Guard lets only those in who have a password, and makes a user who may do
// nothing but read and write below one prefix.
func (c *Cluster) Guard(prefix string) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	below := "/" + prefix + "/"
	for _, step := range []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "root"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.UserAdd(ctx, User, Password); return err },
		func() error { _, err := client.RoleAdd(ctx, "locks"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "locks", below, clientv3.GetPrefixRangeEnd(below), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserGrantRole(ctx, User, "locks"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	c.root = "root"
	return nil
}

// User is who may use the prefix of a guarded cluster.
const (
	User     = "worker"
	Password = "s3cret"
)

// URLAs is the URL of a store for a user.
func (c *Cluster) URLAs(user, password, prefix string) string {
	return strings.Replace(c.URL(prefix), "etcd://", "etcd://"+user+":"+password+"@", 1)
}

// Leader returns the index of the member that leads.
func (c *Cluster) Leader() (int, error) {
	deadline := time.Now().Add(startTime)
	for time.Now().Before(deadline) {
		for i, m := range c.Members {
			if m.cmd != nil && !m.paused && c.leads(m.Addr) {
				return i, nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return -1, errors.New("no member leads")
}

// leads asks one member.
func (c *Cluster) leads(addr string) bool {
	client, err := c.client(addr)
	if err != nil {
		return false
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := client.Status(ctx, addr)
	return err == nil && s.Leader != 0 && s.Leader == s.Header.MemberId
}

// Kill ends a member at once, and waits until it is gone.
func (c *Cluster) Kill(i int) {
	m := c.Members[i]
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
	m.cmd, m.paused = nil, false
}

// Pause stops a member without closing anything; Resume lets it go on.
func (c *Cluster) Pause(i int) error {
	c.Members[i].paused = true
	return c.Members[i].cmd.Process.Signal(syscall.Signal(stopSignal))
}

// Resume lets a paused member go on.
func (c *Cluster) Resume(i int) error {
	c.Members[i].paused = false
	return c.Members[i].cmd.Process.Signal(syscall.Signal(contSignal))
}

// Snapshot saves what there is to a file, as "etcdctl snapshot save" does.
func (c *Cluster) Snapshot(path string) (err error) {
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	from, err := client.Snapshot(context.Background())
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// Restore puts a cluster of one member back to a snapshot, as "etcdutl snapshot
// restore" does: at the same addresses, in an empty folder.
func (c *Cluster) Restore(snapshot string) error {
	program, err := built("etcd-restore", "restore")
	if err != nil {
		return err
	}
	c.Kill(0)
	m := c.Members[0]
	folder := filepath.Join(c.dir, m.name)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if out, err := exec.Command(program, snapshot, folder, m.name, "http://"+m.peer).CombinedOutput(); err != nil {
		return fmt.Errorf("restore: %w: %s", err, out)
	}
	if err := c.Run(0); err != nil {
		return err
	}
	return c.Ready()
}

// Stop kills all members.
func (c *Cluster) Stop() {
	for i := range c.Members {
		c.Kill(i)
	}
}

// log is the end of what the members had to say.
func (c *Cluster) log() string {
	var all strings.Builder
	for _, m := range c.Members {
		f, err := os.Open(filepath.Join(c.dir, m.name+".log"))
		if err != nil {
			continue
		}
		if size, _ := f.Seek(0, io.SeekEnd); size > 4000 {
			_, _ = f.Seek(-4000, io.SeekEnd)
		} else {
			_, _ = f.Seek(0, io.SeekStart)
		}
		b, _ := io.ReadAll(f)
		_ = f.Close()
		fmt.Fprintf(&all, "%s: %s\n", m.name, b)
	}
	return all.String()
}

// freePorts finds n addresses on which nobody listens.
func freePorts(n int) (addrs []string, err error) {
	for range n {
		port, err := proxy.Port()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return addrs, nil
}
