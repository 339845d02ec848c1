// Package torture races real processes for leases, kills and pauses them, and
// says what went wrong. It knows a store only by its URL, so every backend
// meets the same treatment.
//
// # How it sees a fault
//
// Workers are processes of their own: this test binary run again, which uses
// the library, or which drives the tasklock command. All of them share one
// mapped file, the register. For every key it holds the highest fencing token
// that ever entered and who is inside: a worker that finds itself pushed aside
// while its lease may still be trusted has seen an overlap, at once and without
// any log. Besides, each worker appends to a history of its own what it called,
// when, and the answer; when all have ended the histories are checked
// against the rules of package lease.
//
// # What is checked
//
//   - overlap: nobody else is let in while a holder may trust its lease;
//   - order: no token twice, and by return order they strictly grow;
//   - early: a lease is taken over no sooner than its ttl after its last
//     successful heartbeat began, or when its process was really killed;
//   - late: no later than a bound after its holder was killed;
//   - stale: renew and release with an old token change nothing;
//   - unserved: every waiter gets its turn;
//   - error: no answer but those that are answers, SQLITE_BUSY least of all;
//   - linear: the history of every key has an order that explains it;
//   - damage: the store is whole afterwards.
//
// A run in which all want slots of one pool also checks, in pool.go, that
// never more slots are in use than the pool has, whatever its size becomes, that
// who has all of it is alone, that nobody passes a waiter, and that no slot leaks.
//
// # Whether it can fail
//
// A checker that never fails proves nothing. The same run with a planted bug
// (see package plant) must report violations.
//
// # Limits
//
// All processes run on one Linux machine, because the checks compare readings
// of one monotonic clock. Runs are seeded, but the scheduler is not: a seed
// repeats the load, not the interleaving.
package torture
