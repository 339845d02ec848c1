// Package lease holds every rule about leases: who may take a key, who waits
// for it and in which order, when it is free again, and whose writes count.
//
// # Guarantee
//
// At every instant the store names at most one grant of a key, and the grants
// of a key are totally ordered by their fencing token. The token is the
// revision at which the lock record was written: it stays while the key is
// held, is larger at every later grant, and is never used twice.
//
// The store refuses what is written for a holder (renew, release, and what other
// packages put into the same transaction after [Fence]) with [ErrLost] once the
// lock is no longer at its token, and then nothing changes.
//
// # Limit
//
// No lease can stop a process that sleeps through its own deadline and then
// acts on something outside the store. A holder stops trusting its lease
// before the store can give the key to another owner (see [Window]); only the
// token catches what it does between a pause and its next look at the clock.
//
// # Failure
//
// A dead holder is replaced when its lease is older than its ttl, or at once if
// its death is proved: same boot, same pid namespace, and the process gone. Doubt
// waits for the ttl. Expiry compares two readings of the store's clock; the ttl
// is the one in the record.
//
// # Records
//
//	lock/<key>           {"key","lease","owner","since"}; its revision is the token
//	lease/<owner>/<id>   one for each acquisition, however many keys; rewritten by each heartbeat
//	queue/<key>          the leases that wait for the key, in order
//	event/<time>-<id>    what happened, for history
//	pool/<name>          the size of a pool: see pool.go
//	history/marks        how many events there were up to some revisions: see tidy.go
//	name/<name>          the tasks that bear the name: see taskname.go
//	request/<owner>/<id> the outcome of a request that its caller named: see repeat.go
//
// A waiting ticket is a lease record with waitsFor and no keys, so that it has
// the same heartbeat, ttl and proof of death as a holder.
//
// # Owners
//
// "/" in an owner means child of, and nothing else. A child may use and renew
// what its parent holds; only the owner or a parent releases. An attached
// holder ([Hold]) is a child of its own, so two of them exclude each
// other although they have one parent.
package lease
