//go:build linux || darwin

package worker_test

import (
	"context"
	"fmt"
	"os"

	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

func ExampleWork() {
	ctx, st := context.Background(), store.New(memstore.New())
	_, err := task.Add(ctx, st, task.AddRequest{By: "me", Tasks: []task.New{
		{Title: "Parse tokens"}, {Title: "Write the report", Priority: task.Low},
	}})
	if err != nil {
		fmt.Println(err)
	}
	sum, err := worker.Work(ctx, st, worker.Options{
		Owner:   "me",
		Command: []string{"sh", "-c", `echo "working on $1 ($TASKLOCK_TASK_ID)"; [ $TASKLOCK_TASK_ID = t1 ]`, "sh", "{title}"},
		Stdout:  os.Stdout,
	})
	fmt.Println(sum.Completed, "completed,", sum.Failed, "failed,", err)
	// Output:
	// working on Parse tokens (t1)
	// working on Write the report (t2)
	// 1 completed, 1 failed, <nil>
}
