package legacy

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestPercolate(t *testing.T) {
	f := files(map[string]string{
		"schedules.json": "\ufeff" + `[{"id": "abc-1", "name": "daily-digest", "cron": "0 6 * * *", "spec": {"task": "digest"}, "disabled": false},
 {"id": "abc-2", "name": "daily-digest", "schedule": "0 7 * * *", "spec": null, "disabled_at": "2026-01-01"},
 {"id": "abc-3", "name": "bad", "cron": "every day", "spec": ""},
 {"id": "abc-4", "name": "weekly/x", "cron": "0 6 * * 1"}, {"id": "abc-5", "name": "none", "cron": null}]`,
		"locks.csv": fmt.Sprintf("id,key,value\n1,task_lock:daily-digest:abc-2,\"{\"\"process_id\"\": \"\"pod-1-12345-a1b2c3\"\", \"\"acquired_at\"\": %d.5, \"\"expires_at\"\": %d.5}\"\n"+
			"2,task_lock:gone:xyz,\"{\"\"process_id\"\": \"\"p\"\", \"\"acquired_at\"\": 1719509520.5, \"\"expires_at\"\": 1719509820.5}\"\n3,other,1\n", ago(time.Minute), ago(-4*time.Minute)),
	})
	s, err := readPercolate(f, []string{"schedules.json", "locks.csv"}, now)
	want := []string{
		"lock job:daily-digest abc-2 pod-1-12345-a1b2c3 4m0.5s since 59.5s pod-1:12345", "expired 1",
		"problem schedules.json, row 3", "problem schedules.json, row 5", "warning schedules.json, row 2", "warning schedules.json, row 4", "warning schedules.json, row 4",
	}
	if diff := cmp.Diff(want, summary(s)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	st := store.New(memstore.New())
	for round := range 2 {
		out, err := Adopt(t.Context(), st, AdoptRequest{Source: s, By: "me", From: "percolate:x", Now: now, Force: true})
		if err != nil || out.Jobs != 3*(1-round) || out.Already != 3*round || out.Locks != 1 {
			t.Errorf("%+v, %v", out, err)
		}
	}
	for name, cron := range map[string]string{"daily-digest": "0 6 * * *", "daily-digest abc-2": "0 7 * * *", "weekly-x": "0 6 * * 1"} {
		j, err := schedule.Show(t.Context(), st, name)
		if err != nil || !j.Paused || j.Cron != cron || len(j.Command) > 0 || j.Next != nil {
			t.Errorf("%s: %+v, %v", name, j, err)
		}
	}
	if j, _ := schedule.Show(t.Context(), st, "daily-digest"); j.Env["SCHEDULE_SPEC"] != `{"task":"digest"}` || j.Env["SCHEDULE_ID"] != "abc-1" {
		t.Errorf("%+v", j.Env)
	}
	for _, text := range []string{"", "[]", "null", `[{"a": 1}]`} {
		if _, err := readPercolate(files(map[string]string{"x.json": text}), []string{"x.json"}, now); !errors.Is(err, driver.ErrMissing) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := readPercolate(files(map[string]string{"x.json": "[{"}), []string{"x.json"}, now); !errors.Is(err, driver.ErrDamaged) {
		t.Error(err)
	}
}
