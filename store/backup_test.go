package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestBackup(t *testing.T) {
	for kind, place := range places {
		t.Run(kind, func(t *testing.T) {
			a, b := place(t), memstore.New()
			last := furnish(t, a, 1500)
			want, _, _ := contents(t, a)
			c, err := store.New(a).ReadAll(t.Context(), "A")
			if err != nil {
				t.Fatal(err)
			}
			var file bytes.Buffer
			if err := store.WriteBackup(&file, c); err != nil {
				t.Fatal(err)
			}
			read, err := store.ReadBackup(&file)
			if err != nil {
				t.Fatal(err)
			}
			out, err := store.Fill(t.Context(), store.FillRequest{To: store.New(b), Copy: read})
			if err != nil || out.Revision < last+1<<32 || out.Revision > driver.MaxRevision {
				t.Fatalf("%+v, %v", out, err)
			}
			got, least, _ := contents(t, b)
			if diff := differ(want, got); diff != "" || least < last+1<<32 {
				t.Errorf("%s, least %d", diff, least)
			}
		})
	}
}

// Two stores that come out of one backup do not give out the same tokens.
func TestOneBackupRestoredTwice(t *testing.T) {
	d := memstore.New()
	furnish(t, d, 10)
	c, err := store.New(d).ReadAll(t.Context(), "A")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for range 3 {
		out, err := store.Fill(t.Context(), store.FillRequest{To: store.New(memstore.New()), Copy: c})
		if err != nil {
			t.Fatal(err)
		}
		if seen[out.Revision] {
			t.Errorf("two restores go on at revision %d", out.Revision)
		}
		seen[out.Revision] = true
	}
}

func backupOf(t testing.TB) (store.Copy, []byte) {
	t.Helper()
	d := memstore.New()
	for k, v := range odd {
		if _, err := d.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: k, Value: []byte(v)}}}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := store.New(d).ReadAll(t.Context(), "A")
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := store.WriteBackup(&file, c); err != nil {
		t.Fatal(err)
	}
	return c, file.Bytes()
}

func TestBackupThatWasChanged(t *testing.T) {
	_, file := backupOf(t)
	refuse := func(what string, text []byte) {
		t.Helper()
		if _, err := store.ReadBackup(bytes.NewReader(text)); !errors.Is(err, store.ErrBackupDamaged) && !errors.Is(err, store.ErrNotBackup) {
			t.Errorf("%s: %v", what, err)
		}
	}
	step := max(1, len(file)/300)
	for n := 0; n < len(file); n += step {
		refuse(fmt.Sprintf("cut off after %d bytes", n), file[:n])
		flipped := bytes.Clone(file)
		flipped[n] ^= 1
		refuse(fmt.Sprintf("byte %d changed", n), flipped)
	}
	refuse("cut off before its last line break", file[:len(file)-1])
	refuse("twice", append(bytes.Clone(file), file...))
	refuse("something else", []byte("#!/bin/sh\necho\n"))
	lines := bytes.SplitAfter(file, []byte("\n"))
	refuse("a line is missing", bytes.Join(append(append([][]byte{}, lines[:2]...), lines[3:]...), nil))
	newer := bytes.Replace(file, []byte(`"format":2`), []byte(`"format":4`), 1)
	if _, err := store.ReadBackup(bytes.NewReader(newer)); !errors.Is(err, driver.ErrNewer) {
		t.Error(err)
	}
}

func TestFillDiesAnywhere(t *testing.T) {
	_, file := backupOf(t)
	c, err := store.ReadBackup(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			d := memstore.New()
			put(t, store.New(d), "test/theirs", 1)
			_, err := store.Fill(t.Context(), store.FillRequest{To: store.New(mortal{d, &life{left: n, after: after}}), Copy: c, Replace: true})
			if err == nil {
				break
			}
			if got, _, _ := contents(t, d); isOpen(d) && differ(odd, got) != "" && got["test/theirs"] == "" {
				t.Errorf("commit %d, after %v: open with half of the records", n, after)
			}
			if _, err := store.Fill(t.Context(), store.FillRequest{To: store.New(d), Copy: c, Replace: true}); err != nil {
				t.Fatal(err)
			}
			if got, _, _ := contents(t, d); differ(odd, got) != "" || !isOpen(d) {
				t.Errorf("commit %d, after %v: %s", n, after, differ(odd, got))
			}
		}
	}
	full := memstore.New()
	put(t, store.New(full), "test/theirs", 1)
	if _, err := store.Fill(t.Context(), store.FillRequest{To: store.New(full), Copy: c}); !errors.Is(err, store.ErrNotEmpty) || !isOpen(full) {
		t.Error(err)
	}
}

func FuzzReadBackup(f *testing.F) {
	_, file := backupOf(f)
	f.Add(file)
	f.Add([]byte(`{"backup":"tasklock","format":1,"records":1}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := store.ReadBackup(bytes.NewReader(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := store.WriteBackup(&again, store.Copy{Format: c.Format, From: c.From, Rev: c.Rev, Now: c.Now, Records: c.Records}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.ReadBackup(&again); err != nil {
			t.Fatal(err)
		}
	})
}
