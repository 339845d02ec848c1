package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Section is a group of tasks. One owner at a time works in an exclusive section,
// or as many as Workers says; a shared one is only a name.
type Section struct {
	Name      string    `json:"name"`
	Priority  int       `json:"priority"` // the lowest comes first
	Shared    bool      `json:"shared,omitempty"`
	Workers   int       `json:"workers,omitempty"` // owners that may work in it, if it has a pool; 0: one, or any if it is shared
	Skipped   bool      `json:"skipped,omitempty"` // next and claim leave it out
	MovesTo   string    `json:"movesTo,omitempty"` // it gets that name: see RenameSection
	MovesFrom string    `json:"movesFrom,omitempty"`
	DependsOn []string  `json:"dependsOn,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}

// SectionInfo is a section with its tasks.
type SectionInfo struct {
	Section
	Tasks    map[Status]int `json:"tasks"`
	LockedBy string         `json:"lockedBy,omitempty"`
	Owners   []string       `json:"owners,omitempty"`   // who work in a section for several
	WaitsFor []string       `json:"waitsFor,omitempty"` // sections with open tasks that it depends on
}

func getSection(tx *store.Tx, name string) (store.Entry[Section], error) {
	return store.Get[Section](tx, sectionKind+name)
}

// AnyWorkers lets any number of owners work in a section.
const AnyWorkers = -1

// workers is how many owners may work in the section.
func (s Section) workers() int {
	if s.Shared {
		return AnyWorkers
	}
	return max(1, s.Workers)
}

// outerKey is the key around the tasks of the section; "" if there is none.
func (s Section) outerKey() string {
	switch {
	case s.Shared || s.Name == "":
		return ""
	case s.Workers > 0:
		return lease.SectionPool(s.Name)
	}
	return sectionLock(s.Name)
}

// setWorkers changes how many owners may work in the section. A smaller number
// takes nothing away from those who work there.
func (s *Section) setWorkers(tx *store.Tx, n int, by string) error {
	if n < AnyWorkers || n == 0 || n > lease.MaxSlots {
		return &lease.InvalidError{What: fmt.Sprintf("%d workers", n), Rule: fmt.Sprintf("must be between 1 and %d, or any", lease.MaxSlots)}
	}
	was := *s
	s.Shared, s.Workers = n == AnyWorkers, 0
	switch {
	case was.Workers > 0 && n == AnyWorkers:
		all, err := lease.OpenSection(tx, s.Name, by)
		return cmp.Or(err, s.heldBy(all))
	case was.Workers > 0:
		s.Workers = n
		return lease.SizeSection(tx, s.Name, n, by)
	}
	if err := s.freeName(tx, by); err != nil {
		return err
	}
	if was.Shared {
		if err := vacate(tx, s.Name, by); err != nil {
			return err
		}
	}
	if n <= 1 {
		return nil
	}
	s.Workers = n
	return lease.SizeSection(tx, s.Name, n, by)
}

// freeName makes sure that nobody holds the name of the section as a plain key: it
// would not keep out those who work in the pool.
func (s Section) freeName(tx *store.Tx, by string) error {
	lk, err := lease.Look(tx, sectionLock(s.Name))
	if err := cmp.Or(err, s.heldBy(lk)); err != nil || lk == nil {
		return err
	}
	return lease.ReleaseKey(tx, sectionLock(s.Name), by, "the section is for others too")
}

// heldBy refuses to change a section that somebody has for itself.
func (s Section) heldBy(lk *lease.Info) error {
	if !lk.InForce() {
		return nil
	}
	return &StateError{ID: "section " + s.Name, Why: "is held by " + lk.Owner}
}

// checkSection normalises a section's name, as its lock's key is.
func checkSection(name string) (string, error) {
	key, err := lease.CheckKey(sectionLock(name))
	if err != nil {
		return "", err
	}
	_, name = lease.KindOf(key)
	if strings.HasPrefix(name, noSection) {
		return "", &lease.InvalidError{What: "section", Rule: "must not begin with '-'"}
	}
	return name, nil
}

// enterSection puts a task into a section, and makes the section if it does not
// exist. Nobody can hold the task then: its lock would be separate from the
// section's. An expired lock ends.
func enterSection(tx *store.Tx, section, id, by string) (made bool, err error) {
	if made, err = ensureSection(tx, section); err != nil {
		return false, err
	}
	lk, err := lease.Look(tx, id)
	switch {
	case err != nil || lk == nil:
		return made, err
	case lk.State == lease.Held:
		return false, &BusyError{Holders: []lease.Info{*lk}}
	}
	return made, lease.ReleaseKey(tx, id, by, "enters section "+section)
}

// ensureSection makes a section that does not exist.
func ensureSection(tx *store.Tx, name string) (made bool, err error) {
	s, err := getSection(tx, name)
	if err != nil || s.Exists() {
		return false, err
	}
	return true, tx.Put(sectionKind+name, Section{Name: name, Priority: Medium, CreatedAt: tx.Now().UTC()})
}

// moveInto puts a task that nobody holds into another section. A closed task is in
// no index, so the section's own record shows the change: a commit that deletes
// the section, or makes it exclusive, must notice.
func moveInto(tx *store.Tx, t Task) error {
	if made, err := ensureSection(tx, t.Section); err != nil || made || t.Status.Open() {
		return err
	}
	s, err := getSection(tx, t.Section)
	if err != nil {
		return err
	}
	return tx.Put(s.Key, s.Value)
}

// SectionRequest makes or changes a section. Nil fields stay, or are defaults
// for a new one.
type SectionRequest struct {
	Name     string
	New      bool // it must not exist; else it must
	Priority *int
	Shared   *bool // any number of owners may work in it, or only one
	Workers  *int  // how many may: 1 to 16, or [AnyWorkers]
	Skipped  *bool
	On, Off  []string // dependencies to add and remove
	By       string
	DryRun   bool
}

// SetSection makes or changes a section. Cycles of dependencies are refused.
func SetSection(ctx context.Context, st *store.Store, r SectionRequest) (Section, error) {
	for _, name := range slices.Concat([]*string{&r.Name}, pointersTo(r.On), pointersTo(r.Off)) {
		var err error
		if *name, err = checkSection(*name); err != nil {
			return Section{}, err
		}
	}
	var out Section
	_, err := update(ctx, st, r.DryRun, query(sectionKind+r.Name), func(tx *store.Tx) error {
		e, err := getSection(tx, r.Name)
		switch {
		case err != nil:
			return err
		case r.New && e.Exists():
			return &StateError{ID: "section " + r.Name, Why: "exists already"}
		case !r.New && !e.Exists():
			return &NotFoundError{What: "section", Ref: r.Name}
		}
		out = e.Value
		if r.New {
			out = Section{Name: r.Name, Priority: Medium, CreatedAt: tx.Now().UTC()}
		}
		if err := r.apply(tx, &out); err != nil {
			return err
		}
		if err := tx.Put(sectionKind+r.Name, out); err != nil {
			return err
		}
		return lease.Log(tx, lease.Event{Event: "section changed", Keys: []string{sectionLock(r.Name)}, Owner: r.By})
	})
	return out, err
}

// workers is how many owners the request lets into a section.
func (r SectionRequest) workers(s Section) int {
	switch {
	case r.Workers != nil:
		return *r.Workers
	case r.Shared != nil && *r.Shared:
		return AnyWorkers
	case r.Shared != nil && s.Shared:
		return 1
	}
	return s.workers()
}

func (r SectionRequest) apply(tx *store.Tx, s *Section) error {
	if r.Priority != nil {
		if err := checkPriority(*r.Priority); err != nil {
			return err
		}
		s.Priority = *r.Priority
	}
	if n := r.workers(*s); n != s.workers() || r.Workers != nil && s.Workers > 0 { // also if only the pool has another size
		if err := s.setWorkers(tx, n, r.By); err != nil {
			return err
		}
	}
	if r.Skipped != nil {
		s.Skipped = *r.Skipped
	}
	for _, d := range r.On {
		if err := noCycle(tx, sectionKind, s.Name, d, sectionDependencies); err != nil {
			return err
		}
	}
	s.DependsOn = once(append(lease.Without(s.DependsOn, r.Off), r.On...))
	return nil
}

// vacate makes sure that nobody holds a task of a section that becomes
// exclusive.
func vacate(tx *store.Tx, section, by string) error {
	all, err := tasks(tx)
	if err != nil {
		return err
	}
	var ids []string
	for _, t := range all {
		if t.Section == section {
			ids = append(ids, t.ID)
		}
	}
	tx.GuardKind(openKind) // a task may come meanwhile, and be claimed
	if err := lease.WantEnd(tx, ids...); err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := enterSection(tx, section, id, by); err != nil {
			return err
		}
	}
	return nil
}

// sectionDependencies are those of a section, which must exist.
func sectionDependencies(tx *store.Tx, name string) ([]string, error) {
	s, err := getSection(tx, name)
	if err == nil && !s.Exists() {
		err = &NotFoundError{What: "section", Ref: name}
	}
	return s.Value.DependsOn, err
}

// sectionOpen refuses a task whose section is skipped or waits for another.
func sectionOpen(tx *store.Tx, t Task) error {
	if t.Section == "" {
		return nil
	}
	s, err := getSection(tx, t.Section)
	if err != nil {
		return err
	}
	if moves := cmp.Or(s.Value.MovesTo, s.Value.MovesFrom); moves != "" {
		return &StateError{ID: t.ID, Status: t.Status, Why: "its section is being renamed", WaitsFor: []string{sectionLock(t.Section)}}
	}
	if s.Value.Skipped {
		return &StateError{ID: t.ID, Status: t.Status, Why: "its section " + t.Section + " is skipped", WaitsFor: []string{sectionLock(t.Section)}}
	}
	waits, err := s.Value.waits(tx)
	if err == nil && len(waits) > 0 {
		err = &StateError{ID: t.ID, Status: t.Status, Why: "its section waits for section " + list(waits), WaitsFor: []string{sectionLock(waits[0])}}
	}
	return err
}

// waits returns the sections with open tasks that this one depends on.
func (s Section) waits(tx *store.Tx) (out []string, missing error) {
	for _, d := range s.DependsOn {
		open, err := tx.ScanWritten(openKind+sectionPrefix(d), 1)
		missing = cmp.Or(missing, err)
		if len(open) > 0 {
			out = append(out, d)
		}
	}
	return out, missing
}

// sections returns all sections in the order of [Next].
func sections(tx *store.Tx) ([]Section, error) {
	all, err := store.All[Section](tx, sectionKind)
	out := make([]Section, len(all))
	for i, e := range all {
		out[i] = e.Value
	}
	slices.SortStableFunc(out, func(a, b Section) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
	return out, err
}

// SectionsResult lists sections.
type SectionsResult struct {
	Sections []SectionInfo `json:"sections"`
}

// FindSection is nil if there is a section of that name. It reads no task.
func FindSection(ctx context.Context, st *store.Store, name string) error {
	name, err := checkSection(name)
	if err != nil {
		return err
	}
	return st.View(ctx, query(sectionKind+name), func(tx *store.Tx) error {
		s, err := getSection(tx, name)
		if err == nil && !s.Exists() {
			err = &NotFoundError{What: "section", Ref: name}
		}
		return err
	})
}

// Sections returns all sections, or the named one, with their tasks.
func Sections(ctx context.Context, st *store.Store, name string) (SectionsResult, error) {
	out := SectionsResult{Sections: []SectionInfo{}}
	if name != "" {
		var err error
		if name, err = checkSection(name); err != nil {
			return out, err
		}
	}
	need := driver.Query{Ranges: []driver.Range{{Prefix: sectionKind}, {Prefix: taskKind}}}
	need.Ranges = append(need.Ranges, lease.Everything.Ranges...)
	err := st.View(ctx, need, func(tx *store.Tx) error {
		out.Sections = out.Sections[:0]
		all, err := sections(tx)
		if err != nil {
			return err
		}
		ts, err := tasks(tx)
		if err != nil {
			return err
		}
		locks, err := lease.Locks(tx)
		if err != nil {
			return err
		}
		var missing error
		for _, s := range all {
			if name != "" && s.Name != name {
				continue
			}
			info := SectionInfo{Section: s, Tasks: map[Status]int{}}
			for _, t := range ts {
				if t.Section == s.Name {
					info.Tasks[effective(t, locks[t.ID])]++
				}
			}
			if lk := locks[sectionLock(s.Name)]; lk.InForce() {
				info.LockedBy = lk.Owner
			}
			if s.Workers > 0 {
				pool, err := lease.PeekSection(tx, s.Name)
				missing = cmp.Or(missing, err)
				info.addOwners(pool)
			}
			info.WaitsFor, err = s.waits(tx)
			missing = cmp.Or(missing, err)
			out.Sections = append(out.Sections, info)
		}
		if missing != nil {
			return missing
		}
		if name != "" && len(out.Sections) == 0 {
			return &NotFoundError{What: "section", Ref: name}
		}
		return nil
	})
	return out, err
}

// addOwners notes who work in a section for several.
func (i *SectionInfo) addOwners(pool lease.PoolInfo) {
	for _, h := range pool.Holders {
		i.Owners = append(i.Owners, h.Owner)
	}
	slices.Sort(i.Owners)
	i.Owners = slices.Compact(i.Owners)
	if all := pool.AllOf(); all != nil {
		i.LockedBy = all.Owner
	}
}

// DeleteSection removes a section without tasks.
func DeleteSection(ctx context.Context, st *store.Store, name, by string, dry bool) error {
	name, err := checkSection(name)
	if err != nil {
		return err
	}
	_, err = update(ctx, st, dry, query(sectionKind+name), func(tx *store.Tx) error {
		s, err := getSection(tx, name)
		if err != nil {
			return err
		}
		if !s.Exists() {
			return &NotFoundError{What: "section", Ref: name}
		}
		all, err := tasks(tx)
		if err != nil {
			return err
		}
		n := 0
		for _, t := range all {
			if t.Section == name {
				n++
			}
		}
		if n > 0 {
			return &StateError{ID: "section " + name, Why: fmt.Sprintf("still has %d tasks", n)}
		}
		others, err := sections(tx)
		if err != nil {
			return err
		}
		for _, o := range others {
			if slices.Contains(o.DependsOn, name) {
				return &StateError{ID: "section " + name, Why: "section " + o.Name + " depends on it"}
			}
		}
		if all, err := lease.OpenSection(tx, name, by); err != nil || all.InForce() {
			return cmp.Or(err, s.Value.heldBy(all))
		}
		tx.GuardKind(openKind) // a task may come meanwhile
		tx.Delete(sectionKind + name)
		return lease.Log(tx, lease.Event{Event: "section deleted", Keys: []string{sectionLock(name)}, Owner: by})
	})
	return err
}
