//go:build linux

package torture

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

func (s *stage) context() context.Context { return context.Background() }

// TestKillAtEverySystemCall ends each operation by SIGKILL at each of its
// system calls: a new process sees exactly what was before or what is after.
func TestKillAtEverySystemCall(t *testing.T) {
	needStrace(t)
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			s := newStage(t, o)
			var kills atomic.Int64
			points := s.points(14)
			inParallel(4, points, func(p point) {
				dir := s.copy(t, fmt.Sprintf("%s-%d", p.call, p.k))
				defer os.RemoveAll(dir)
				out, err := s.command(dir, []string{
					"-o", "/dev/null", "-e", "trace=" + p.call,
					"-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", p.call, p.k),
				}, s.args...).Output()
				if killed(err) {
					kills.Add(1)
				}
				if err := s.sound(dir, acknowledged(out)); err != nil {
					t.Errorf("killed at %s %d: %v", p.call, p.k, err)
				}
			})
			t.Logf("%s: killed at %d of %d system calls %v", o.name, kills.Load(), len(points), s.counts)
			if int(kills.Load()) < len(points)/2 {
				t.Errorf("only %d of %d runs were killed: nothing was shown", kills.Load(), len(points))
			}
		})
	}
}

// inParallel does all points, n at a time.
func inParallel[T any](n int, all []T, do func(T)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, n)
	for _, p := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(p)
		})
	}
	wg.Wait()
}
