package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// trouble is why a pod could not look at its jobs, or claim one of them, and when it
// tries again. The pod remembers it for a while: the record of a missed fire time says
// why.
type trouble struct {
	began time.Time // the first failed attempt
	last  time.Time // the last one
	until time.Time // no attempt before
	n     int       // attempts that failed in a row
	err   error
}

const (
	podRest = 3 * time.Second  // at most, between two attempts at a store; a second more by chance
	jobRest = 12 * time.Second // at a job that cannot be claimed for a reason of its own

	// How late a pod may be that rested while the store came back.
	restExcuse = 5 * time.Second

	troubleKept = 10 * time.Minute // it may still be why a fire time was missed
)

// again is the trouble after another attempt that failed. The first rest is one to
// two seconds, and all are far below onTime.
func (t trouble) again(from, now time.Time, err error, most time.Duration) trouble {
	if gap := from.Sub(t.last); t.n == 0 && gap > restExcuse || gap > troubleKept {
		t = trouble{began: from}
	}
	rest := min(time.Second<<min(t.n, 10), most) + time.Duration(rand.Int64N(int64(time.Second)))
	t.last, t.until, t.err = now, now.Add(rest), err
	t.n++
	return t
}

// outage is a trouble by the clock of the store.
type outage struct {
	began, last, until time.Time
	why                string
}

// at moves a trouble to another clock.
func (t trouble) at(local, store time.Time) *outage {
	if t.began.IsZero() || local.Sub(t.last) > troubleKept {
		return nil
	}
	shift := func(x time.Time) time.Time { return store.Add(x.Sub(local)) }
	return &outage{began: shift(t.began), last: shift(t.last), until: shift(t.until), why: oneLine(t.err)}
}

// oneLine is an error as a record has it.
func oneLine(err error) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), "?")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// limit is the start before which a fire time counts as missed. A pod that rested when
// the store came back is not late because of its rest.
func (s situation) limit() time.Time {
	if o := s.outage; o != nil && !s.now.Before(o.last) && s.now.Before(o.until.Add(restExcuse)) {
		return o.last.Add(-onTime)
	}
	return s.now.Add(-onTime)
}

// hindered reports whether a start was not yet due, or in time, when the outage began.
func (o *outage) hindered(start time.Time) bool {
	return o != nil && !start.Add(onTime).Before(o.began) && !start.After(o.last)
}

// whyMissed says what kept pods from the fire times between two starts.
func (s situation) whyMissed(first, last time.Time) string {
	const nobody = "no pod was there or free"
	o := s.outage
	could := func() string {
		return fmt.Sprintf("could not be claimed for %s: %s", max(o.last.Sub(o.began), time.Second).Round(time.Second), o.why)
	}
	switch {
	case o.hindered(first):
		return could()
	case o.hindered(last):
		return nobody + ", and then it " + could()
	}
	return nobody
}

// lastSaid is what the log has said of a trouble.
type lastSaid struct {
	text string
	at   time.Time
}

// tellAgain is how often the log repeats what has not changed.
const tellAgain = 30 * time.Second

// new reports whether the log has not said that lately.
func (s *lastSaid) new(text string, now time.Time) bool {
	if text == s.text && now.Sub(s.at) < tellAgain {
		return false
	}
	*s = lastSaid{text, now}
	return true
}

// storeFailed notes that an attempt at the store failed, and returns how long the pod
// rests.
func (p *pod) storeFailed(from time.Time, err error, reading bool) time.Duration {
	now := time.Now()
	p.mu.Lock()
	if p.trouble.n > 0 && from.Before(p.trouble.last) { // it was under way when the last one failed
		p.mu.Unlock()
		return p.restLeft()
	}
	p.trouble, p.reading = p.trouble.again(from, now, err, podRest), reading
	rest := p.trouble.until.Sub(now)
	say := p.said.new(err.Error(), now)
	p.mu.Unlock()
	if say {
		p.say(LogEntry{Level: LevelWarn, Event: "trouble"}, "The store cannot be used, trying again: %v", err)
	}
	time.AfterFunc(rest, p.wake)
	return rest
}

// storeRead notes that a look succeeded. That proves nothing about commits.
func (p *pod) storeRead() {
	p.mu.Lock()
	reading := p.reading
	p.mu.Unlock()
	if reading {
		p.storeAnswered("", false)
	}
}

// storeAnswered notes that an attempt succeeded, at a job or at a look. Without a
// commit it proves only that the store can be read.
func (p *pod) storeAnswered(job string, committed bool) {
	p.mu.Lock()
	f := p.failed[job]
	delete(p.failed, job)
	over := p.trouble.n > 0 && (committed || p.reading)
	took := p.trouble.last.Sub(p.trouble.began)
	if over {
		p.trouble.n, p.reading, p.said = 0, false, lastSaid{}
	}
	p.mu.Unlock()
	if over {
		p.say(LogEntry{Event: "recovered"}, "The store can be used again, after %s", took.Round(time.Second))
		p.wake()
	}
	if f.n > 0 {
		p.say(LogEntry{Event: "mended", Job: job}, "Job %s can be claimed again", job)
	}
}

// jobFailed notes that a job could not be claimed for a reason of its own.
func (p *pod) jobFailed(c candidate, from time.Time, err error) {
	now := time.Now()
	p.mu.Lock()
	f := p.failed[c.job]
	say := f.n == 0 || f.rev != c.rev || f.err.Error() != err.Error()
	f = failure{c.rev, f.again(from, now, err, jobRest)}
	p.failed[c.job] = f
	p.mu.Unlock()
	var bad *DamagedError
	switch {
	case !say:
	case errors.As(err, &bad):
		p.say(LogEntry{Level: LevelWarn, Event: "damaged", Job: c.job}, "%s", bad.warning())
	default:
		p.say(LogEntry{Level: LevelWarn, Event: "trouble", Job: c.job}, "%s: %v", c.job, err)
	}
	p.wakeIfOnce()
	time.AfterFunc(f.until.Sub(now), p.wake)
}

// troubleWith is what kept this pod from a job lately.
func (p *pod) troubleWith(job string) trouble {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, ok := p.failed[job]; ok {
		return f.trouble
	}
	return p.trouble
}
