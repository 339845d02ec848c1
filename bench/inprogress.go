package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// inProgress measures how a claim grows with the tasks that others work on.
func (b *bench) inProgress() {
	b.section("Claims among tasks in progress, SQLite")
	path := filepath.Join(b.fresh("in-progress"), "tasklock.db")
	st := store.New(open(path))
	fill(st, 20_000)
	busy := 0
	claim := func(owner string) (task.NextResult, time.Duration) {
		start := time.Now()
		got, err := task.Next(ctx, st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: owner, TTL: time.Hour}})
		check(err)
		return got, time.Since(start)
	}
	none, alone := time.Duration(0), 0.0
	for _, n := range []int{0, 128, 1024} {
		for ; busy < n; busy++ {
			claim(fmt.Sprint("busy", busy))
		}
		var took []time.Duration
		for range 200 {
			got, d := claim("bench")
			took = append(took, d)
			_, err := task.ChangeStatus(ctx, st, task.StatusRequest{Verb: task.Complete, Tasks: []string{got.Task.ID}, Owner: "bench", Token: got.Grant.Token})
			check(err)
		}
		p50 := percentile(took, 0.5)
		rate := b.claims(path, 8)
		if n == 0 {
			none, alone = p50, rate
			b.note("next --claim, none in progress", fmt.Sprintf("%s; 8 workers claim and complete %.0f/s", p50.Round(time.Microsecond), rate))
			continue
		}
		times, share := float64(p50)/float64(none), rate/alone
		b.row(fmt.Sprintf("next --claim, %d in progress", n), fmt.Sprintf("%s, %.2f × as long as with none", p50.Round(time.Microsecond), times), "<= 2 ×", times <= 2)
		b.row(fmt.Sprintf("8 workers, %d in progress", n), fmt.Sprintf("%.0f/s, %.2f × those with none", rate, share), ">= 0.75 ×", share >= 0.75)
	}
}
