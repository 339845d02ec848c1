package schedule

import (
	"math/bits"
	"time"
)

// Next is the first fire time after t, or the zero time if there is none.
//
// The table is in local time, which has gaps and repetitions. A fire time is the first
// instant at which the local clock shows the time of the table or a later one: a time
// that a clock change leaves out fires right after it, and one that comes twice fires
// the first time only.
func (c Cron) Next(t time.Time) time.Time {
	if c.every > 0 {
		n := int64(c.every / time.Second)
		at := t.Unix()
		return time.Unix(at-mod(at, n)+n, 0).UTC()
	}
	if c.zone == nil {
		return time.Time{}
	}
	wall, ok := c.after(latestWall(t, c.zone))
	if !ok {
		return time.Time{}
	}
	return firstShown(wall, c.zone).UTC()
}

func mod(a, n int64) int64 { return ((a % n) + n) % n }

// A wall time is what a clock on the wall shows, as if it were UTC.

// maxShift is more than any zone has ever been away from UTC, or moved.
const maxShift = 25 * time.Hour

// latestWall is the latest time that the clock has shown up to t, in whole seconds.
// It differs from what the clock shows at t only after it was set back.
func latestWall(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	wall := onWall(t)
	for start := t; ; {
		start, _ = start.ZoneBounds()
		if start.IsZero() || t.Sub(start) > maxShift {
			return wall
		}
		start = start.Add(-time.Second)
		if before := onWall(start); before.After(wall) {
			wall = before
		}
	}
}

func onWall(t time.Time) time.Time {
	y, mo, d := t.Date()
	h, mi, s := t.Clock()
	return time.Date(y, mo, d, h, mi, s, 0, time.UTC)
}

// firstShown is the first instant at which the clock shows wall or later.
func firstShown(wall time.Time, zone *time.Location) time.Time {
	start := wall.Add(-maxShift).In(zone) // the clock shows less then, wherever it is
	for {
		_, offset := start.Zone()
		_, end := start.ZoneBounds()
		if !end.IsZero() && !end.After(start) { // of a far leap year Go leaves out the last day
			end = start.Add(time.Hour)
		}
		at := wall.Add(-time.Duration(offset) * time.Second)
		switch {
		case at.Before(start):
			return start // it came to this by jumping over wall
		case end.IsZero() || at.Before(end):
			return at
		}
		start = end
	}
}

// cycle is after how many months the calendar repeats itself, weekdays included.
const cycle = 400 * 12

// after is the first time of the table after wall.
func (c Cron) after(wall time.Time) (time.Time, bool) {
	y, m, d := wall.Date()
	from, ok := c.clock(wall.Clock())
	if ok && c.matches(y, m, d) {
		return time.Date(y, m, d, 0, 0, from, 0, time.UTC), true
	}
	start, _ := c.clock(0, 0, -1)
	for range cycle + 1 {
		if c.month&(1<<m) != 0 {
			for d++; d <= daysIn(y, m); d++ {
				if c.matches(y, m, d) {
					return time.Date(y, m, d, 0, 0, start, 0, time.UTC), true
				}
			}
		}
		d = 0
		if m++; m > 12 {
			y, m = y+1, 1
		}
	}
	return time.Time{}, false
}

// clock is the first time of day of the table after that one, in seconds.
func (c Cron) clock(h, m, s int) (seconds int, ok bool) {
	if s, ok := next(c.second, s+1); ok && has(c.hour, h) && has(c.minute, m) {
		return h*3600 + m*60 + s, true
	}
	second, _ := next(c.second, 0)
	if m, ok := next(c.minute, m+1); ok && has(c.hour, h) {
		return h*3600 + m*60 + second, true
	}
	minute, _ := next(c.minute, 0)
	h, ok = next(c.hour, h+1)
	return h*3600 + minute*60 + second, ok
}

// matches reports whether the table has that day.
func (c Cron) matches(y int, m time.Month, d int) bool {
	if c.month&(1<<m) == 0 {
		return false
	}
	day := has(c.day, d)
	weekday := has(c.weekday, int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday()))
	if c.both {
		return day && weekday
	}
	return day || weekday
}

func daysIn(y int, m time.Month) int { return time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day() }

func has(set uint64, v int) bool { return set&(1<<v) != 0 }

// next is the smallest value of the set that is not below from.
func next(set uint64, from int) (int, bool) {
	set = set >> from << from
	return bits.TrailingZeros64(set), set != 0
}
