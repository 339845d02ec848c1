package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "time/tzdata" // a scratch container and Windows have no zones of their own
)

// A Cron says when: a table of local times in one zone, or every so often.
// The zero value never comes. Compare two by their String.
type Cron struct {
	text  string
	zone  *time.Location
	every time.Duration // 0: by the fields

	second, minute, hour, day, month, weekday uint64 // one bit for each value
	both                                      bool   // day and weekday must both match; else one of them is enough
}

// field is one column of a cron table.
type field struct {
	name     string
	low, top int
	names    []string // of the values from low on
}

var fields = [...]field{
	{"second", 0, 59, nil},
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of the month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of the week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var nicknames = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// The bounds of @every. It counts whole seconds from 1970 on, so that all pods
// agree without asking.
const (
	minEvery = time.Second
	maxEvery = 365 * 24 * time.Hour
)

// CronError says where an expression is wrong.
type CronError struct {
	Expr   string
	Column int    // of the part that is wrong, counted in characters from 1; 0: the whole
	Part   string // what stands there
	Why    string
}

func (e *CronError) Error() string {
	if e.Column == 0 {
		return fmt.Sprintf("cron %q: %s", e.Expr, e.Why)
	}
	return fmt.Sprintf("cron %q: column %d, %q: %s", e.Expr, e.Column, e.Part, e.Why)
}

// ParseCron reads an expression: five fields (minute, hour, day of the month,
// month, day of the week) or six with the seconds first, a nickname (@daily),
// or @every with a duration. zone is a name of the IANA database; empty is UTC.
//
// A field is *, a value, a range a-b, any of them with a step /n, or several of
// those between commas. Months and days of the week have names of three
// letters; 7 is Sunday too. As in every cron, a day matches if either of the
// two day fields does, unless one of them begins with *: then both must.
//
// What never comes, like the 31st of February, is refused.
func ParseCron(expr, zone string) (Cron, error) {
	c := Cron{text: strings.Join(strings.Fields(expr), " ")}
	if len(expr) > 1000 {
		return Cron{}, &CronError{Expr: expr[:40] + "…", Why: "is longer than 1,000 bytes"}
	}
	var err error
	if c.zone, err = loadZone(zone); err != nil {
		return Cron{}, err
	}
	switch word, rest, _ := strings.Cut(c.text, " "); {
	case strings.ToLower(word) == "@every":
		c.every, err = parseEvery(expr, rest)
	case strings.HasPrefix(word, "@"):
		table, ok := nicknames[strings.ToLower(c.text)]
		if !ok {
			return Cron{}, &CronError{Expr: expr, Column: column(expr, strings.Index(expr, "@")), Part: c.text, Why: "is none of @yearly @monthly @weekly @daily @hourly @every"}
		}
		err = c.parse(table)
	default:
		err = c.parse(expr)
	}
	if err == nil && c.Next(time.Unix(0, 0)).IsZero() {
		err = &CronError{Expr: expr, Why: "never comes: there is no such day"}
	}
	if err != nil {
		return Cron{}, err
	}
	return c, nil
}

// String is the expression.
func (c Cron) String() string { return c.text }

// Zone is where its local times are.
func (c Cron) Zone() *time.Location { return c.zone }

// ZoneError: there is no such time zone.
type ZoneError struct{ Zone string }

func (e *ZoneError) Error() string {
	return fmt.Sprintf("time zone %q: no such zone; names look like Europe/Vienna or UTC", e.Zone)
}

// zoneCache keeps what was loaded: a thousand jobs share a few zones.
var zoneCache sync.Map

func loadZone(name string) (*time.Location, error) {
	if zone, ok := zoneCache.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // which is another one on every pod
		return nil, &ZoneError{name}
	}
	zoneCache.Store(name, zone)
	return zone, nil
}

func parseEvery(expr, text string) (time.Duration, error) {
	wrong := func(why string) (time.Duration, error) {
		at := strings.LastIndex(expr, text)
		if text == "" {
			at = len(strings.TrimRight(expr, " \t"))
		}
		return 0, &CronError{Expr: expr, Column: column(expr, at), Part: text, Why: why}
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return wrong("must be a duration like 10s, 5m or 1h30m")
	case d < minEvery || d > maxEvery || d%time.Second != 0:
		return wrong("must be whole seconds, from 1s to 8760h (a year)")
	}
	return d, nil
}

// column counts characters, as an editor does.
func column(expr string, at int) int { return len([]rune(expr[:max(at, 0)])) + 1 }

// parse reads the fields into sets.
func (c *Cron) parse(expr string) error {
	var parts []string
	var at []int
	for i := 0; i < len(expr); {
		n := strings.IndexAny(expr[i:], " \t\n\r\v\f")
		if n < 0 {
			n = len(expr) - i
		}
		if n > 0 {
			parts, at = append(parts, expr[i:i+n]), append(at, i)
		}
		i += n + 1
	}
	first := 0
	switch len(parts) {
	case 5:
		first = 1
	case 6:
	default:
		return &CronError{Expr: expr, Why: fmt.Sprintf("has %d fields, not 5 (minute hour day month weekday) or 6 (with seconds first)", len(parts))}
	}
	sets := [...]*uint64{&c.second, &c.minute, &c.hour, &c.day, &c.month, &c.weekday}
	c.second = 1
	for i, part := range parts {
		set, err := fields[first+i].parse(expr, part, at[i])
		if err != nil {
			return err
		}
		*sets[first+i] = set
	}
	if c.weekday&(1<<7) != 0 {
		c.weekday |= 1
	}
	star := func(part string) bool { return part[0] == '*' || part[0] == '?' }
	c.both = star(parts[5-first]) || star(parts[3-first])
	return nil
}

// parse reads one field, which stands at that byte of the expression.
func (f field) parse(expr, text string, at int) (set uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(item, "/")
		low, top, wrong := f.span(span)
		n := 1
		if wrong == "" && stepped {
			if n, err = strconv.Atoi(step); err != nil || n < 1 || n > f.top || step[0] == '+' {
				wrong = fmt.Sprintf("the step must be a number from 1 to %d", f.top)
			} else if !strings.ContainsAny(span, "*?-") {
				top = f.top
			}
		}
		if wrong != "" {
			return 0, &CronError{Expr: expr, Column: column(expr, at), Part: item, Why: f.name + ": " + wrong}
		}
		if f.top == 7 && top == 7 && !strings.Contains(span, "-") && (stepped || span != "7") {
			low, top = low%7, 6 // seven days have eight numbers
		}
		for v := low; v <= top; v += n {
			set |= 1 << v
		}
		at += len(item) + 1
	}
	return set, nil
}

// span reads *, a value or a range.
func (f field) span(text string) (low, top int, wrong string) {
	if text == "*" || text == "?" && (f.low == 1 && f.top == 31 || f.top == 7) {
		return f.low, f.top, ""
	}
	from, to, ranged := strings.Cut(text, "-")
	low, ok := f.value(from)
	top = low
	if ok && ranged {
		top, ok = f.value(to)
	}
	switch {
	case !ok:
		must := fmt.Sprintf("must be *, %d-%d", f.low, f.top)
		if f.names != nil {
			must += " or " + f.names[0] + "-" + f.names[len(f.names)-1]
		}
		return 0, 0, must
	case low > top && f.top == 7 && low == 7:
		low = 0
	case low > top:
		return 0, 0, "the range runs backwards"
	}
	return low, top, ""
}

func (f field) value(text string) (int, bool) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.low + i, true
		}
	}
	if len(text) == 0 || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, _ := strconv.Atoi(text)
	return n, n >= f.low && n <= f.top
}
