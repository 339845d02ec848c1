package drivertest

import (
	"fmt"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

var ageCases = []testCase{
	{name: "age of a record", run: ageIsReal},
	{name: "age is reset by a write", run: ageIsReset},
	{name: "clock does not go back", run: clockMonotonic},
	{name: "deadline of a record", run: deadlines},
}

// slack is how far the store's clock may be from ours over a short time.
func (t *suite) slack() time.Duration {
	if t.h.Slow {
		return 1500 * time.Millisecond
	}
	return 100 * time.Millisecond
}

func age(snap driver.Snapshot, key string) time.Duration {
	return snap.Now.Sub(find(snap, key).Time)
}

// ageIsReal compares the age with our own measurement. To the handle that wrote
// the record it is exact; to another one it is never more than that, because a
// record that looks too old is a lock taken from a living holder.
func ageIsReal(t *suite) {
	s, other := t.open(), t.open()
	q := driver.Query{Keys: []string{"lease/a"}}
	called := time.Now()
	t.write(s, put("lease/a", `{}`))
	returned := time.Now()

	last := time.Duration(-1)
	for range 3 {
		lower := time.Since(returned)
		snap := t.read(s, q)
		upper := time.Since(called)
		got := age(snap, "lease/a")
		if got < 0 || got < lower-t.slack() || got > upper+t.slack() {
			t.Fatalf("a record between %v and %v old has age %v", lower, upper, got)
		}
		if got <= last {
			t.Fatalf("age %v after age %v", got, last)
		}
		last = got

		snap = t.read(other, q)
		if got, upper := age(snap, "lease/a"), time.Since(called); got < 0 || got > upper+t.slack() {
			t.Fatalf("to another handle, a record at most %v old has age %v", upper, got)
		}
		time.Sleep(t.slack() * 3 / 2)
	}
}

func ageIsReset(t *suite) {
	s := t.open()
	q := driver.Query{Keys: []string{"lease/a", "lease/b"}}
	t.write(s, put("lease/a", `{}`), put("lease/b", `{}`))
	time.Sleep(3 * t.slack())
	called := time.Now()
	t.write(s, put("lease/a", `{}`))
	snap := t.read(s, q)
	upper := time.Since(called) + t.slack()
	if a, b := age(snap, "lease/a"), age(snap, "lease/b"); a < 0 || a > upper || b < 2*t.slack() {
		t.Fatalf("the record written again has age %v, the other %v", a, b)
	}
}

func clockMonotonic(t *suite) {
	a, b := t.open(), t.open()
	var last time.Time
	for i := range t.rounds(50) {
		s := []driver.Store{a, b}[i%2]
		t.write(s, put("lease/a", `{}`))
		snap := t.read(s, driver.Query{Keys: []string{"lease/a"}})
		if snap.Now.Before(last) {
			t.Fatalf("the store's clock went from %v to %v", last, snap.Now)
		}
		last = snap.Now
		if got := age(snap, "lease/a"); got < 0 {
			t.Fatalf("age %v", got)
		}
	}
}

// deadlines has a record that nobody touches, one that is renewed, and one that
// loses its ttl. An expired record stays, and is older than its ttl.
func deadlines(t *suite) {
	s := t.open()
	ttl := 4 * t.slack()
	with := func(key string, ttl time.Duration) driver.Write {
		return driver.Write{Key: key, Value: []byte(`{}`), TTL: ttl}
	}
	over := func(key string) bool {
		snap := t.read(s, driver.Query{Keys: []string{key}})
		if find(snap, key).Rev == 0 {
			t.Fatalf("%s is gone", key)
		}
		return age(snap, key) > ttl
	}

	called := time.Now()
	renewed := called
	t.write(s, with("lease/left", ttl), with("lease/renewed", ttl), with("lease/kept", ttl))
	for !over("lease/left") {
		elapsed := time.Since(called)
		if elapsed > ttl+t.patience {
			t.Fatalf("ttl %v is not over after %v", ttl, elapsed)
		}
		if elapsed < ttl { // renew before it expires
			renewed = time.Now()
			t.write(s, with("lease/renewed", ttl), put("lease/kept", `{}`))
		}
		time.Sleep(ttl / 8)
	}
	if over("lease/renewed") && time.Since(renewed) < ttl {
		t.Fatalf("renewed with ttl %v less than %v ago, and over", ttl, time.Since(renewed))
	}
	if elapsed := time.Since(called); elapsed < ttl-t.slack()/2 {
		t.Fatalf("ttl %v was over after %v", ttl, elapsed)
	}

	if r := t.get(s, "lease/kept"); r.Rev == 0 {
		t.Fatal("a record rewritten without a ttl was dropped at its old one")
	}
	if err := eventually(t.patience+ttl, func() bool { return over("lease/renewed") }); err != nil {
		t.Fatalf("the renewed record never ended: %v", err)
	}
	if r := t.get(s, "lease/kept"); r.Rev == 0 {
		t.Fatal("a record without a ttl was dropped")
	}
}

func eventually(within time.Duration, done func() bool) error {
	for start := time.Now(); !done(); time.Sleep(within / 100) {
		if time.Since(start) > within {
			return fmt.Errorf("not after %v", within)
		}
	}
	return nil
}
