// Package runner runs a command under a lease and makes sure that the command
// does not go on working without it.
//
// # Guarantee
//
// The command starts after the lease was granted, and the lease is released
// after the command, and every process it left in its process group, has
// ended. While the command runs the lease is renewed. When it is lost, or can
// no longer be trusted, the group and all other descendants of the command get
// TERM, then a time of grace, then KILL, and all of that is over before the store
// may give the lease to someone else. Only a lease that somebody breaks is free at
// once; the command then gets TERM within a second or two where the store is near.
//
// This holds when the program that called [Run] is itself killed or stopped,
// if it names a guardian: a small process of the same binary that is the
// parent of the command and the leader of its group.
//
//	wrapper (Run) ── orders ──> guardian ──> command ──> its own children
//	              <── reports ──    └────── one process group ──────┘
//
// The wrapper tells the guardian again and again how long the lease may be
// relied on. What the guardian does:
//
//	the wrapper is silent for too long   TERM, grace, KILL within the ttl
//	the wrapper is gone                  TERM, half a second at most, KILL
//	the command ended                    report it; TERM, grace, KILL for what it left behind
//	the guardian itself is killed        the kernel kills the command (Linux), the wrapper the group
//
// The guardian is started before the lease is asked for, so that the lease
// record names the wrapper and the group from its first moment: only when both
// are gone is the death of the holder proved.
//
// # Limit
//
// A process that leaves the group (setsid, timeout) is not waited for when the
// command has ended, and not seen by the proof of death: while the wrapper and the
// group are gone and such a process works, the key is free. A daemon whose parent
// has ended, or a container started by a service, is out of reach. If wrapper and guardian
// are killed in the same instant, the kernel kills the command itself on
// Linux; its children, and on other systems the command, go on, and the lease
// then lasts its ttl because the group is seen to live. A command that runs
// with other rights than ours (sudo) may refuse our signals. If wrapper and
// guardian are both stopped and the command is not, nobody watches.
//
// The wrapper may be silent for half the time between trust and ttl: 20 seconds
// with the default ttl of 5 minutes. A machine that slept for longer finds its
// command stopped, although the lease might have been saved.
//
// Without a guardian a killed wrapper takes the command along on Linux only,
// without the command's children, and a stopped wrapper stops nothing. The
// lease record then names the wrapper alone. On Windows there is never a
// guardian, nor a group: the command is killed without warning and its
// children are not.
//
// # Signals and the terminal
//
// With [Options.Forward] INT, TERM, HUP, QUIT, USR1 and USR2 go to the whole
// group; what to do about them is the command's business, the lease stays. A
// signal that was ignored when the program started (nohup) stays ignored.
//
// If standard input is a terminal and the program is in its foreground, the
// group gets the terminal until it ends: it can read, and Ctrl+C reaches it
// directly. A job under a lease is not suspended: Ctrl+Z is answered with
// SIGCONT, because a suspended job would keep the lock from everyone else for as
// long as it is forgotten. A background job that is brought to the foreground
// gets the terminal then.
//
// # Tasks and jobs
//
// The runners of tasks and the scheduler of jobs call [Run] with
// [Options.Claim]: the claim of a task or of a fire time is the lease, and the
// commit that writes how it ended is the release.
//
// # Environment of the command
//
//	TASKLOCK_KEY     the key; of several, one a line
//	TASKLOCK_NAME    what was asked for: the title of a task whose key is its id
//	TASKLOCK_TOKEN   the largest fencing token
//	TASKLOCK_SLOT    the number of the slot, if the key is a pool; of several, with
//	                 spaces between them
//	TASKLOCK_LEASE   the lease; one a line for each key if they are in several
//	TASKLOCK_LEASE_STORE  added by the command line: where that lease is, without
//	                 a password; commands about the key ask there
//	TASKLOCK_OWNER   a child of the holder: tasklock inside the command may use
//	                 and renew what the command runs under, not release it
//
// A claim adds its own: runners TASKLOCK_TASK_ID, TASKLOCK_TASK_TITLE,
// TASKLOCK_TASK_SECTION and TASKLOCK_ATTEMPT.
package runner
