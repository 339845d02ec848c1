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

// A Report is what [Inspect] found.
type Report struct {
	Endpoints []string
	Prefix    string
	Versions  []string // of the members that answered
	Records   int64
	Revision  int64 // ours
	Bytes     int64 // of the largest member's database
	InUse     int64 // of those
	Problems  []string
	Warnings  []Warning
}

// A Warning is about something that works now and will fail later.
type Warning struct{ Text, Remedy string }

// Facts is the report in one line.
func (r Report) Facts() string {
	return fmt.Sprintf("etcd %s, prefix %s, revision %d, %d records, database %d MB of which %d MB in use",
		strings.Join(r.Versions, " "), r.Prefix, r.Revision, r.Records, r.Bytes>>20, r.InUse>>20)
}

// Inspect examines a store and its servers for a person who wants to know what is
// wrong. It changes nothing. The report lists damage key by key; an error means
// that there was nothing to examine.
func Inspect(ctx context.Context, url string) (Report, error) {
	s, err := Open(ctx, url, nil)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = s.Close() }()
	r := Report{Endpoints: s.members, Prefix: string(s.keys)}
	if err := s.examine(ctx, &r); err != nil {
		return r, err
	}
	r.members(ctx, s.client)
	r.history(ctx, s.client)
	return r, nil
}

// examine reads every record.
func (s *Store) examine(ctx context.Context, r *Report) error {
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
		r.Records += int64(len(records))
		if !resp.More {
			r.Revision = s.known().rev(at)
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
func (r *Report) members(ctx context.Context, client *clientv3.Client) {
	for _, endpoint := range r.Endpoints {
		ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
		st, err := client.Status(ctx, endpoint)
		cancel()
		if err != nil {
			r.warn("etcdctl endpoint health", "%s does not answer", endpoint)
			continue
		}
		r.Versions = append(r.Versions, st.Version)
		if st.DbSize > r.Bytes {
			r.Bytes, r.InUse = st.DbSize, st.DbSizeInUse
		}
		if older(st.Version, soundLeases) {
			r.warn("etcd --version", "%s runs etcd %s: before %d.%d.%d a leader that stood still for a while could end leases too early", endpoint, st.Version, soundLeases[0], soundLeases[1], soundLeases[2])
		}
		for _, e := range st.Errors {
			r.warn("etcdctl alarm list", "%s reports: %s", endpoint, e)
		}
		if st.DbSizeQuota > 0 && float64(st.DbSize) > nearlyFull*float64(st.DbSizeQuota) {
			r.warn("etcdctl defrag", "the database of %s has %d of at most %d MB: compact and defragment it", endpoint, st.DbSize>>20, st.DbSizeQuota>>20)
		}
	}
	alarms(ctx, client, r)
}

func alarms(ctx context.Context, client *clientv3.Client, r *Report) {
	list, err := client.AlarmList(ctx)
	if err != nil {
		return // a role without that right
	}
	for _, a := range list.Alarms {
		switch a.Alarm {
		case pb.AlarmType_CORRUPT:
			r.Problems = append(r.Problems, fmt.Sprintf("etcd reports that the data of member %x is corrupt", a.MemberID))
		case pb.AlarmType_NOSPACE:
			r.warn("etcdctl defrag", "member %x is out of space: nothing can be written until it is compacted, defragmented, and the alarm disarmed", a.MemberID)
		}
	}
}

// longHistory is how many revisions a young cluster may have without compaction.
const longHistory = 10_000

// history finds out whether old versions are ever dropped. etcd does not show its
// configuration; but if after many revisions the first can still be read, nobody
// has compacted it yet.
func (r *Report) history(ctx context.Context, client *clientv3.Client) {
	resp, err := client.Get(ctx, r.Prefix, clientv3.WithKeysOnly())
	if err != nil || resp.Header.Revision < longHistory {
		return
	}
	_, err = client.Get(ctx, r.Prefix, clientv3.WithKeysOnly(), clientv3.WithRev(1))
	if err == nil || !errors.Is(err, rpctypes.ErrCompacted) {
		r.warn("etcdctl compact "+fmt.Sprint(resp.Header.Revision-longHistory/10),
			"all %d revisions are still kept: etcd was never compacted and will fill up; start it with --auto-compaction-mode=periodic --auto-compaction-retention=1h", resp.Header.Revision)
	}
}

func (r *Report) warn(remedy, format string, args ...any) {
	r.Warnings = append(r.Warnings, Warning{Text: fmt.Sprintf(format, args...), Remedy: remedy})
}
