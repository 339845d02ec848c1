package term

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a duration with its unit: 90s, 1h30m, 2d. It refuses a bare
// number, which would be minutes to one reader and seconds to the next.
func ParseDuration(s string) (time.Duration, error) {
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
	return fmt.Errorf("duration %q: needs a number with a unit, like 90s, 15m, 1h30m or 2d", Short(s, 40))
}

// Exact prints a duration so that ParseDuration reads it back: 1h30m, 30d.
func Exact(d time.Duration) string {
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

// Rough prints a duration for people, in at most two units: 45s, 12m, 1h05m, 2d3h.
func Rough(d time.Duration) string {
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

// Stamp prints an instant: ISO 8601, UTC.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
