package lock

import (
	"context"
	"errors"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// Notice watches the locks of the lease and declares it lost as soon as one was
// broken or taken over, where the heartbeat alone would find out with its next
// beat. It returns when the lease is lost or ctx ends, which must be before
// [Lease.Release]: it would take that for a loss.
func (l *Lease) Notice(ctx context.Context) {
	var guards []driver.Guard
	for key, token := range l.renew.tokens {
		guards = append(guards, driver.Guard{Key: recordOf(key), Rev: token})
	}
	for ctx.Err() == nil && l.lost() == nil {
		if err := l.st.Wait(ctx, guards); err != nil {
			sleep(ctx, time.Second) // the store cannot wait now; the heartbeat goes on
			continue
		}
		for key, token := range l.renew.tokens {
			_, err := Check(ctx, l.st, CheckRequest{Key: key, Token: token})
			if errors.Is(err, ErrLost) {
				l.lose(err)
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
