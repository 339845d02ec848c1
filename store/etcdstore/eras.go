package etcdstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	mvccpb "go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tasklock/tasklock/store/driver"
)

const formatVersion = 1

// format is one key: the version, and how our revisions follow from etcd's.
// Every commit requires that it has not changed.
//
// An era begins with the commit that wrote it, and from there on our revision is
// etcd's plus its base. A new one begins when Floor asks for more than that.
// Bases only grow, so our revisions never go back.
//
// If the cluster is another than before, somebody restored a backup or copied the
// keys, and etcd's revisions may have gone back. Then all records get a new base,
// old ones too: other clusters may go on with the same records, and a lock held
// in one must not count in another.
//
// The id of a cluster follows from its addresses and a name, so a cluster that
// was restored in place has the same. Its log shows it: the log begins again, and
// the revision does not. In one life of a cluster the log never loses its lead,
// because every revision takes an entry of it.
type format struct {
	Version int    `json:"format"`
	Cluster string `json:"cluster"`        // etcd's id of it
	Lead    int64  `json:"lead,omitempty"` // of its log over its revisions, at least
	Eras    []era  `json:"eras"`

	mod   int64  // etcd's revision of this key: there the last era begins
	value string // as it stands in etcd
}

type era struct {
	From int64 `json:"from,omitempty"` // etcd's revision; of the last one, that of the key itself
	Base int64 `json:"base"`
}

func (f *format) last() era { return f.Eras[len(f.Eras)-1] }

// life is a different number for each life of the records, see [Store.anew].
func (f *format) life() int64 {
	if len(f.Eras) > 1 && f.Eras[1].From == 1 {
		return f.Eras[1].Base
	}
	return 0
}

// unchanged is the condition that the format is still this one. Its revision is
// not enough: in two lives of one snapshot two formats may have the same.
func (f *format) unchanged(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.Value(key), "=", f.value)
}

// rev is our revision for one of etcd's.
func (f *format) rev(mod int64) int64 {
	for i := len(f.Eras) - 1; i > 0; i-- {
		if mod >= f.Eras[i].From {
			return mod + f.Eras[i].Base
		}
	}
	return mod + f.Eras[0].Base
}

// modOf is etcd's revision for one of ours or, if no commit can have it, the
// one before; whole says which.
func (f *format) modOf(rev int64) (mod int64, whole bool) {
	i := len(f.Eras) - 1
	for i > 0 && rev < f.Eras[i].From+f.Eras[i].Base {
		i--
	}
	mod = rev - f.Eras[i].Base
	if i+1 < len(f.Eras) && mod >= f.Eras[i+1].From {
		return f.Eras[i+1].From - 1, false
	}
	return mod, true
}

// raised is the format with a new era, to be written by a commit that will have
// at least etcd's revision next.
func (f *format) raised(base int64) *format {
	r := &format{Version: f.Version, Cluster: f.Cluster, Lead: f.Lead}
	r.Eras = append(append(r.Eras, f.Eras...), era{Base: base})
	return r
}

func (f *format) encode() string {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // numbers and a word
	}
	return string(b)
}

// written is the format after its commit.
func (f *format) written(mod int64) *format {
	w := *f
	w.value = cmp.Or(f.value, f.encode())
	w.Eras = append([]era(nil), f.Eras...)
	if w.mod = mod; len(w.Eras) > 1 {
		w.Eras[len(w.Eras)-1].From = mod
	}
	return &w
}

// parseFormat reads the key, or says that it is missing.
func parseFormat(key string, kvs []*mvccpb.KeyValue) (*format, error) {
	if len(kvs) == 0 {
		return nil, fmt.Errorf("%w: etcd has no key %q", driver.ErrMissing, key)
	}
	f := &format{value: string(kvs[0].Value)}
	err := json.Unmarshal(kvs[0].Value, f)
	switch {
	case err == nil && f.Version > formatVersion:
		return nil, driver.Newer(fmt.Sprintf("etcd key %q", key), f.Version, formatVersion)
	case err != nil || f.Version < 1 || len(f.Eras) == 0:
		return nil, fmt.Errorf("%w: etcd key %q is not as tasklock writes it", driver.ErrDamaged, key)
	}
	return f.written(kvs[0].ModRevision), nil
}

// load asks for the format. Records without one are damage: someone deleted it,
// and the revisions with it.
func (s *Store) load(ctx context.Context) (*format, error) {
	resp, err := s.client.Txn(ctx).Then(
		clientv3.OpGet(s.keys.format()),
		clientv3.OpGet(s.keys.record(""), clientv3.WithRange(s.keys.end("")), clientv3.WithLimit(1), clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		return nil, s.failed("read", err)
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if records := resp.Responses[1].GetResponseRange().Kvs; len(kvs) == 0 && len(records) > 0 {
		return nil, fmt.Errorf("%w: etcd has records below %q and no key %q", driver.ErrDamaged, string(s.keys), s.keys.format())
	}
	f, err := parseFormat(s.keys.format(), kvs)
	if err != nil {
		return nil, err
	}
	return s.here(ctx, f, cluster(resp.Header.ClusterId))
}

// cluster is etcd's id of a cluster as etcdctl prints it; empty if a proxy hides it.
func cluster(id uint64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(id, 16)
}

// create makes the store, or finds that someone else just has.
func (s *Store) create(ctx context.Context) (*format, error) {
	status, err := s.client.Get(ctx, s.keys.format())
	if err != nil {
		return nil, s.failed("read", err)
	}
	f := &format{Version: formatVersion, Cluster: cluster(status.Header.ClusterId), Lead: s.leastLead(ctx), Eras: []era{{}}}
	_, err = s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.keys.format()), "=", 0)).
		Then(clientv3.OpPut(s.keys.format(), f.encode())).
		Commit()
	if err != nil {
		return nil, s.failed("create", err)
	}
	return s.load(ctx)
}

// here begins a new era if the cluster is not the store's.
func (s *Store) here(ctx context.Context, f *format, now string) (*format, error) {
	if now == "" || now == f.Cluster {
		return f, nil
	}
	return s.anew(ctx, f, now)
}

// sound begins a new era if the log of the cluster has lost its lead. Without an
// answer it changes nothing.
func (s *Store) sound(ctx context.Context, f *format, st *pb.StatusResponse) (*format, error) {
	if st == nil || lead(st, st)+leadSlack >= f.Lead {
		return f, nil
	}
	// A member that has just started may not have gone through its log yet; one
	// that has answered a read since has.
	for {
		read, err := s.client.Get(ctx, s.keys.format())
		if err == nil {
			st, err = s.status(ctx)
		}
		switch {
		case err != nil:
			return nil, s.failed("read", err)
		case read.Header.MemberId != st.Header.MemberId: // we have changed members
		case lead(st, st)+leadSlack >= f.Lead:
			return f, nil
		default:
			return s.anew(ctx, f, f.Cluster)
		}
	}
}

// prove checks that the cluster is still the same. It trusts one that answers
// reads and gives no status, as a proxy may.
func (s *Store) prove(ctx context.Context, f *format) (*format, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	made := s.lines.made.Load()
	st, err := s.status(ctx)
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return nil, s.failed("read", err)
	}
	if f, err = s.sound(ctx, f, st); err == nil {
		s.lines.proven.Store(made)
	}
	return f, err
}

// proven is the format for the next commit: what we know, or after a new
// connection what the cluster at its other end has.
func (s *Store) proven(ctx context.Context) (*format, error) {
	if !s.lines.doubtful() {
		return s.known(), nil
	}
	f, err := s.load(ctx)
	if err == nil {
		f, err = s.prove(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	s.learn(f)
	return f, nil
}

// anew puts every revision above all that were ever given out.
func (s *Store) anew(ctx context.Context, f *format, cluster string) (*format, error) {
	base := driver.Lift(f.last().Base)
	next := &format{Version: f.Version, Cluster: cluster, Lead: s.leastLead(ctx)}
	next.Eras = []era{{}, {From: 1, Base: base}, {Base: base}} // 0 stays 0: an absent record
	_, err := s.client.Txn(ctx).
		If(f.unchanged(s.keys.format())).
		Then(clientv3.OpPut(s.keys.format(), next.encode())).
		Commit()
	if err != nil {
		return nil, s.failed("begin a new era", err)
	}
	return s.load(ctx)
}

// leadSlack is how many entries of the log may count on one side only while a
// member works.
const leadSlack = 8

func (s *Store) status(ctx context.Context) (*pb.StatusResponse, error) {
	return pb.NewMaintenanceClient(s.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
}

// lead is how far the log at one look is ahead of the revision at another.
func lead(log, revision *pb.StatusResponse) int64 {
	return int64(log.RaftAppliedIndex) - revision.Header.Revision
}

// leastLead is the lead of the log, or a little less. If it is unknown, it is so
// small that nothing falls below it.
func (s *Store) leastLead(ctx context.Context) int64 {
	log, err := s.status(ctx)
	if err != nil {
		return math.MinInt64 / 2
	}
	revision, err := s.status(ctx)
	if err != nil {
		return math.MinInt64 / 2
	}
	return lead(log, revision) - leadSlack
}
