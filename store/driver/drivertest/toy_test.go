package drivertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/tasklock/tasklock/store/driver"
)

// toy is the smallest store that passes the suite, in memory or in one file,
// with a switch for every mistake that the suite must find. It copies its
// whole state for each call: nobody will mistake it for a driver.
type toy struct {
	*toyPlace
	bug      string
	cache    toyState // of the bug "reads a cache"
	cachedAt time.Time
}

// A toyPlace is what the handles on one place share.
type toyPlace struct {
	path     string // "" in memory
	mu       sync.Mutex
	state    toyState
	inflight atomic.Int64
	commits  atomic.Int64
}

type toyState struct {
	Rev     int64
	Records map[string]driver.Record
	Kinds   map[string]int64
	TTL     map[string]time.Duration
}

var _ driver.Store = (*toy)(nil)

func newToyPlace(path string) *toyPlace { return &toyPlace{path: path, state: toyState{}.clone()} }

func (s toyState) clone() toyState {
	c := toyState{Rev: s.Rev, Records: map[string]driver.Record{}, Kinds: map[string]int64{}, TTL: map[string]time.Duration{}}
	maps.Copy(c.Records, s.Records)
	maps.Copy(c.Kinds, s.Kinds)
	maps.Copy(c.TTL, s.TTL)
	return c
}

// lock gives f the state alone; what f changed is kept if it returns nil.
func (t *toy) lock(f func(*toyState) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.path == "" {
		st := t.state.clone()
		err := f(&st)
		if err == nil || t.bug == "keeps what a conflict left" {
			t.state = st
		}
		return err
	}

	if t.bug != "does not lock its file" {
		l := flock.New(t.path + ".lock")
		if err := l.Lock(); err != nil {
			return err
		}
		defer l.Close()
	}
	st := toyState{}.clone()
	data, err := os.ReadFile(t.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		if err := json.Unmarshal(data, &st); err != nil {
			return errors.Join(driver.ErrDamaged, err)
		}
	}
	before := st.Rev
	if err := f(&st); err != nil || st.Rev == before {
		return err
	}
	data, err = json.Marshal(st)
	if err != nil {
		return err
	}
	if t.bug == "writes in place" {
		return writeSlowly(t.path, data)
	}
	if err := os.WriteFile(t.path+".tmp", data, 0o600); err != nil {
		return err
	}
	return os.Rename(t.path+".tmp", t.path)
}

// writeSlowly is os.WriteFile as a loaded machine might do it.
func writeSlowly(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for part := range slices.Chunk(data, len(data)/4+1) {
		if _, err := f.Write(part); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

func (t *toy) Read(ctx context.Context, q driver.Query) (snap driver.Snapshot, err error) {
	if err := ctx.Err(); err != nil {
		return driver.Snapshot{}, err
	}
	view := func() (st toyState) {
		err = cmp.Or(err, t.lock(func(s *toyState) error { st = s.clone(); return nil }))
		if t.bug == "reads a cache" {
			t.mu.Lock()
			defer t.mu.Unlock()
			if time.Since(t.cachedAt) > 5*time.Millisecond {
				t.cache, t.cachedAt = st, time.Now()
			}
			st = t.cache
		}
		return st
	}
	st := view()
	snap = driver.Snapshot{Rev: st.Rev, Now: time.Now()}
	switch {
	case t.bug == "guesses behind its records" && q.Guarded:
		snap.Now, snap.Old = snap.Now.Add(-time.Hour), true
	case t.bug == "guesses ahead of its clock" && q.Guarded:
		snap.Now, snap.Old = snap.Now.Add(time.Hour), true
	}
	seen := map[string]bool{}
	add := func(key string) {
		r, ok := st.Records[key]
		expired := t.bug == "drops early" && st.TTL[key] > 0 && snap.Now.Sub(r.Time) > st.TTL[key]/2
		if !ok || expired || t.bug == "drops duplicates" && seen[key] {
			return
		}
		seen[key] = true
		switch t.bug {
		case "has another clock":
			r.Time = r.Time.Add(time.Hour)
		case "has no clock":
			r.Time = snap.Now
		}
		if t.bug != "shares its memory" {
			r.Value = bytes.Clone(r.Value)
		}
		snap.Records = append(snap.Records, r)
	}
	for _, key := range q.Keys {
		if t.bug == "hides that it guessed" && q.Guarded && slices.Contains(q.New, key) {
			continue
		}
		add(t.fold(key))
	}
	for _, r := range q.Ranges {
		if t.bug == "reads in parts" {
			time.Sleep(100 * time.Microsecond)
			st = view()
		}
		for _, key := range t.selects(st, r) {
			add(key)
		}
	}
	return snap, err
}

func (t *toy) selects(st toyState, r driver.Range) []string {
	var keys []string
	for key := range st.Records {
		matches := strings.HasPrefix(key, t.fold(r.Prefix))
		above := key > t.fold(r.After)
		switch t.bug {
		case "matches like LIKE":
			matches = strings.HasPrefix(strings.ToLower(key), strings.ToLower(r.Prefix))
		case "takes a prefix for a folder":
			folder := strings.TrimSuffix(r.Prefix, "/")
			matches = r.Prefix == "" || key == folder || strings.HasPrefix(key, folder+"/")
		case "begins at a key":
			above = key >= r.After
		case "begins after what is there":
			above = r.After == "" || st.Records[r.After].Rev == 0 || key > r.After
		case "begins after a key of its own":
			above = !strings.HasPrefix(r.After, r.Prefix) || key > r.After
		case "goes by folders":
			above = key > r.After && (r.After == "" || !strings.HasPrefix(key, r.After+"/"))
		case "counts before it begins":
			above = r.Limit != 0 || key > r.After
		}
		if matches && above {
			keys = append(keys, key)
		}
	}
	if t.bug != "does not sort" {
		slices.Sort(keys)
	}
	if n := len(keys); r.Limit > 0 {
		keys = keys[:min(n, r.Limit)]
	} else if r.Limit < 0 {
		keys = keys[max(0, n+r.Limit):]
		if t.bug == "turns the last ones round" {
			slices.Reverse(keys)
		}
	}
	if t.bug == "counts before it begins" {
		keys = slices.DeleteFunc(keys, func(key string) bool { return key <= r.After })
	}
	return keys
}

func (t *toy) Commit(ctx context.Context, b driver.Batch) (rev int64, err error) {
	if err := ctx.Err(); err != nil && t.bug != "ignores the context" {
		return 0, err
	}
	if err := b.Check(); err != nil && t.bug != "accepts everything" {
		return 0, err
	}
	if strings.HasPrefix(t.bug, "together:") {
		t.inflight.Add(1)
		defer t.inflight.Add(-1)
		time.Sleep(time.Millisecond)
		if t.bug == "together: conflict" && t.inflight.Load() > 1 {
			return 0, driver.ErrConflict
		}
	}
	if t.commits.Add(1)%10 == 0 && t.bug == "forgets every tenth" {
		return 1 << 40, nil
	}
	switch t.bug {
	case "checks, then acts":
		if err := t.lock(func(st *toyState) error { return t.check(st, b) }); err != nil {
			return 0, err
		}
		time.Sleep(time.Millisecond)
		b.Guards = nil
	case "writes one after another":
		for len(b.Writes) > 1 {
			if rev, err = t.Commit(ctx, driver.Batch{Guards: b.Guards, Writes: b.Writes[:1]}); err != nil {
				return rev, err
			}
			b.Guards, b.Writes = nil, b.Writes[1:]
			if len(b.Writes) < 4 { // not a thousand times
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
	err = t.lock(func(st *toyState) error {
		if t.bug == "keeps what a conflict left" {
			for _, w := range b.Writes[:len(b.Writes)/2] {
				st.apply(t, w)
			}
		}
		if err := t.check(st, b); err != nil {
			return err
		}
		rev = st.Rev
		if len(b.Writes) > 0 {
			rev = t.next(st, b)
			st.Rev = rev
			for _, w := range b.Writes {
				st.apply(t, w)
			}
		}
		return nil
	})
	return rev, err
}

func (t *toy) next(st *toyState, b driver.Batch) int64 {
	switch t.bug {
	case "ignores the floor":
		return st.Rev + 1
	case "counts from what is there":
		last := int64(0)
		for _, r := range st.Records {
			last = max(last, r.Rev)
		}
		return max(last+1, b.Floor)
	case "together: one revision":
		if t.inflight.Load() > 1 && st.Rev > 0 {
			return st.Rev
		}
	case "keeps revisions as floats":
		return int64(float64(max(st.Rev+1, b.Floor)))
	}
	return max(st.Rev+1, b.Floor)
}

func (t *toy) check(st *toyState, b driver.Batch) error {
	if t.bug == "ignores guards" || t.bug == "checks only with writes" && len(b.Writes) == 0 {
		return nil
	}
	for i, g := range b.Guards {
		if t.bug == "checks the first guard" && i > 0 {
			break
		}
		if !t.holds(st, g) {
			return driver.ErrConflict
		}
	}
	return nil
}

func (t *toy) holds(st *toyState, g driver.Guard) bool {
	if !g.IsKind() {
		return st.Records[t.fold(g.Key)].Rev == g.Rev ||
			t.bug == "takes a lower revision" && st.Records[g.Key].Rev < g.Rev
	}
	switch t.bug {
	case "does not see deletions":
		for key, r := range st.Records {
			if strings.HasPrefix(key, g.Key) && r.Rev > g.Rev {
				return false
			}
		}
		return true
	case "takes all kinds for one":
		return st.Rev <= g.Rev
	case "has no kinds":
		return true
	}
	return st.Kinds[g.Key] <= g.Rev
}

func (st *toyState) apply(t *toy, w driver.Write) {
	key := t.fold(w.Key)
	st.Kinds[driver.Kind(key)] = st.Rev
	st.TTL[key] = w.TTL
	if w.Value == nil {
		delete(st.Records, key)
		return
	}
	value := bytes.Clone(w.Value)
	switch t.bug {
	case "shares its memory":
		value = w.Value
	case "encodes again":
		var v any
		if json.Unmarshal(w.Value, &v) == nil {
			value, _ = json.Marshal(v)
		}
	}
	r := driver.Record{Key: key, Rev: st.Rev, Time: time.Now(), Value: value}
	if old, ok := st.Records[key]; ok && t.bug == "keeps the first time" {
		r.Time = old.Time
	}
	st.Records[key] = r
}

func (t *toy) Wait(ctx context.Context, guards []driver.Guard) error {
	if t.bug == "wait: ignores the context" {
		time.Sleep(time.Second)
	}
	if t.bug == "wait: spins" {
		return ctx.Err()
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		broken := t.lock(func(st *toyState) error {
			for _, g := range guards {
				if t.bug == "wait: deaf to kinds" && g.IsKind() || t.bug == "wait: deaf to what is absent" && g.Rev == 0 {
					continue
				}
				if !t.holds(st, g) {
					return driver.ErrConflict
				}
			}
			return nil
		})
		if broken != nil && t.bug != "wait: never wakes" {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (t *toy) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.bug {
	case "forgets when closed":
		t.state = toyState{}.clone()
	case "starts again when empty":
		if len(t.state.Records) == 0 {
			t.state = toyState{}.clone()
		}
	}
	return nil
}

// fold is what some file systems do to names.
func (t *toy) fold(key string) string {
	switch t.bug {
	case "folds case":
		return strings.ToLower(key)
	case "cuts long keys":
		return key[:min(len(key), 255)]
	case "cleans names":
		return strings.ReplaceAll(strings.TrimRight(key, ". "), "//", "/")
	}
	return key
}
