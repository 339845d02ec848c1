package setupcmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
)

func NewKeys(s *session.Session) *cobra.Command {
	return session.Group("keys", "Make and revoke the access keys of tasklock serve", newKeysAddCmd(s), newKeysListCmd(s), newKeysRevokeCmd(s))
}

// maxExpires is the longest time that --expires takes: five years.
const maxExpires = 5 * 365 * 24 * time.Hour

func newKeysAddCmd(s *session.Session) *cobra.Command {
	role, expires := "", session.DurationFlag{Min: time.Minute, Max: maxExpires}
	r := access.AddRequest{}
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Make an access key and print it, once",
		Long: `Make an access key for tasklock serve, in the store of this folder, and print it.
Nobody can print it again: the store has only a hash of it. --quiet prints the key alone.

Roles, each with what those before it may do:
  viewer    look at locks, tasks and jobs
  worker    take, renew and end what is below its owner
  operator  end the work of others
  admin     make and revoke keys
  peer      none of that: read and write every record of the store, as a password of
            the database allows. It is for --store https://HOST, with serve --peers

A key acts as a child of its --owner: what it takes has a holder like ci/REQUEST. So a
key for each machine or team keeps them apart.`,
		Example: `  tasklock keys add --role worker --owner ci --name "runners of the shop"
  tasklock keys add --role viewer --expires 720h
  KEY=$(tasklock keys add --role worker --owner nightly --quiet)`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error {
			id, st, err := s.Act(ctx, true)
			if err != nil {
				return err
			}
			r.Role, r.Expires, r.By, r.DryRun = access.Role(role), expires.Value, id.Owner, s.DryRun
			out, err := access.Add(ctx, st, r)
			if err != nil {
				return err
			}
			return s.AnswerNames(out, []string{out.Secret}, func(p *term.Printer) { printKey(p, out) })
		}),
	}
	f := cmd.Flags()
	f.StringVar(&role, "role", "", "what the key allows: `ROLE` is viewer, worker, operator, admin or peer")
	f.StringVar(&r.Owner, "owner", "", "the owner below which the key acts")
	f.StringVar(&r.Name, "name", "", "what the key is for, shown in lists")
	f.Var(&expires, "expires", "the key ends after this long (default: never)")
	_ = cmd.MarkFlagRequired("role")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(term.Each(access.Roles, func(r access.Role) string { return string(r) }), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func printKey(p *term.Printer, k access.AddResult) {
	what := fmt.Sprintf("a key of role %s", k.Role)
	if k.Owner != "" {
		what += " for " + k.Owner
	}
	if k.Expires != nil {
		what += ", until " + term.Stamp(*k.Expires)
	}
	p.Line("%s %s.", p.Did("Made", "Would make"), what)
	if k.Secret != "" {
		p.Line("%s", k.Secret)
		p.Line("Keep it now: nobody can show it again. To end it: tasklock keys revoke %s", k.ID)
	}
}

func newKeysListCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the access keys, without their secrets",
		Long: `List the access keys, without their secrets.

In a pipe, tabs separate the fields: id, role, owner, state, since when, until when, and
the name. The state is valid, expired, orphan (the key that made it has ended) or damaged.
--quiet prints only the ids.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error {
			out, err := access.List(ctx, st)
			if err != nil {
				return err
			}
			ids := term.Each(out.Keys, func(k access.Key) string { return k.ID })
			return s.AnswerNames(out, ids, func(p *term.Printer) { printKeys(p, out.Keys) })
		}),
	}
}

func printKeys(p *term.Printer, keys []access.Key) {
	var rows [][]term.Text
	for _, k := range keys {
		look, since, until := term.Green, term.Stamp(k.Since), ""
		if k.State != access.Valid {
			look = term.Yellow
		}
		if p.Wide {
			since = p.Relative(k.Since)
		}
		if k.Expires != nil {
			until = term.Stamp(*k.Expires)
		}
		rows = append(rows, term.Row(term.Strong.Of(k.ID), string(k.Role), term.Short(k.Owner, 40), look.Of(string(k.State)), since, until, term.Short(k.Name, 60)))
	}
	p.List("No access keys.", []string{"ID", "ROLE", "OWNER", "STATE", "SINCE", "UNTIL", "NAME"}, rows)
}

func newKeysRevokeCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID...",
		Short: "End access keys, and those that they made",
		Long: `End access keys, and those that they made: all, or none if one does not exist.

Every server of the store notices within two seconds, and ends the requests that the
keys have opened. What they hold stays until it expires, or until somebody breaks it.

Exit codes:
  4  there is no such key`,
		Example: `  tasklock keys revoke 4nqvb2x7aa`,
		Args:    session.AtLeastOne("id"),
		ValidArgsFunction: s.Completion(0, func(ctx context.Context, st *store.Store) ([]string, error) {
			out, err := access.List(ctx, st)
			return term.Each(out.Keys, func(k access.Key) string {
				return k.ID + "\t" + term.Clean(strings.TrimSpace(string(k.Role)+" "+term.Short(k.Owner+" "+k.Name, 60)))
			}), err
		}),
		RunE: s.RunAs(func(ctx context.Context, st *store.Store, by string, ids []string) error {
			return session.Reply(s, func(p *term.Printer, out access.RevokeResult) {
				for _, k := range out.Revoked {
					p.Line("%s key %s.", p.Did("Revoked", "Would revoke"), k.ID)
				}
			})(access.Revoke(ctx, st, access.RevokeRequest{IDs: ids, By: by, DryRun: s.DryRun}))
		}),
	}
}
