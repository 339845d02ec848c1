package schedule_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
)

// A service defines its jobs, says what they do, and runs the scheduler in
// every one of its pods: each fire time is handled by one of them.
func ExampleScheduler_Handle() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	st := store.New(memstore.New())
	_, err := schedule.Apply(ctx, st, schedule.ApplyRequest{
		By:   "digest-service",
		Jobs: []schedule.Job{{Name: "daily-digest", Cron: "0 6 * * *", Zone: "Europe/Vienna"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := schedule.Trigger(ctx, st, schedule.ChangeRequest{Name: "daily-digest", By: "example"}); err != nil { // do not wait until six
		fmt.Println(err)
		return
	}
	pods := schedule.New(st).Handle("daily-digest", func(_ context.Context, f schedule.Fire) error {
		fmt.Println("sending the digest, attempt", f.Attempt)
		stop()
		return nil
	})
	fmt.Println(pods.Run(ctx, nil))
	// Output:
	// sending the digest, attempt 1
	// <nil>
}
