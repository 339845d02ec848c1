package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/adhocore/gronx"

	"github.com/tasklock/tasklock/internal/torture/long"
)

func mustParse(t testing.TB, expr, zone string) Cron {
	t.Helper()
	c, err := ParseCron(expr, zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The calendar, over zones that change their clocks by an hour, by half of
// one, at midnight, by a whole day, and never.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		name, expr, zone, after string
		want                    []string // in UTC, one after the other
	}{
		{"every minute", "* * * * *", "UTC", "2026-11-15T06:00:30Z", []string{"2026-11-15T06:01:00Z", "2026-11-15T06:02:00Z"}},
		{"strictly after", "0 6 * * *", "UTC", "2026-11-15T06:00:00Z", []string{"2026-11-16T06:00:00Z"}},
		{"a fraction before", "0 6 * * *", "UTC", "2026-11-15T05:59:59.999Z", []string{"2026-11-15T06:00:00Z"}},
		{"seconds", "*/20 59 23 31 12 *", "UTC", "2026-12-31T23:59:20Z", []string{"2026-12-31T23:59:40Z", "2027-12-31T23:59:00Z"}},
		{"names and lists", "30 8 * jan,JUL mon-wed,Fri", "UTC", "2026-07-29T09:00:00Z", []string{"2026-07-31T08:30:00Z", "2027-01-01T08:30:00Z", "2027-01-04T08:30:00Z"}},
		{"7 is Sunday", "0 0 * * 5-7", "UTC", "2026-11-12T12:00:00Z", []string{"2026-11-13T00:00:00Z", "2026-11-14T00:00:00Z", "2026-11-15T00:00:00Z", "2026-11-20T00:00:00Z"}},
		{"either day", "0 0 13 * fri", "UTC", "2026-11-12T12:00:00Z", []string{"2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z", "2026-12-04T00:00:00Z", "2026-12-11T00:00:00Z", "2026-12-13T00:00:00Z"}},
		{"both days after a star", "0 0 */2 * mon", "UTC", "2026-11-01T12:00:00Z", []string{"2026-11-09T00:00:00Z", "2026-11-23T00:00:00Z", "2026-12-07T00:00:00Z"}},
		{"value with step", "5/20 * * * *", "UTC", "2026-11-15T06:00:00Z", []string{"2026-11-15T06:05:00Z", "2026-11-15T06:25:00Z", "2026-11-15T06:45:00Z", "2026-11-15T07:05:00Z"}},
		{"31st", "0 0 31 * *", "UTC", "2026-01-31T00:00:00Z", []string{"2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"}},
		{"leap day", "0 0 29 2 *", "UTC", "2026-11-15T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		{"leap day around 2100", "0 0 29 2 *", "UTC", "2095-01-01T00:00:00Z", []string{"2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"}},
		{"a leap day that is a Monday", "0 0 29 2 */7", "UTC", "2026-01-01T00:00:00Z", []string{"2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z", "2088-02-29T00:00:00Z", "2128-02-29T00:00:00Z"}},
		{"nickname", "@Daily", "UTC", "2026-11-15T00:00:00Z", []string{"2026-11-16T00:00:00Z"}},
		{"every", "@every 90s", "Europe/Vienna", "1970-01-01T00:00:00Z", []string{"1970-01-01T00:01:30Z", "1970-01-01T00:03:00Z"}},
		{"every before 1970", "@every 1h", "", "1969-12-31T22:30:00Z", []string{"1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z"}},

		{"Vienna, gap", "30 2 * * *", "Europe/Vienna", "2027-03-27T12:00:00Z", []string{"2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"}},
		{"Vienna, gap and the hour after it are one instant", "0,30 2,3 * * *", "Europe/Vienna", "2027-03-28T00:30:00Z", []string{"2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z", "2027-03-29T00:00:00Z"}},
		{"Vienna, twice", "30 2 * * *", "Europe/Vienna", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"Vienna, twice, asked in between", "30 2 * * *", "Europe/Vienna", "2026-10-25T01:15:00Z", []string{"2026-10-26T01:30:00Z"}},
		{"Vienna, the hour after the repeated one", "0 3 * * *", "Europe/Vienna", "2026-10-25T00:30:00Z", []string{"2026-10-25T02:00:00Z"}},
		{"Vienna, each quarter fires once", "*/15 2 * * *", "Europe/Vienna", "2026-10-25T00:20:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T00:45:00Z", "2026-10-26T01:00:00Z"}},
		{"New York, gap", "15 2 * * *", "America/New_York", "2027-03-13T12:00:00Z", []string{"2027-03-14T07:00:00Z", "2027-03-15T06:15:00Z"}},
		{"New York, twice", "59 1 * * *", "America/New_York", "2026-11-01T05:58:00Z", []string{"2026-11-01T05:59:00Z", "2026-11-02T06:59:00Z"}},
		{"Lord Howe, a gap of half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", []string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		{"Lord Howe, half an hour twice", "45 1 * * *", "Australia/Lord_Howe", "2027-04-03T12:00:00Z", []string{"2027-04-03T14:45:00Z", "2027-04-04T15:15:00Z"}},
		{"Santiago, no midnight", "0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", []string{"2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"}},
		{"Santiago, midnight twice is none: the clock goes back before it", "0 0 * * *", "America/Santiago", "2027-04-03T12:00:00Z", []string{"2027-04-04T04:00:00Z"}},
		{"Cairo, no midnight", "0 0 * * fri", "Africa/Cairo", "2026-04-20T12:00:00Z", []string{"2026-04-23T22:00:00Z", "2026-04-30T21:00:00Z"}},
		{"Beirut, no midnight", "30 0 * * *", "Asia/Beirut", "2027-03-27T12:00:00Z", []string{"2027-03-27T22:00:00Z", "2027-03-28T21:30:00Z"}},
		{"Apia, a day that did not exist", "0 12 30 12 *", "Pacific/Apia", "2011-12-28T00:00:00Z", []string{"2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"}},
		{"Kwajalein, over the date line", "0 6 * * *", "Pacific/Kwajalein", "1993-08-20T00:00:00Z", []string{"1993-08-20T18:00:00Z", "1993-08-21T12:00:00Z", "1993-08-21T18:00:00Z"}},
		{"Kathmandu, no change", "0 6 * * *", "Asia/Kathmandu", "2026-11-15T00:00:00Z", []string{"2026-11-15T00:15:00Z", "2026-11-16T00:15:00Z"}},
		{"Vienna, the end of a far leap year", "0 6 * * *", "Europe/Vienna", "2040-12-30T12:00:00Z", []string{"2040-12-31T05:00:00Z", "2041-01-01T05:00:00Z"}},
		{"Vienna in 2100", "30 2 28 3 *", "Europe/Vienna", "2100-01-01T00:00:00Z", []string{"2100-03-28T01:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cron := mustParse(t, c.expr, c.zone)
			at, err := time.Parse(time.RFC3339Nano, c.after)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				at = cron.Next(at)
				if got := at.Format(time.RFC3339); got != want {
					t.Fatalf("next is %s (%s), want %s", got, at.In(cron.Zone()), want)
				}
			}
		})
	}
}

func TestCronErrors(t *testing.T) {
	for _, c := range []struct {
		expr   string
		column int
		why    string
	}{
		{"", 0, "has 0 fields"},
		{"* * * *", 0, "has 4 fields"},
		{"* * * * * * *", 0, "has 7 fields"},
		{"61 * * * *", 1, "minute: must be *, 0-59"},
		{"0 24 * * *", 3, "hour: must be *, 0-23"},
		{"0 0 0 * *", 5, "day of the month: must be *, 1-31"},
		{"0 0 * 13 *", 7, "month: must be *, 1-12 or jan-dec"},
		{"0 0 * * mon,8", 13, "day of the week: must be *, 0-7 or sun-sat"},
		{"0  0\t*  *   funday", 13, "day of the week"},
		{"0 mon * * *", 3, "hour: must be"},
		{"0 0 * mon *", 7, "month"},
		{"5,99 * * * *", 3, "minute"},
		{"30-10 * * * *", 1, "runs backwards"},
		{"1-2-3 * * * *", 1, "minute"},
		{"*/0 * * * *", 1, "step"},
		{"*/60 * * * *", 1, "step"},
		{"*/1/2 * * * *", 1, "step"},
		{"*/+2 * * * *", 1, "step"},
		{"1, * * * *", 3, "minute"},
		{"? * * * *", 1, "minute"},
		{"0 0 L * *", 5, "day of the month"},
		{"janfeb * * * *", 1, "minute"},
		{"0 0 * janfeb *", 7, "month"},
		{"é 0 * * x", 1, "minute"},
		{"0 é 0 * x", 3, "hour"},
		{"@reboot", 1, "is none of"},
		{" @dayly", 2, "is none of"},
		{"@every", 7, "must be a duration"},
		{"@every soon", 8, "must be a duration"},
		{"@every 500ms", 8, "whole seconds"},
		{"@every -1m", 8, "whole seconds"},
		{"@every 9000h", 8, "whole seconds"},
		{"0 0 31 2 *", 0, "never comes"},
		{"0 0 30 2 *", 0, "never comes"},
		{"0 0 31 4,6,9,11 *", 0, "never comes"},
		{strings.Repeat("1,", 600) + "1 * * * *", 0, "1,000 bytes"},
	} {
		_, err := ParseCron(c.expr, "")
		var wrong *CronError
		if !errors.As(err, &wrong) || wrong.Column != c.column || !strings.Contains(wrong.Why, c.why) {
			t.Errorf("%q: %v, want column %d and %q", c.expr, err, c.column, c.why)
		}
	}
	for _, zone := range []string{"Local", "Europe/Wien", "../etc/passwd", "CET+5"} {
		var wrong *ZoneError
		if _, err := ParseCron("@daily", zone); !errors.As(err, &wrong) {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
}

// TestNextAdvances goes on for a century in each zone.
func TestNextAdvances(t *testing.T) {
	for _, zone := range zones {
		c := mustParse(t, "0 0,2 * * *", zone)
		n := 0
		for at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2101; n++ {
			next := c.Next(at)
			if gap := next.Sub(at); gap <= 0 || gap > 50*time.Hour {
				t.Fatalf("%s: next after %s is %s", zone, at, next)
			}
			at = next
		}
		if n < 101*365*2 {
			t.Errorf("%s: %d fire times", zone, n)
		}
	}
}

// zones of the brute force: the six, and the strange ones.
var zones = []string{
	"UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo", "Asia/Beirut", "Pacific/Apia",
}

// TestNextIsMinimal walks through every second around each clock change of two
// years, and through random days, and compares with the rule in its simplest
// form: an instant is a fire time if the table has a time that the clock had not
// reached a second before and has reached now.
func TestNextIsMinimal(t *testing.T) {
	long.NotShort(t)
	exprs := []string{
		"* * * * *", "*/7 * * * *", "30 2 * * *", "0 0 * * *", "15,45 0-3 * * *", "30 1 * * sun", "*/17 */5 1,2 * * *", "0 3 29 2 *", "10 23 * * 6-7", "*/30 * * * * *",
	}
	for _, zone := range zones {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		starts := []time.Time{time.Date(2028, 2, 28, 0, 0, 0, 0, time.UTC), time.Date(2011, 12, 29, 0, 0, 0, 0, time.UTC)}
		for at := time.Date(2026, 1, 1, 0, 0, 0, 0, loc); at.Year() < 2028; {
			_, end := at.ZoneBounds()
			if end.IsZero() {
				break
			}
			starts, at = append(starts, end.UTC().Add(-4*time.Hour)), end
		}
		for _, expr := range exprs {
			cron := mustParse(t, expr, zone)
			for _, start := range starts {
				compare(t, cron, start, start.Add(8*time.Hour))
			}
		}
	}
}

// compare checks Next against the simple rule for all seconds of a window.
func compare(t *testing.T, c Cron, from, to time.Time) {
	t.Helper()
	high := onWall(from.In(c.Zone())) // what the clock has shown at most
	for back := from; from.Sub(back) < 26*time.Hour; back = back.Add(-time.Minute) {
		if w := onWall(back.In(c.Zone())); w.After(high) {
			high = w
		}
	}
	want := c.Next(from)
	for at := from.Add(time.Second); at.Before(to); at = at.Add(time.Second) {
		fires := false
		for now := onWall(at.In(c.Zone())); high.Before(now); {
			high = high.Add(time.Second)
			fires = fires || has(c.second, high.Second()) && has(c.minute, high.Minute()) && has(c.hour, high.Hour()) && c.matches(high.Date())
		}
		if want.Equal(at) != fires {
			t.Fatalf("%s in %s: next is %s; at %s (%s) it should fire: %v", c, c.Zone(), want, at, at.In(c.Zone()), fires)
		}
		if fires {
			if want = c.Next(at); !want.After(at) {
				t.Fatalf("%s in %s: next after %s is %s", c, c.Zone(), at, want)
			}
		}
	}
}

// TestGrammar compares with the matching of another reader of the same
// grammar, for random expressions at random times without clock changes.
func TestGrammar(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	g := gronx.New()
	for range 3000 {
		expr := randomCron(r)
		c, err := ParseCron(expr, "UTC")
		var wrong *CronError
		if errors.As(err, &wrong) && strings.HasPrefix(wrong.Why, "never") {
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", expr, err)
		}
		for range 20 {
			at := time.Unix(1_700_000_000+r.Int64N(200_000_000), 0).UTC().Truncate(time.Minute)
			want, err := g.IsDue(expr, at)
			if err != nil {
				t.Fatalf("%q: %v", expr, err)
			}
			if got := c.Next(at.Add(-time.Second)).Equal(at); got != want {
				t.Fatalf("%q at %s: %v, the other reader says %v", expr, at, got, want)
			}
		}
	}
}

func randomCron(r *rand.Rand) string {
	var parts []string
	for _, f := range fields[1:] {
		top := f.top
		if top == 7 {
			top = 6
		}
		v := func() int { return f.low + r.IntN(top-f.low+1) }
		switch a, b := v(), v(); r.IntN(6) {
		case 0, 1:
			parts = append(parts, "*")
		case 2:
			parts = append(parts, fmt.Sprintf("*/%d", 1+r.IntN(top)))
		case 3:
			parts = append(parts, fmt.Sprintf("%d-%d", min(a, b), max(a, b)))
		case 4:
			parts = append(parts, fmt.Sprintf("%d-%d/%d,%d", min(a, b), max(a, b), 1+r.IntN(5), v()))
		default:
			parts = append(parts, fmt.Sprintf("%d,%d,%d", a, b, v()))
		}
	}
	return strings.Join(parts, " ")
}

func FuzzCron(f *testing.F) {
	f.Add("0 6 * * *", "Europe/Vienna", int64(1_700_000_000))
	f.Add("*/15 2 29 2 mon", "America/Santiago", int64(951_782_400))
	f.Add("@every 10s", "", int64(-1))
	f.Add("5,99 * * * *", "UTC", int64(0))
	f.Add("1-5/2 0 0 1-7 jan-mar sun", "Australia/Lord_Howe", int64(4_102_444_800))
	f.Fuzz(func(t *testing.T, expr, zone string, unix int64) {
		c, err := ParseCron(expr, zone)
		if err != nil {
			var wrong *CronError
			if errors.As(err, &wrong) && wrong.Column > len([]rune(expr))+1 {
				t.Fatalf("%q: column %d", expr, wrong.Column)
			}
			return
		}
		at := time.Unix(unix%(1<<36), 0)
		first := c.Next(at)
		if !first.After(at) {
			t.Fatalf("%q in %q: next after %s is %s", expr, zone, at, first)
		}
		// Asked from anywhere in between, the answer is the same.
		if between := at.Add(first.Sub(at) / 2); !c.Next(between).Equal(first) {
			t.Fatalf("%q in %q: next after %s is %s, after %s it is %s", expr, zone, at, first, between, c.Next(between))
		}
	})
}

func BenchmarkNext(b *testing.B) {
	c := mustParse(b, "0 6 * * mon-fri", "Europe/Vienna")
	at := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		c.Next(at)
	}
}
