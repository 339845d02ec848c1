package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/store/driver"
)

// Inspect examines a store and its servers for a person who wants to know what is
// wrong. It changes nothing. The report lists damage key by key; an error means
// that there was nothing to examine.
func Inspect(ctx context.Context, url string) (driver.Report, error) {
	s, err := Open(ctx, url, nil)
	if err != nil {
		return driver.Report{}, err
	}
	defer func() { _ = s.Close() }()
	var r inspection
	if err := s.examine(ctx, &r); err != nil {
		return r.Report, err
	}
	r.members(ctx, s)
	r.history(ctx, s)
	r.Facts = fmt.Sprintf("etcd %s, prefix %s, revision %d, %d records, database %d MB of which %d MB in use",
		strings.Join(r.versions, " "), s.keys, r.revision, r.records, r.size>>20, r.inUse>>20)
	return r.Report, nil
}

// An inspection collects what the facts of the report name.
type inspection struct {
	driver.Report
	versions          []string // of the members that answered
	records, revision int64
	size, inUse       int64 // of the largest member's database
}

// examine reads every record.
func (s *Store) examine(ctx context.Context, r *inspection) error {
	from, end, at := s.keys.record(""), s.keys.end(""), int64(0)
	for {
		resp, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(at))
		if err != nil {
			return s.failed("read", err)
		}
		at = resp.Header.Revision
		records := join(resp.Kvs)
		for _, k := range records {
			rec, err := s.decode(k, s.known(), time.Now())
			if err == nil {
				err = driver.CheckKey(rec.Key)
			}
			if err != nil {
				r.Problems = append(r.Problems, err.Error())
			}
		}
		r.records += int64(len(records))
		if !resp.More {
			r.revision = s.known().rev(at)
			return nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// nearlyFull is the part of its quota at which a database deserves a warning:
// beyond the quota etcd refuses writes.
const nearlyFull = 0.8

// soundLeases is the first version in which a leader checks that it still is one
// before it ends a lease (etcd's issue 15247).
var soundLeases = [3]int{3, 5, 13}

func older(version string, than [3]int) bool {
	var v [3]int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]); n < 3 {
		return false
	}
	return slices.Compare(v[:], than[:]) < 0
}

// members asks each member for its status.
func (r *inspection) members(ctx context.Context, s *Store) {
	for _, endpoint := range s.members {
		ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
		st, err := s.client.Status(ctx, endpoint)
		cancel()
		if err != nil {
			r.Warn("etcdctl endpoint health", "%s does not answer", endpoint)
			continue
		}
		r.versions = append(r.versions, st.Version)
		if st.DbSize > r.size {
			r.size, r.inUse = st.DbSize, st.DbSizeInUse
		}
		if older(st.Version, soundLeases) {
			r.Warn("etcd --version", "%s runs etcd %s: before %d.%d.%d a leader that stood still for a while could end leases too early", endpoint, st.Version, soundLeases[0], soundLeases[1], soundLeases[2])
		}
		for _, e := range st.Errors {
			r.Warn("etcdctl alarm list", "%s reports: %s", endpoint, e)
		}
		if st.DbSizeQuota > 0 && float64(st.DbSize) > nearlyFull*float64(st.DbSizeQuota) {
			r.Warn("etcdctl defrag", "the database of %s has %d of at most %d MB: compact and defragment it", endpoint, st.DbSize>>20, st.DbSizeQuota>>20)
		}
	}
	alarms(ctx, s.client, r)
}

func alarms(ctx context.Context, client *clientv3.Client, r *inspection) {
	list, err := client.AlarmList(ctx)
	if err != nil {
		return // a role without that right
	}
	for _, a := range list.Alarms {
		switch a.Alarm {
		case pb.AlarmType_CORRUPT:
			r.Problems = append(r.Problems, fmt.Sprintf("etcd reports that the data of member %x is corrupt", a.MemberID))
		case pb.AlarmType_NOSPACE:
			r.Warn("etcdctl defrag", "member %x is out of space: nothing can be written until it is compacted, defragmented, and the alarm disarmed", a.MemberID)
		}
	}
}

// longHistory is how many revisions a young cluster may have without compaction.
const longHistory = 10_000

// history finds out whether old versions are ever dropped. etcd does not show its
// configuration; but if after many revisions the first can still be read, nobody
// has compacted it yet.
func (r *inspection) history(ctx context.Context, s *Store) {
	resp, err := s.client.Get(ctx, string(s.keys), clientv3.WithKeysOnly())
	if err != nil || resp.Header.Revision < longHistory {
		return
	}
	_, err = s.client.Get(ctx, string(s.keys), clientv3.WithKeysOnly(), clientv3.WithRev(1))
	if err == nil || !errors.Is(err, rpctypes.ErrCompacted) {
		r.Warn("etcdctl compact "+fmt.Sprint(resp.Header.Revision-longHistory/10),
			"all %d revisions are still kept: etcd was never compacted and will fill up; start it with --auto-compaction-mode=periodic --auto-compaction-retention=1h", resp.Header.Revision)
	}
}
