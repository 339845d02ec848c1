// Package schedule fires jobs: any number of pods have the same jobs, and one of them
// runs each fire time.
//
// # Guarantee
//
// Each fire time is claimed once. The claim writes the record of the fire time,
// moves the job to its next one and takes the job's lock in one commit that
// fails if any of them has changed: a pod whose clock is late, or that sleeps
// in between, finds the fire time taken, long after the run may have ended. By
// default a run is started at most once. With [CrashRetry] it is started again
// when its pod dies, so at least once, and [Fire.RunID] is the same every time.
//
// Every fire time ends in a record: done, failed, lost, or skipped with the reason; a
// series of skipped ones shares a record, so that an outage leaves few behind.
//
// # Limit
//
// When a pod dies, nobody knows how far its run came. A paused pod may let its command
// work until it, or the guardian of the command, notices (see package runner); the
// store refuses what it reports afterwards.
//
// # Failure
//
// A run belongs to a lease on "job:<name>" (or, where runs may overlap, on
// "job:<name>@<fire time>"), which its pod renews. When that lease ends without
// the run having been reported, whichever pod looks next marks it lost, or
// starts it again. On the same machine a death is seen within a second,
// elsewhere after the ttl.
//
// # Time
//
// Fire times are instants, computed from the table by [Cron.Next] when the one before
// is claimed, and stored. The store's clock decides what is due. A fire time that is
// claimed within 30 seconds is on time. If the store keeps a pod from claiming, the pod
// tries again every few seconds, and the record of the missed times says why.
//
// # Records
//
//	job/<name>               the definition
//	due/<name>               the next fire time, what was triggered, what runs
//	fire/<name>/<fire time>  what became of it
//
// A pod reads the second kind in one scan and sleeps until the earliest fire
// time or the next change: idle jobs cost nothing.
package schedule
