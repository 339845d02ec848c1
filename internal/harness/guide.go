package harness

// Guide is what an agent needs to know, in some 400 tokens at most.
const Guide = `tasklock keeps workers from doing the same work twice. What is locked here is
locked in every worktree of this repository.

A task, in one call each:
  tasklock next --claim                        the next ready task with its text; exit 4: none
  tasklock tasks claim t7 --worktree           a certain one, in a git worktree of its own
  tasklock tasks complete t7 --next            and claim the next; or: tasklock tasks unclaim t7
  tasklock tasks list

Files:
  tasklock acquire path:src/api                keeps others out of src/api and below
  tasklock release path:src/api
  tasklock guard check                         do unsaved changes touch others' paths?

Anything else:
  tasklock acquire deploy --wait 90s           again after exit 6 keeps your place in the queue
  tasklock run deploy -- make deploy           held exactly while the command runs
  tasklock run pool:t --slots 4 -- make test   at most 4 at a time
  tasklock land -- make test                   rebase, test, push this branch in turn
  tasklock list --mine
  tasklock whoami

Exit 6: another owner has it; the answer names the holder, the expiry and the
next command. Exit 7: the lease was lost, and what it guarded is someone else's.
Every command renews what its owner holds; --keep-alive auto renews while the
agent's process lives. Locks of a session end with it.
`

// agentsText is the paragraph in the file of guidance that a harness reads.
const agentsText = `## Shared work: tasklock

Several agents work in this repository. Tasks and files that one of them works on are locked with tasklock:
` + "`tasklock next --claim`" + ` takes the next task, ` + "`tasklock acquire path:DIR`" + ` keeps others out of files,
` + "`tasklock release --all`" + ` releases everything. ` + "`tasklock guide`" + ` has the rest.`
