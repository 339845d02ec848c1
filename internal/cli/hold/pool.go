package hold

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
)

// slotsFlag is a number of slots; with all also "all".
type slotsFlag struct {
	n   int // 0: not given; lease.TakeAll
	all bool
}

func (f *slotsFlag) Type() string {
	if f.all {
		return "N|all"
	}
	return "N"
}

func (f *slotsFlag) String() string {
	switch f.n {
	case 0:
		return ""
	case lease.TakeAll:
		return "all"
	}
	return strconv.Itoa(f.n)
}

func (f *slotsFlag) Set(s string) error {
	if f.all && s == "all" {
		f.n = lease.TakeAll
		return nil
	}
	n, err := strconv.Atoi(s)
	switch bad := err != nil || n < 1 || n > lease.MaxSlots; {
	case bad && f.all:
		return fmt.Errorf("must be between 1 and %d, or all", lease.MaxSlots)
	case bad:
		return fmt.Errorf("must be between 1 and %d", lease.MaxSlots)
	}
	f.n = n
	return nil
}

// PoolFlags adds --slots and --take.
func (o *TakeOptions) PoolFlags(cmd *cobra.Command) {
	o.take.all = true
	cmd.Flags().Var(&o.slots, "slots", "of pool:NAME: make it with so many slots, or require that it has them")
	cmd.Flags().Var(&o.take, "take", "of pool:NAME: how many slots to take, or all (default 1)")
	_ = cmd.RegisterFlagCompletionFunc("take", cobra.FixedCompletions([]string{"all"}, cobra.ShellCompDirectiveNoFileComp))
}
