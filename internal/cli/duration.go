package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// parseDuration reads a duration with its unit: 90s, 1h30m, 2d. A bare number
// is refused: it would be minutes to one reader and seconds to the next.
func parseDuration(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		days, rest = "0", s
	}
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n > 36500 || n < -36500 {
		return 0, errDuration(s)
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" && ok {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if _, bare := strconv.ParseFloat(rest, 64); err != nil || bare == nil || ok && more < 0 {
		return 0, errDuration(s)
	}
	return d + more, nil
}

func errDuration(s string) error {
	return fmt.Errorf("duration %q: needs a number with a unit, like 90s, 15m, 1h30m or 2d", short(s, 40))
}

// durationFlag is a flag whose value must lie within a range.
type durationFlag struct {
	value    time.Duration
	given    bool
	min, max time.Duration
	none     bool // "none" is lease.Endless
}

func (f *durationFlag) Set(s string) error {
	if f.none && s == "none" {
		f.value, f.given = lease.Endless, true
		return nil
	}
	d, err := parseDuration(s)
	if err != nil {
		return fmt.Errorf("needs a number with a unit, like 90s or 15m, between %s", f.bounds())
	}
	if d < f.min || d > f.max {
		return fmt.Errorf("must be between %s", f.bounds())
	}
	f.value, f.given = d, true
	return nil
}

func (f *durationFlag) bounds() string {
	if f.none {
		return exact(f.min) + " and " + exact(f.max) + ", or none"
	}
	return exact(f.min) + " and " + exact(f.max)
}

func (f *durationFlag) Type() string { return "duration" }

func (f *durationFlag) String() string {
	switch {
	case !f.given:
		return ""
	case f.none && f.value == lease.Endless:
		return "none"
	}
	return exact(f.value)
}

// exact prints a duration so that parseDuration reads it back: 1h30m, 30d.
func exact(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// rough prints a duration for people, in at most two units: 45s, 12m, 1h05m, 2d3h.
func rough(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	if d >= 10*time.Minute { // an hour is one a second later too
		d = d.Round(time.Minute)
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 10*time.Minute && d%time.Minute != 0:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// stamp prints an instant: ISO 8601, UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
