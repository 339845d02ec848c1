package etcdstore

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/tasklock/tasklock/store/driver"
)

// connect makes a client of one member. It asks the server only for a token, if
// there is a user name.
func connect(ctx context.Context, place Place, member int, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Store{
		members: place.Endpoints, current: member, where: place.hostList(), user: place.User, keys: keyspace(place.Prefix),
		poll: o.Poll, timeout: o.Timeout, leases: newPool(), life: driver.NewLife(),
	}
	if s.poll == 0 {
		s.poll = DefaultPoll
	}
	if s.timeout == 0 {
		s.timeout = DefaultTimeout
	}
	tls, err := place.tls()
	if err != nil {
		return nil, err
	}
	s.client, err = clientv3.New(clientv3.Config{
		Endpoints: place.Endpoints[member : member+1], TLS: tls, Username: place.User, Password: place.password,
		DialTimeout: s.timeout, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: s.timeout,
		MaxUnaryRetries: 2, // once more with a new token; package store decides other repetitions
		DialOptions:     []grpc.DialOption{grpc.WithConnectParams(s.reconnect()), grpc.WithChainUnaryInterceptor(s.roam), grpc.WithStatsHandler(&s.lines)},
		Logger:          zap.NewNop(),
		Context:         context.WithoutCancel(ctx),
	})
	if err != nil {
		return nil, s.failed("connect", err)
	}
	return s, nil
}

// reconnect is how soon an unreachable server is tried again. The default of two
// minutes is longer than most leases.
func (s *Store) reconnect() grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
		MinConnectTimeout: s.timeout,
	}
}

// roam carries out a request at our member, and goes to the next one after a
// failed request. The client itself would ask all members in turn: a member that
// stands still would then hold up every third request of everybody. It would
// also let a request wait for a connection, and not say why there is none.
func (s *Store) roam(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	s.mu.Lock()
	member := s.current
	s.mu.Unlock()
	err := next(ctx, method, req, reply, conn, append(opts, grpc.WaitForReady(false))...)
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		s.leave(member)
	}
	return err
}

// leave goes from that member to the next, unless another request already has.
func (s *Store) leave(member int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != member || s.client == nil { // nil: still connecting
		return
	}
	s.current = (member + 1) % len(s.members)
	s.client.SetEndpoints(s.members[s.current])
}

// lines counts connections. A new connection may lead to a cluster that was
// restored from a backup meanwhile: the client reconnects silently, and requests
// just go on.
type lines struct {
	made   atomic.Int64
	proven atomic.Int64 // how many there were when the cluster was last looked at
}

// doubtful reports whether there was a new connection since.
func (l *lines) doubtful() bool { return l.made.Load() != l.proven.Load() }

// HandleConn implements stats.Handler. It is called before the connection is used.
func (l *lines) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		l.made.Add(1)
	}
}

// TagConn implements stats.Handler.
func (l *lines) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// TagRPC implements stats.Handler.
func (l *lines) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (l *lines) HandleRPC(context.Context, stats.RPCStats) {}
