package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
)

// manyJobs measures how a pod grows with the number of jobs.
func (b *bench) manyJobs() {
	b.section("Scheduler, SQLite: many jobs")
	var took []time.Duration
	for _, n := range []int{schedule.MaxJobs / 100, schedule.MaxJobs / 10, schedule.MaxJobs} {
		took = append(took, b.dueAtOnce(n))
	}
	b.growth("the same at 1 ×, 10 ×, 100 ×", took)
	b.fireAmong(90, 9_000)
}

// dueAtOnce lets jobs with handlers come due in the same second, and returns how
// long after it the last one fired.
func (b *bench) dueAtOnce(n int) time.Duration {
	st := store.New(open(filepath.Join(b.fresh(fmt.Sprint("schedule-due-", n)), "tasklock.db")))
	lead := 5*time.Second + time.Duration(n)*5*time.Millisecond // to make the jobs takes some seconds
	at := time.Now().UTC().Add(lead).Truncate(time.Second)
	addJobs(st, n, fmt.Sprintf("%d %d %d * * *", at.Second(), at.Minute(), at.Hour()), nil)
	var fired atomic.Int64
	all := make(chan struct{})
	pod := schedule.New(st)
	for i := range n {
		pod.Handle(fmt.Sprintf("j%d", i), func(context.Context, schedule.Fire) error {
			if fired.Add(1) == int64(n) {
				close(all)
			}
			return nil
		})
	}
	pctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- pod.Run(pctx, nil) }()
	select {
	case <-all:
	case <-time.After(time.Until(at) + time.Minute): // by then, what did not fire was skipped
	}
	took := time.Since(at)
	stop()
	check(<-ended)
	b.row(fmt.Sprintf("%d jobs due in one second", n), fmt.Sprintf("%d fired within %s", fired.Load(), took.Round(time.Second/10)), "all fired", fired.Load() == int64(n))
	return took
}

// fireAmong measures what a pod uses for a job that fires each second, beside few and
// beside many that do not.
func (b *bench) fireAmong(few, many int) {
	used := func(idle int) time.Duration {
		path := filepath.Join(b.fresh(fmt.Sprintf("schedule-beside-%d", idle)), "tasklock.db")
		st := store.New(open(path))
		addJobs(st, idle, "@yearly", []string{"true"})
		_, err := schedule.Apply(ctx, st, schedule.ApplyRequest{Jobs: []schedule.Job{{Name: "busy", Cron: "* * * * * *", Command: []string{"true"}}}, By: "bench"})
		check(err)
		pod, log := b.pod(path)
		go func() {
			for log.Scan() {
			}
		}()
		defer stopPod(pod)
		time.Sleep(3 * time.Second) // its first look
		const length = 20 * time.Second
		before := cpu(pod.Process.Pid)
		time.Sleep(length)
		return (cpu(pod.Process.Pid) - before) / time.Duration(length/time.Second)
	}
	least, most := used(few), used(many)
	b.row(fmt.Sprintf("CPU a second: one job fires beside %d idle", many), fmt.Sprintf("%s, beside %d: %s", most, few, least), "<= 30ms", most <= 30*time.Millisecond)
}
