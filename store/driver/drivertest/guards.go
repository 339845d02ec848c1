package drivertest

import (
	"github.com/tasklock/tasklock/store/driver"
)

var guardCases = []testCase{
	{name: "guard on an absent record", run: guardAbsent},
	{name: "guard on a record at its revision", run: guardAtRevision},
	{name: "guard on a changed record", run: guardChanged},
	{name: "guard on a deleted record", run: guardDeleted},
	{name: "guard on a recreated record", run: guardRecreated},
	{name: "guard on a record that is not written", run: guardElsewhere},
	{name: "guards are all checked", run: guardsAllChecked},
	{name: "guard repeated", run: guardRepeated},
	{name: "guard on a kind sees writes", run: kindSeesWrites},
	{name: "guard on a kind sees deletions", run: kindSeesDeletions},
	{name: "guard on a kind ignores other kinds", run: kindIgnoresOthers},
	{name: "guard on an untouched kind", run: kindUntouched},
	{name: "guard and write of one kind together", run: kindGuardAndWrite},
}

func guardAbsent(t *suite) {
	s := t.open()
	t.commit(s, driver.Batch{Guards: []driver.Guard{at("lock/a", 0)}, Writes: []driver.Write{put("lock/a", `{}`)}})
	t.conflict(s, at("lock/a", 0))
	t.holds(s, at("lock/b", 0))
	t.conflict(s, at("lock/b", 1<<40))
}

func guardAtRevision(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{"n":1}`))
	t.holds(s, at("lock/a", rev))
	t.holds(s, at("lock/a", rev)) // other commits in between change nothing
	t.conflict(s, at("lock/a", rev-1))
	t.conflict(s, at("lock/a", rev+1))
}

func guardChanged(t *suite) {
	s := t.open()
	before := t.write(s, put("lock/a", `{}`))
	after := t.write(s, put("lock/a", `{}`)) // the same value is still another revision
	t.conflict(s, at("lock/a", before))
	t.holds(s, at("lock/a", after))
}

func guardDeleted(t *suite) {
	s := t.open()
	written := t.write(s, put("lock/a", `{}`))
	deleted := t.write(s, remove("lock/a"))
	t.conflict(s, at("lock/a", written))
	t.conflict(s, at("lock/a", deleted))
	t.holds(s, at("lock/a", 0))
}

func guardRecreated(t *suite) {
	s := t.open()
	first := t.write(s, put("lock/a", `{}`))
	t.write(s, remove("lock/a"))
	second := t.write(s, put("lock/a", `{}`))
	t.conflict(s, at("lock/a", first))
	t.conflict(s, at("lock/a", 0))
	t.holds(s, at("lock/a", second))
}

func guardElsewhere(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`), put("lease/a", `{}`))
	t.commit(s, driver.Batch{
		Guards: []driver.Guard{at("lock/a", rev), at("lock/a/b", 0), at("lock/", rev)},
		Writes: []driver.Write{put("lease/a", `{"n":2}`)},
	})
	if r := t.get(s, "lock/a"); r.Rev != rev {
		t.Fatalf("a guard moved its record from revision %d to %d", rev, r.Rev)
	}
}

// guardsAllChecked breaks one guard of many, at each end and in the middle.
func guardsAllChecked(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`))
	guards := make([]driver.Guard, driver.MaxGuards)
	for i := range guards {
		guards[i] = at("lock/a", rev)
		if i%2 == 1 {
			guards[i] = at("lock/none", 0)
		}
	}
	t.holds(s, guards...)
	for _, i := range []int{0, len(guards) / 2, len(guards) - 1} {
		good := guards[i]
		guards[i] = at("lock/none", rev)
		t.conflict(s, guards...)
		guards[i] = good
	}
	t.holds(s, guards...)
}

func guardRepeated(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`))
	t.holds(s, at("lock/a", rev), at("lock/a", rev))
	t.conflict(s, at("lock/a", rev), at("lock/a", 0))
	t.conflict(s, at("lock/a", 0), at("lock/a", rev))
}

func kindSeesWrites(t *suite) {
	s := t.open()
	rev := t.write(s, put("path/a", `{}`))
	t.holds(s, at("path/", rev))
	after := t.write(s, put("path/b", `{}`))
	t.conflict(s, at("path/", rev))
	t.holds(s, at("path/", after))
	t.write(s, put("path/a", `{}`)) // an old record rewritten counts as well
	t.conflict(s, at("path/", after))
}

func kindSeesDeletions(t *suite) {
	s := t.open()
	t.write(s, put("path/a", `{}`))
	rev := t.write(s, put("path/b", `{}`))
	deleted := t.write(s, remove("path/a"))
	t.conflict(s, at("path/", rev))
	t.holds(s, at("path/", deleted))
	t.write(s, remove("path/b")) // the last one: nothing of the kind is left to look at
	t.conflict(s, at("path/", deleted))
	t.conflict(t.open(), at("path/", deleted)) // and a new handle knows it too
}

func kindIgnoresOthers(t *suite) {
	s := t.open()
	rev := t.write(s, put("path/a", `{}`))
	t.write(s, put("pat/a", `{}`), put("paths/a", `{}`), put("Path/a", `{}`), put("x/path/a", `{}`))
	t.write(s, remove("paths/a"))
	t.holds(s, at("path/", rev))
}

func kindUntouched(t *suite) {
	s := t.open()
	t.write(s, put("lock/a", `{}`))
	t.holds(s, at("path/", 0))
	t.write(s, put("path/a", `{}`))
	t.conflict(s, at("path/", 0))
	t.write(s, remove("path/a"))
	t.conflict(s, at("path/", 0)) // it is empty again, and was touched
}

// kindGuardAndWrite is how path locks are taken: look at the kind, write to
// it. A commit's own write must not break its own guard.
func kindGuardAndWrite(t *suite) {
	s := t.open()
	rev := t.read(s, driver.Query{}).Rev
	for _, key := range []string{"path/a", "path/b", "path/c"} {
		rev = t.commit(s, driver.Batch{
			Guards: []driver.Guard{at("path/", rev), at(key, 0)},
			Writes: []driver.Write{put(key, `{}`)},
		})
	}
	t.wantKeys("path/", t.scan(s, "path/"), "path/a", "path/b", "path/c")
}
