package taskcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// descriptionFlags take a long text from the line or from a file.
type descriptionFlags struct{ text, file string }

func (o *descriptionFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.text, "description", "", "the work to do")
	cmd.Flags().StringVar(&o.file, "description-file", "", "read the description from a `FILE`; - is stdin")
	cmd.MarkFlagsMutuallyExclusive("description", "description-file")
}

func (o *descriptionFlags) read(s *session.Session, cmd *cobra.Command) (text string, given bool, err error) {
	if !cmd.Flags().Changed("description-file") {
		return o.text, cmd.Flags().Changed("description"), nil
	}
	data, err := s.ReadFile(o.file, task.MaxDescription)
	return string(data), true, err
}

// tokenFlag is the fence of commands about a claim.
type tokenFlag struct {
	flag  *pflag.Flag
	token int64
	lease string // from the environment: see session.LeaseEnv
}

func (o *tokenFlag) flags(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&o.token, "token", 0, "only if the claim has this token (also: TASKLOCK_TOKEN)")
	o.flag = cmd.Flags().Lookup("token")
}

// fill checks the flag, and under run takes it from the environment when that
// speaks about the one task which is meant.
func (o *tokenFlag) fill(ctx context.Context, s *session.Session, st *store.Store, refs []string) error {
	if o.flag.Changed {
		if o.token <= 0 {
			return session.Usagef("--token: must be a positive number")
		}
		if len(refs) != 1 {
			return session.Usagef("--token goes with exactly one task")
		}
		return nil
	}
	env := s.LeaseEnv()
	if len(refs) != 1 || len(env.Keys) != 1 || env.Token == "" {
		return nil
	}
	if refs[0] != env.Keys[0] {
		if i, err := task.Show(ctx, st, refs[0]); err != nil || i.ID != env.Keys[0] {
			return nil // the verb itself will say what is wrong
		}
	}
	var err error
	o.token, err = env.Number()
	o.lease = env.Lease(env.Keys)
	return err
}

// priorityFlag is a word or a number.
type priorityFlag struct {
	value int
	given bool
}

var priorities = map[string]int{"high": task.High, "medium": task.Medium, "low": task.Low}

func (f *priorityFlag) Set(s string) error {
	n, ok := priorities[strings.ToLower(s)]
	if !ok {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 || n > 999 {
			return errors.New("must be high, medium, low, or a number from 1 (first) to 999")
		}
	}
	f.value, f.given = n, true
	return nil
}

func (f *priorityFlag) Type() string { return "priority" }

func (f *priorityFlag) String() string {
	if !f.given {
		return ""
	}
	return priorityName(f.value)
}

func priorityName(n int) string {
	for name, value := range priorities {
		if value == n {
			return name
		}
	}
	return strconv.Itoa(n)
}

// labelsFlag collects labels; one flag may hold several between commas.
type labelsFlag struct {
	list  []string
	given bool
}

func (f *labelsFlag) Set(s string) error {
	f.given = true
	for l := range strings.SplitSeq(s, ",") {
		if l = strings.TrimSpace(l); l != "" {
			f.list = append(f.list, l)
		}
	}
	return nil
}

func (f *labelsFlag) Type() string { return "label" }

func (f *labelsFlag) String() string { return strings.Join(f.list, ",") }

// workersFlag is how many owners may work in a section.
type workersFlag struct {
	value int
	given bool
}

func (f *workersFlag) Set(s string) error {
	n, err := strconv.Atoi(s)
	switch {
	case strings.EqualFold(s, "any"):
		n = task.AnyWorkers
	case err != nil || n < 1 || n > lease.MaxSlots:
		return fmt.Errorf("must be a number from 1 to %d, or any", lease.MaxSlots)
	}
	f.value, f.given = n, true
	return nil
}

func (f *workersFlag) Type() string { return "N|any" }

func (f *workersFlag) String() string {
	switch {
	case !f.given:
		return ""
	case f.value == task.AnyWorkers:
		return "any"
	}
	return strconv.Itoa(f.value)
}

func requestIDFlag(cmd *cobra.Command, id *string) {
	cmd.Flags().StringVar(id, "request-id", "", "repeat a request with this id: it has one effect")
}
