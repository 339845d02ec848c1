package task

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// The index ready/ lists the tasks that a worker may take. It has two parts for each
// section. A pending task stands at its rank. A task in progress stands apart, behind
// all of these, at the time before which its claim cannot expire: so [Next] finds the
// first free task, and the claims that may have expired, without a look at the others.
//
// The index is a hint: the task and its lock decide. Two rules keep it complete:
//
//   - A claim moves the entry. It also asks the lease to put the entry at the rank
//     back when the lock ends by another way than a verb of this package.
//   - Whoever finds an entry in a place where the task does not belong writes what it
//     should be. That is how it recovers from an older tasklock, which leaves tasks in
//     progress at their rank and knows no other place.

// apart begins the entries of tasks in progress. It sorts behind every rank.
const apart = "~"

// entryTime is a time in the key of an entry; the order of the text is that of time.
const entryTime = "20060102T150405.000000000Z"

// endless is the due time of a claim that never expires.
var endless = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

type indexRecord struct {
	ID    string `json:"id"`
	Lease string `json:"lease,omitempty"` // of the claim
}

// indexed is what an entry says about a task.
func (t Task) indexed(key string) indexRecord {
	if isApart(key) {
		return indexRecord{ID: t.ID, Lease: t.ClaimLease}
	}
	return indexRecord{ID: t.ID}
}

// ready reports whether a worker could take the task if nobody holds it. That may be
// so for a task in progress: if its holder dies, no commit says so.
func (t Task) ready() bool {
	return (t.Status == Pending || t.Status == InProgress) && len(t.WaitsFor) == 0
}

// noSection is the index section of tasks without one; no section's name begins so.
const noSection = "-"

// rank is the place of a task in the order of [Next] within its section.
func (t Task) rank() string {
	return fmt.Sprintf("%03d-%s-%s", t.Priority, t.CreatedAt.UTC().Format(entryTime), t.ID)
}

func (t Task) rankKey() string { return readyKind + sectionPrefix(t.Section) + t.rank() }

// readyKey is the task's entry in ready/, or empty. A claim of an older tasklock has
// no due time.
func (t Task) readyKey() string {
	switch {
	case !t.ready():
		return ""
	case t.Status == InProgress && t.ClaimDue != nil:
		return fmt.Sprintf("%s%s%s%s-%s", readyKind, sectionPrefix(t.Section), apart, t.ClaimDue.UTC().Format(entryTime), t.ID)
	}
	return t.rankKey()
}

func (t Task) openKey() string {
	if t.Section == "" || !t.Status.Open() {
		return ""
	}
	return openKind + sectionPrefix(t.Section) + t.ID
}

// place is what an entry's key says after the section: the rank of a task or, behind
// [apart], the due time of its claim.
func place(key string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(key, readyKind), "/")
	return rest
}

// priority and taskAt are what the key of an entry says about the task at that rank.
func priority(key string) int {
	digits, _, _ := strings.Cut(place(key), "-")
	n, _ := strconv.Atoi(digits)
	return n
}

func taskAt(key string) (id string) {
	_, rest, _ := strings.Cut(place(key), "-")
	_, id, _ = strings.Cut(rest, "-")
	return id
}

// isApart reports whether an entry is that of a task in progress, and isDue whether
// its claim may have expired by now.
func isApart(key string) bool {
	return strings.HasPrefix(key, readyKind) && strings.HasPrefix(place(key), apart)
}

func isDue(key string, now time.Time) bool { return place(key) <= apart+now.UTC().Format(entryTime) }

// sameClaim reports whether the task was claimed before and goes on so.
func (t Task) sameClaim(before Task) bool {
	return t.Status == InProgress && before.Status == InProgress && t.ClaimLease == before.ClaimLease
}

// trace is a second entry that a task in progress may have, at its rank: the end of
// its lock puts it back.
func (t Task) trace() string {
	if t.Status != InProgress {
		return ""
	}
	return t.rankKey()
}

// traceUnder is trace if the task is under that lock: while the lease still has to put
// the entry back, there is none.
func (t Task) traceUnder(lk *lease.Info) string {
	if lk != nil && lk.LeaseID == t.ClaimLease && lk.PutsBack == t.rankKey() {
		return ""
	}
	return t.trace()
}

// reindex moves a task from its old index entries to its new ones, and drops its
// trace. It does not write an entry that stays, which would wake waiters for a ready
// task.
func reindex(tx *store.Tx, before, after Task, trace string) error {
	had := []string{before.readyKey(), before.openKey()}
	want := []string{after.readyKey(), after.openKey()}
	if after.sameClaim(before) {
		if moved := after.rankKey(); moved == before.rankKey() {
			trace = ""
		} else if after.ready() {
			want = append(want, moved)
		}
	}
	for _, key := range append(slices.Clip(had), trace) {
		if key != "" && !slices.Contains(want, key) {
			tx.Delete(key)
		}
	}
	for _, key := range want {
		if key == "" || slices.Contains(had, key) {
			continue
		}
		if err := tx.Put(key, after.indexed(key)); err != nil {
			return err
		}
	}
	return nil
}

// claimedUntil is the due time of a claim under a lock.
func claimedUntil(lk *lease.Info) *time.Time {
	due := endless
	if !lk.ExpiresAt.IsZero() {
		due = lk.ExpiresAt.UTC()
	}
	return &due
}

// sectionPrefix is the part of an index that belongs to a section. A slash in its
// name would make it part of another section's, so another character, which no
// name has, replaces it.
func sectionPrefix(section string) string {
	if section == "" {
		section = noSection
	}
	return strings.ReplaceAll(section, "/", "\x1f") + "/"
}
