package filestore_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
)

// Four processes write records of one large kind, each its own, and delete them. In
// every view a part of the kind is what the whole kind shows, and what a process
// wrote itself is there.
func TestPartsWhileOthersWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	fill(t, dir, "ready/", 400)
	var all []*exec.Cmd
	var said [4]strings.Builder
	for i := range said {
		cmd := command(t, "model", dir, envCount+"="+strconv.Itoa(i), envLimit+"=60000")
		cmd.Stdout, cmd.Stderr = &said[i], &said[i]
		must(t, cmd.Start())
		all = append(all, cmd)
	}
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil || strings.TrimSpace(said[i].String()) != "ok" {
			t.Errorf("process %d: %v %.2000s", i, err, said[i].String())
		}
	}
}

// model is what each of them does.
func model(ctx context.Context, dir string, me int) error {
	s, err := openLimited(ctx, dir)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(uint64(me), 7))
	mine := map[string]bool{}
	for step := range 12 {
		b := driver.Batch{}
		wrote := map[string]bool{}
		for range 1 + random.IntN(12) {
			key := oddKey(random.IntN(300), me)
			if _, ok := wrote[key]; ok {
				continue
			}
			wrote[key] = random.IntN(3) > 0
			w := driver.Write{Key: key}
			if wrote[key] {
				w.Value = []byte(`{"pad":"` + strings.Repeat("x", random.IntN(300)) + `"}`)
			}
			b.Writes = append(b.Writes, w)
		}
		if _, err := s.Commit(ctx, b); err != nil {
			return err
		}
		maps.Copy(mine, wrote)
		if err := agree(ctx, s, random, mine, me); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return nil
}

func oddKey(n, me int) string {
	odd := []string{"a", "\n", `\`, `\n`, "\U0010ffff", "\U0010ffff\U0010ffff", "Ä", strings.Repeat("\n", 300), "~", "+", "%41", "A", ".", "..", "\x7f"}
	return fmt.Sprintf("ready/%c%s/%d-%03d", 'a'+n%3, odd[n%len(odd)], me, n)
}

// agree reads the whole kind and parts of it in one view.
func agree(ctx context.Context, s driver.Store, random *rand.Rand, mine map[string]bool, me int) error {
	key := oddKey(random.IntN(300), me)
	q := driver.Query{Ranges: []driver.Range{{Prefix: "ready/"}}}
	for _, prefix := range []string{"ready/", "ready/0", "ready/a", "ready/c", "ready/c" + "\U0010ffff", key[:strings.LastIndex(key, "/")], key, "ready/zz"} {
		for _, limit := range []int{0, 1, -1, 1 + random.IntN(50), -1 - random.IntN(50)} {
			q.Ranges = append(q.Ranges, driver.Range{Prefix: prefix, Limit: limit})
		}
	}
	snap, err := s.Read(ctx, q)
	if err != nil {
		return err
	}
	var whole, want, got []string
	rest := snap.Records
	for i, r := range rest {
		if i > 0 && r.Key <= rest[i-1].Key {
			break
		}
		whole = append(whole, r.Key)
	}
	for _, r := range rest {
		got = append(got, r.Key)
	}
	for _, rg := range q.Ranges {
		want = append(want, rangeOf(whole, rg)...)
	}
	if !slices.Equal(got, want) {
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				return fmt.Errorf("of %d records the %d. differs; got %d: %.200q, want %.200q", len(want), i, len(got), got[min(i, len(got)):min(i+2, len(got))], want[min(i, len(want)):min(i+2, len(want))])
			}
		}
	}
	for key, there := range mine {
		if _, found := slices.BinarySearch(whole, key); found != there {
			return fmt.Errorf("%q is there: %v, want %v", key, found, there)
		}
	}
	return nil
}

func rangeOf(keys []string, rg driver.Range) (part []string) {
	for _, key := range keys {
		if strings.HasPrefix(key, rg.Prefix) {
			part = append(part, key)
		}
	}
	switch {
	case rg.Limit > 0:
		return part[:min(len(part), rg.Limit)]
	case rg.Limit < 0:
		return part[max(0, len(part)+rg.Limit):]
	}
	return part
}
