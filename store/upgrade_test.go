package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

// In these tests format 2 has a record index/x for each test/x, and no junk/x.
func index(records []driver.Record) (writes []driver.Write, err error) {
	for _, r := range records {
		if name, ok := strings.CutPrefix(r.Key, "test/"); ok {
			writes = append(writes, driver.Write{Key: "index/" + name, Value: r.Value})
		}
		if driver.Kind(r.Key) == "junk/" {
			writes = append(writes, driver.Write{Key: r.Key})
		}
	}
	return writes, nil
}

var upgrading = store.Options{Conversions: []store.Conversion{index}, Local: true}

// former is a store of format 1 with n records, as its records are.
func former(t *testing.T, n int) *memstore.Store {
	t.Helper()
	d := memstore.New()
	b := driver.Batch{Writes: []driver.Write{{Key: "meta/store", Value: []byte(`{"format":1,"id":"old"}`)}, {Key: "junk/x", Value: []byte(`{}`)}}}
	for i := range n {
		b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("test/%05d", i), Value: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	commit(t, d, b)
	return d
}

// oldWrite does what a transaction of a version that knows only format 1 does.
func oldWrite(d driver.Store, key string) error { return writeKnowing(1, d, key, func() {}) }

// writeKnowing does what a transaction of a version does that knows formats up to
// this one; between happens after it has read.
func writeKnowing(format int, d driver.Store, key string, between func()) error {
	ctx := context.Background()
	snap, err := d.Read(ctx, driver.Query{Keys: []string{"meta/store"}})
	if err != nil {
		return err
	}
	var m struct{ Format int }
	if err := json.Unmarshal(snap.Records[0].Value, &m); err != nil {
		return err
	}
	if m.Format > format {
		return driver.ErrNewer
	}
	between()
	_, err = d.Commit(ctx, driver.Batch{
		Guards: []driver.Guard{{Key: "meta/store", Rev: snap.Records[0].Rev}},
		Writes: []driver.Write{{Key: key, Value: []byte(`{"n":7}`)}},
	})
	return err
}

// converted checks that all of d is format 2 and open.
func converted(t *testing.T, d driver.Store) {
	t.Helper()
	values, _, _ := contents(t, d)
	n := 0
	for k, v := range values {
		if name, ok := strings.CutPrefix(k, "test/"); ok {
			if n++; values["index/"+name] != v {
				t.Errorf("%s is %s, its index says %q", k, v, values["index/"+name])
			}
		}
	}
	if n == 0 || len(values) != 2*n {
		t.Errorf("%d records for %d: %.300v", len(values), n, values)
	}
	if err := store.New(d).View(t.Context(), driver.Query{}, func(*store.Tx) error { return nil }); err != nil {
		t.Errorf("it is not open: %v", err)
	}
	if err := oldWrite(d, "test/late"); !errors.Is(err, driver.ErrNewer) {
		t.Errorf("an older version may write: %v", err)
	}
}

func write(st *store.Store) error {
	_, err := st.Update(context.Background(), driver.Query{}, func(tx *store.Tx) error {
		return errors.Join(tx.Put("test/new", number{1}), tx.Put("index/new", number{1}))
	})
	return err
}

// reads counts what a reader of format 2 finds, by its index.
func reads(st *store.Store) (n int, err error) {
	err = st.View(context.Background(), driver.Query{}, func(tx *store.Tx) error {
		recs, err := tx.Scan("index/", 0)
		if err != nil {
			return err
		}
		e, err := store.Get[number](tx, "index/00000")
		if err == nil && !e.Exists() {
			err = errors.New("index/00000 is not there")
		}
		n = len(recs)
		return err
	})
	return n, err
}

// hooked runs something before each commit.
type hooked struct {
	driver.Store
	before func()
}

func (h hooked) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	h.before()
	return h.Store.Commit(ctx, b)
}

func TestUpgradeLocal(t *testing.T) {
	t.Run("readers write nothing, the first writer converts", func(t *testing.T) {
		d := former(t, 2500)
		_, _, rev := contents(t, d)
		told := 0
		o := upgrading
		o.Raised = func(int) { told++ }
		st := store.NewWith(d, o)
		if n, err := reads(st); n != 2500 || err != nil {
			t.Error(n, err)
		}
		no := errors.New("no")
		_, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error { return errors.Join(tx.Put("test/x", number{1}), no) })
		if !errors.Is(err, no) {
			t.Error(err)
		}
		if _, err := st.Update(t.Context(), driver.Query{}, func(*store.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
		if _, _, now := contents(t, d); now != rev || told != 0 {
			t.Fatal("something was written")
		}
		if err := write(st); err != nil {
			t.Fatal(err)
		}
		converted(t, d)
		if n, err := reads(st); n != 2501 || err != nil || told != 1 {
			t.Error(n, err, told)
		}
	})
	t.Run("older versions write until it is closed, and nothing of theirs is lost", func(t *testing.T) {
		d := former(t, 2500)
		n := 0
		h := hooked{d, func() {
			n++
			_ = oldWrite(d, fmt.Sprintf("test/rival-%d", n))
		}}
		if err := write(store.NewWith(h, upgrading)); err != nil {
			t.Fatal(err)
		}
		converted(t, d)
	})
	t.Run("many at once", func(t *testing.T) {
		d := former(t, 2500)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := write(store.NewWith(d, upgrading)); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if n, err := reads(store.NewWith(d, upgrading)); n < 2500 || err != nil {
					t.Error(n, err)
				}
			})
		}
		wg.Wait()
		converted(t, d)
	})
}

// Wherever it dies, readers see the whole, older versions are refused once it was
// closed, and the next writer completes it.
func TestUpgradeDiesAnywhere(t *testing.T) {
	long.NotShort(t)
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			d := former(t, 2500)
			err := write(store.NewWith(mortal{d, &life{left: n, after: after}}, upgrading))
			if err == nil {
				if n < 5 {
					t.Fatalf("%d commits", n)
				}
				break
			}
			if got, err := reads(store.NewWith(d, upgrading)); got < 2500 || err != nil {
				t.Errorf("died at commit %d (%v): a reader sees %d, %v", n, after, got, err)
			}
			_ = oldWrite(d, "test/rival")
			if err := write(store.NewWith(d, upgrading)); err != nil {
				t.Errorf("died at commit %d (%v): %v", n, after, err)
			}
			converted(t, d)
		}
	}
}

// A store that others share is converted by nobody who was not told to.
func TestUpgradeShared(t *testing.T) {
	shared := store.Options{Conversions: upgrading.Conversions}
	d := former(t, 20)
	_, _, rev := contents(t, d)
	st := store.NewWith(d, shared)
	_, readErr := reads(st)
	_, copyErr := st.ReadAll(t.Context(), "A")
	_, fillErr := store.Fill(t.Context(), store.FillRequest{To: st, Copy: store.Copy{ID: "x"}, Replace: true})
	_, moveErr := store.Move(t.Context(), store.MoveRequest{From: st, To: store.New(memstore.New())})
	_, raiseErr := st.Raise(t.Context())
	busy := errors.New("busy")
	leave := func(*store.Tx) error { return busy }
	for _, r := range []store.UpgradeRequest{{Leave: leave}, {Leave: leave, DryRun: true}} {
		if _, err := st.Upgrade(t.Context(), r); !errors.Is(err, busy) {
			t.Error(err)
		}
	}
	out, err := st.Upgrade(t.Context(), store.UpgradeRequest{DryRun: true})
	if want := (store.UpgradeResult{From: 1, To: store.Format, Records: 21}); out != want || err != nil {
		t.Error(out, err)
	}
	if _, _, now := contents(t, d); now != rev {
		t.Fatal("something was written")
	}
	for what, err := range map[string]error{"read": readErr, "write": write(st), "copy": copyErr, "fill": fillErr, "move": moveErr, "raise": raiseErr} {
		var older *store.OlderError
		if !errors.As(err, &older) || !strings.Contains(err.Error(), "tasklock init --upgrade") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if out, err = st.Upgrade(t.Context(), store.UpgradeRequest{}); out.Records != 21 || out.From != 1 || out.Already || err != nil {
		t.Error(out, err)
	}
	converted(t, d)
	if out, err = st.Upgrade(t.Context(), store.UpgradeRequest{Leave: leave}); !out.Already || err != nil {
		t.Error(out, err)
	}
	if _, err := store.New(former(t, 1)).Upgrade(t.Context(), store.UpgradeRequest{}); !errors.Is(err, driver.ErrOlder) {
		t.Error("upgraded without knowing how:", err)
	}
}

// What comes from format 1 arrives as format 2.
func TestUpgradeOnTheWay(t *testing.T) {
	head := []byte(`"format":2`)
	file := func(t *testing.T) []byte { // of format 1
		d := former(t, 20)
		c, err := store.NewWith(d, store.Options{Conversions: []store.Conversion{}, Local: true}).ReadAll(t.Context(), "A")
		if err != nil {
			t.Fatal(err)
		}
		c.Format = 1
		var b bytes.Buffer
		if err := store.WriteBackup(&b, c); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	t.Run("a backup names its format", func(t *testing.T) {
		c, err := store.NewWith(former(t, 20), upgrading).ReadAll(t.Context(), "A")
		var b bytes.Buffer
		if err = errors.Join(err, store.WriteBackup(&b, c)); err != nil || !bytes.Contains(b.Bytes(), head) || !bytes.Contains(b.Bytes(), []byte("index/00019")) {
			t.Errorf("%v\n%.200s", err, b.Bytes())
		}
		if bytes.Contains(file(t), head) {
			t.Error("this is format 1")
		}
	})
	for name, to := range map[string]*memstore.Store{"empty": memstore.New(), "old": former(t, 3)} {
		t.Run("a backup of format 1 into one that is "+name, func(t *testing.T) {
			c, err := store.ReadBackup(bytes.NewReader(file(t)))
			if err != nil || c.Format != 1 {
				t.Fatal(err)
			}
			r := store.FillRequest{To: store.NewWith(to, upgrading), Copy: c}
			if name == "old" {
				if _, err := store.Fill(t.Context(), r); !errors.Is(err, store.ErrNotEmpty) {
					t.Error(err)
				}
				if n, err := reads(r.To); n != 3 || err != nil {
					t.Error(n, err)
				}
				r.Replace = true
			}
			if _, err := store.Fill(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			converted(t, to)
			if n, err := reads(r.To); n != 20 || err != nil {
				t.Error(n, err)
			}
		})
	}
	t.Run("a move", func(t *testing.T) {
		from, to := former(t, 20), memstore.New()
		if _, err := store.Move(t.Context(), store.MoveRequest{From: store.NewWith(from, upgrading), To: store.NewWith(to, upgrading), FromName: "A", ToName: "B"}); err != nil {
			t.Fatal(err)
		}
		converted(t, to)
		closed(t, from, "B")
		if err := oldWrite(to, "test/late"); !errors.Is(err, driver.ErrNewer) {
			t.Error(err)
		}
		if c, err := store.NewWith(from, store.Options{Conversions: upgrading.Conversions}).ReadAll(t.Context(), "A"); c.MovedTo != "B" || err != nil {
			t.Error("what has moved can be looked at:", err)
		}
	})
}

// A transaction that needs a newer format raises it in its own commit: an older
// version is refused from then on, even if it has looked before. The format goes
// with the records.
func TestNeed(t *testing.T) {
	d := memstore.New()
	var told []int
	st := store.NewWith(d, store.Options{Raised: func(format int) { told = append(told, format) }})
	need := func(cause error) error {
		_, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
			return errors.Join(store.Need(tx, store.FormatPools), tx.Put("test/new", number{1}), cause)
		})
		return err
	}
	if err := write(st); err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	if err := need(no); !errors.Is(err, no) {
		t.Error(err)
	}
	if err := writeKnowing(store.Format, d, "test/before", func() {}); err != nil {
		t.Error("an older version cannot use a store without need:", err)
	}
	raise := func() {
		if err := need(nil); err != nil {
			t.Error(err)
		}
	}
	if err := writeKnowing(store.Format, d, "test/rival", raise); !errors.Is(err, driver.ErrConflict) {
		t.Error("an older version writes after it looked:", err)
	}
	if err := writeKnowing(store.Format, d, "test/late", func() {}); !errors.Is(err, driver.ErrNewer) {
		t.Error("an older version may write:", err)
	}
	raise()
	if err := write(st); err != nil || fmt.Sprint(told) != "[3]" {
		t.Error(err, told)
	}
	fresh := memstore.New()
	if _, err := store.New(fresh).Update(t.Context(), driver.Query{}, func(tx *store.Tx) error { return store.Need(tx, store.FormatPools) }); err != nil {
		t.Error(err)
	}
	c, err := st.ReadAll(t.Context(), "A")
	var file bytes.Buffer
	if err = errors.Join(err, store.WriteBackup(&file, c)); err != nil || !bytes.Contains(file.Bytes(), []byte(`"format":3`)) {
		t.Error("a backup does not name its format:", err)
	}
	c, err = store.ReadBackup(&file)
	filled, moved := memstore.New(), memstore.New()
	_, fillErr := store.Fill(t.Context(), store.FillRequest{To: store.New(filled), Copy: c})
	_, moveErr := store.Move(t.Context(), store.MoveRequest{From: st, To: store.New(moved), FromName: "A", ToName: "B"})
	if err := errors.Join(err, fillErr, moveErr); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]driver.Store{"new": fresh, "filled": filled, "moved": moved} {
		if err := writeKnowing(store.Format, d, "test/late", func() {}); !errors.Is(err, driver.ErrNewer) {
			t.Errorf("an older version may write into one that is %s: %v", name, err)
		}
		if out, err := store.New(d).Upgrade(t.Context(), store.UpgradeRequest{}); !out.Already || out.To != store.FormatPools || err != nil {
			t.Error(name, out, err)
		}
	}
}
