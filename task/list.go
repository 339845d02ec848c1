package task

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Info is a task with the state of its lock.
type Info struct {
	Task
	Token   int64 `json:"token,omitempty"` // of its claim
	Lock    *Lock `json:"lock,omitempty"`  // whoever holds it, claimed or not
	Ready   bool  `json:"ready"`
	Stalled bool  `json:"stalled,omitempty"` // in progress, but its holder is dead or silent
}

// newInfo returns the task with its status by the lock.
func newInfo(t Task, lk *lease.Info) Info {
	i := Info{Task: t, Lock: lk}
	i.Status = effective(t, lk)
	if t.Status == InProgress && i.Status == Pending {
		i.release()
	}
	held := lk.InForce()
	i.Ready = i.ready() && !held
	i.Stalled = i.Status == InProgress && !held
	if i.Status == InProgress {
		i.Token = lk.Token
	}
	return i
}

// ListRequest selects tasks.
type ListRequest struct {
	Status   []Status
	Section  string
	Label    string
	Owner    string // claimed by this owner or a child of it
	Ready    bool
	Caller   string // who asks: a section of another owner is not ready for it
	Stalled  bool
	Archived bool          // from the archive instead
	Older    time.Duration // in progress, and no heartbeat for this long
	After    string        // only ids above this text, in byte order
	Limit    int           // at most this many; 0: all
}

// ListResult holds tasks: by section order, priority and age, but with After or Limit
// in the byte order of their ids.
type ListResult struct {
	Tasks []Info `json:"tasks"`
	Next  string `json:"next,omitempty"` // if there may be more: the After of the next page
}

// List returns the tasks that match. It reads all in one view of the store. With After
// or Limit it reads only the page, and what it passes over: a task that is there while
// a caller reads page after page is on one of the pages.
func List(ctx context.Context, st *store.Store, r ListRequest) (ListResult, error) {
	if r.Section != "" {
		var err error
		if r.Section, err = checkSection(r.Section); err != nil {
			return ListResult{}, err
		}
	}
	if r.After != "" || r.Limit > 0 {
		return r.pages(ctx, st)
	}
	kind := r.recordKind()
	out := ListResult{Tasks: []Info{}}
	need := driver.Query{Ranges: []driver.Range{{Prefix: kind}, {Prefix: sectionKind}}}
	need.Ranges = append(need.Ranges, lease.Everything.Ranges...)
	err := st.View(ctx, need, func(tx *store.Tx) error {
		out.Tasks = out.Tasks[:0]
		locks, err := lease.Locks(tx)
		if err != nil {
			return err
		}
		rank, closed, err := r.ranks(tx, locks)
		if err != nil {
			return err
		}
		all, err := store.All[Task](tx, kind)
		if err != nil {
			return err
		}
		for _, e := range all {
			i := newInfo(e.Value, locks[e.Value.ID])
			i.Ready = i.Ready && !closed[i.Section] && !r.Archived
			if r.matches(i, tx.Now()) {
				out.Tasks = append(out.Tasks, i)
			}
		}
		slices.SortStableFunc(out.Tasks, func(a, b Info) int {
			return cmp.Or(cmp.Compare(rank[a.Section], rank[b.Section]), cmp.Compare(a.Section, b.Section),
				cmp.Compare(a.Priority, b.Priority), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
		})
		var shown []*Task
		for i := range out.Tasks {
			shown = append(shown, &out.Tasks[i].Task)
		}
		return withTexts(tx, shown...)
	})
	return out, err
}

// ranks returns the order of the sections, and which of them are skipped, wait for
// others, or are held by another owner.
func (r ListRequest) ranks(tx *store.Tx, locks map[string]*lease.Info) (rank map[string]int, closed map[string]bool, err error) {
	all, missing := sections(tx)
	rank, closed = map[string]int{"": Medium}, map[string]bool{}
	for _, s := range all {
		rank[s.Name] = s.Priority
		closed[s.Name], err = r.closedFor(tx, s, locks[sectionLock(s.Name)])
		missing = cmp.Or(missing, err)
	}
	return rank, closed, missing
}

// closedFor reports whether the caller can claim nothing in a section, given its lock.
func (r ListRequest) closedFor(tx *store.Tx, s Section, lk *lease.Info) (bool, error) {
	waits, missing := s.waits(tx)
	held := lk.InForce() && !s.Shared && !lease.MayUse(r.Caller, lk.Owner)
	if s.Workers > 0 {
		pool, err := lease.PeekSection(tx, s.Name)
		missing = cmp.Or(missing, err)
		held = pool.Full() && !slices.ContainsFunc(pool.Holders, func(h lease.Info) bool { return lease.MayUse(r.Caller, h.Owner) })
	}
	return s.closed() || len(waits) > 0 || held, missing
}

func (r ListRequest) recordKind() string {
	if r.Archived {
		return archiveKind
	}
	return taskKind
}

func (r ListRequest) matches(i Info, now time.Time) bool {
	switch {
	case len(r.Status) > 0 && !slices.Contains(r.Status, i.Status),
		r.Section != "" && i.Section != r.Section,
		r.Label != "" && !slices.Contains(i.Labels, r.Label),
		r.Owner != "" && (i.ClaimedBy == "" || !lease.MayUse(i.ClaimedBy, r.Owner)),
		r.Ready && !i.Ready,
		r.Stalled && !i.Stalled,
		r.Older > 0 && !(i.Status == InProgress && now.Sub(i.Lock.HeartbeatAt) > r.Older):
		return false
	}
	return true
}

// Show returns one task, even an archived one.
func Show(ctx context.Context, st *store.Store, ref string) (Info, error) {
	var out Info
	err := st.View(ctx, query(needFind([]string{ref})...), func(tx *store.Tx) error {
		t, err := find(tx, ref)
		if _, none := err.(*NotFoundError); none {
			for _, id := range exact(ref) {
				e, err := store.Get[Task](tx, archiveKind+id)
				if err != nil {
					return err
				}
				if e.Exists() {
					out = Info{Task: e.Value}
					return withTexts(tx, &out.Task)
				}
			}
		}
		if err != nil {
			return err
		}
		lk, err := lease.Look(tx, t.ID)
		if err != nil {
			return err
		}
		out = newInfo(t, lk)
		if err := sectionOpen(tx, t); err != nil {
			if _, closed := errors.AsType[*StateError](err); !closed {
				return err
			}
			out.Ready = false
		}
		return withTexts(tx, &out.Task)
	})
	return out, err
}

// Stats counts tasks.
type Stats struct {
	Total     int                       `json:"total"`
	Status    map[Status]int            `json:"status"`
	Sections  map[string]map[Status]int `json:"sections"`
	Ready     int                       `json:"ready"`
	Stalled   int                       `json:"stalled"`
	Completed float64                   `json:"completedPercent"` // of all, done in any way
	Capped    bool                      `json:"capped,omitempty"` // there are more than [MaxCounted]; the others are not counted
}

// MaxCounted is how many tasks Count counts. countedPart is how many of them it reads
// in one view.
const (
	MaxCounted  = 10_000
	countedPart = 1000
)

// Count returns the statistics of the working set, or of its first [MaxCounted] tasks
// in the order of their ids.
func Count(ctx context.Context, st *store.Store) (Stats, error) {
	s := Stats{Status: map[Status]int{}, Sections: map[string]map[Status]int{}}
	for after := ""; ; {
		p, err := ListRequest{}.part(ctx, st, after, countedPart, false)
		if err != nil {
			return Stats{}, err
		}
		for _, i := range p.tasks {
			s.add(i)
		}
		if p.end || s.Total >= MaxCounted {
			s.Capped = !p.end
			break
		}
		after = p.last
	}
	if s.Total > 0 {
		done := s.Status[Completed] + s.Status[Skipped]
		s.Completed = float64(done) * 100 / float64(s.Total)
	}
	return s, nil
}

func (s *Stats) add(i Info) {
	s.Total++
	s.Status[i.Status]++
	if s.Sections[i.Section] == nil {
		s.Sections[i.Section] = map[Status]int{}
	}
	s.Sections[i.Section][i.Status]++
	if i.Ready {
		s.Ready++
	}
	if i.Stalled {
		s.Stalled++
	}
}
