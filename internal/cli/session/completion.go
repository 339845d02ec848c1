package session

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// Completion offers words from the store, up to most on a line; 0: any number. A
// word may have a description after a tab. The shell hangs while it waits, so
// Completion gives up soon, and reports no errors.
func (s *Session) Completion(most int, find func(context.Context, *store.Store) ([]string, error)) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Quiet = true
		var words []string
		st, err := s.Store(ctx, false)
		if err == nil {
			words, err = find(ctx, st)
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(words, func(word string) bool {
			name, _, _ := strings.Cut(word, "\t")
			return slices.Contains(args, name)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// HeldKeys completes keys that are locked, and the pools of slots.
func (s *Session) HeldKeys() cobra.CompletionFunc {
	return s.Completion(0, func(ctx context.Context, st *store.Store) ([]string, error) {
		out, err := lease.List(ctx, st, lease.ListRequest{})
		words := term.Each(out.Locks, func(l lease.Info) string { return l.Key + "\t" + term.Clean(term.Short(l.Owner, 60)) })
		for _, l := range out.Locks {
			if pool, _, ok := lease.SlotOf(l.Key); ok && !slices.Contains(words, pool) {
				words = append(words, pool)
			}
		}
		return words, err
	})
}
