package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseFile(t *testing.T) {
	jobs, err := ParseFile([]byte(`
jobs:
  digest:
    cron: "0 6 * * *"
    tz: Europe/Vienna
    command: [./digest, --all]
    env: {WHO: all}
    ttl: 10m
    max-run: 1h
    jitter: 30s
    misfire: once
    overlap: queue
    on-crash: retry
    max-attempts: 5
    keep: 7
    keep-for: 48h
  probe: {cron: "@every 10s", command: ["true"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Job{
		Name: "digest", Cron: "0 6 * * *", Zone: "Europe/Vienna", Command: []string{"./digest", "--all"}, Env: map[string]string{"WHO": "all"},
		TTL: 10 * time.Minute, MaxRun: time.Hour, Jitter: 30 * time.Second, Misfire: MisfireOnce, Overlap: OverlapQueue, OnCrash: CrashRetry,
		MaxAttempts: 5, Keep: 7, KeepFor: 48 * time.Hour,
	}
	if d := difference(jobs[0], want); len(jobs) != 2 || d != nil {
		t.Errorf("%d jobs, %v", len(jobs), d)
	}
	if jobs[1].Zone != "UTC" || jobs[1].TTL != defaultTTL {
		t.Errorf("%+v", jobs[1])
	}
	if none, err := ParseFile([]byte("jobs: {}")); err != nil || len(none) != 0 {
		t.Errorf("no jobs: %v, %v", none, err)
	}
}

func TestParseFileRefuses(t *testing.T) {
	const job = "jobs:\n  x: {cron: '@daily', command: ['true']"
	for _, c := range []struct {
		text string
		line int
		why  string
	}{
		{job + ", every: day}", 2, `unknown key "every"`},
		{"", 0, "needs the key jobs"}, // with --prune it would remove all
		{"jobs:", 0, "needs the key jobs"},
		{"job: {}", 1, `unknown key "job"`},
		{job + ", ttl: 60}", 2, "not a duration"},
		{job + ", ttl: -5s}", 2, "not a duration"},
		{job + ", keep: many}", 2, "`many`: must be a whole number"},
		{job + ", misfire: maybe}", 2, "must be skip, once or all"},
		{job + "}\n  x: {cron: '@daily', command: ['true']}", 3, "already defined"},
		{"jobs:\n  x: {cron: '@daily'}", 2, "needs a command"},
		{"jobs:\n  x: {cron: '@daily', command: echo hi}", 2, "`echo hi`: must be a list of words"},
		{"jobs:\n  a/b: {cron: '@daily', command: ['true']}", 2, "name of a job"},
		{"jobs:\n\tx: {}", 2, "cannot start any token"},
		{job + "}\n---\njobs: {}", 0, "more than one document"},
		{"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\njobs: *d", 0, ""},
		{strings.Repeat("#", MaxFile+1), 0, "more than 8 MB"},
		{"[]", 0, "must be a map"},
		{"jobs: [a, b]", 1, "must be a map"},
		{"jobs:\n  x: daily", 2, "`daily`: must be a map"},
		{job + ", cron: [1, 2]}", 2, ""},
		{job + ", tz: [UTC]}", 2, "must be text"},
		{job + ", misfire: {a: b}}", 2, "must be text"},
	} {
		_, err := ParseFile([]byte(c.text))
		var wrong *FileError
		if !errors.As(err, &wrong) || c.line > 0 && wrong.Line != c.line || !strings.Contains(wrong.Why, c.why) {
			t.Errorf("%.80q: %v, want line %d and %q", c.text, err, c.line, c.why)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte("jobs:\n  x: {cron: '@daily', command: ['true'], ttl: 5m}"))
	f.Add([]byte("jobs: [1]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		jobs, err := ParseFile(data)
		if err != nil {
			return
		}
		for _, j := range jobs {
			again, err := j.normal()
			if err != nil || difference(j, again) != nil {
				t.Fatalf("%+v: %v, %v", j, err, difference(j, again))
			}
		}
	})
}
