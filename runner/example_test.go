//go:build linux || darwin

package runner_test

import (
	"context"
	"fmt"
	"os"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
)

func ExampleRun() {
	st := store.New(memstore.New())
	res, err := runner.Run(context.Background(), st, runner.Options{
		Acquire: lease.AcquireRequest{Keys: []string{"deploy"}, Owner: "ci:7"},
		Command: []string{"sh", "-c", "echo holding $TASKLOCK_KEY; exit 3"},
		Stdout:  os.Stdout,
	})
	fmt.Println(res.ExitCode, err)
	// Output:
	// holding deploy
	// 3 <nil>
}
