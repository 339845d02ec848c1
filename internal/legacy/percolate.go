package legacy

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store/driver"
)

// percolateLock begins the keys of its locks, in a table of settings.
const percolateLock = "task_lock:"

var (
	podProcess = lazily(`^(.+)-(\d{1,9})-([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9A-Za-z]+)$`) // host-pid-uuid
	weekday    = lazily(`^(?:\S+\s+){4}\S*\d`)
)

// Percolate reads the schedules of Percolate, and the locks on them, from an
// export of its database: a file of rows in JSON or CSV, or a folder of such
// files. A row with a cron expression is a schedule. A row whose key begins with
// task_lock: is a lock.
func Percolate(place string, now time.Time) (Source, error) {
	fi, err := os.Stat(place)
	if err != nil {
		return Source{}, missing(err)
	}
	if !fi.IsDir() {
		return inFolder(filepath.Dir(place), func(f *folder) (Source, error) { return readPercolate(f, []string{filepath.Base(place)}, now) })
	}
	return inFolder(place, func(f *folder) (Source, error) { return readPercolate(f, f.list(".", ".json", ".jsonl", ".csv"), now) })
}

func readPercolate(f *folder, names []string, now time.Time) (s Source, err error) {
	if f.err != nil {
		return s, f.err
	}
	p := percolate{jobs: map[string]string{}}
	for _, name := range names {
		text, err := f.readUpTo(name, maxLog)
		if err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
		rows, err := rowsOf(name, text)
		if err != nil {
			return s, fmt.Errorf("%w: %s: %w", driver.ErrDamaged, name, err)
		}
		for i, text := range rows {
			o := row{where: fmt.Sprintf("%s, row %d", path.Base(name), i+1), text: text}
			_, hasCron := text["cron"]
			_, hasSchedule := text["schedule"]
			switch {
			case text["cron"] != "" || text["schedule"] != "":
				p.schedule(o)
			case strings.HasPrefix(text["key"], percolateLock):
				p.locks = append(p.locks, o)
			case text["key"] == "" && (hasCron || hasSchedule):
				p.out.problem(o.where, "%s: has no cron expression", within(cmp.Or(text["name"], text["id"], "a schedule"), 60))
			}
		}
	}
	for _, l := range p.locks { // the names of jobs are known now
		p.lock(l, now)
	}
	if p.out.empty() {
		return p.out, fmt.Errorf("%w: no rows with a cron expression, and none whose key begins with %s", driver.ErrMissing, percolateLock)
	}
	return p.out, nil
}

// percolate is one reading of its tables.
type percolate struct {
	jobs  map[string]string // id → name of the job
	locks []row
	out   Source
}

func (p *percolate) schedule(o row) {
	id, cron := o.text["id"], strings.TrimSpace(cmp.Or(o.text["cron"], o.text["schedule"]))
	name := strings.NewReplacer("/", "-", "@", "-").Replace(oneLine(cmp.Or(o.text["name"], o.text["task"], id), schedule.MaxName))
	taken := func(name string) bool {
		return slices.ContainsFunc(p.out.Jobs, func(j Job) bool { return j.Name == name })
	}
	if schedule.CheckName(name) != nil {
		name = "schedule " + within(mended(id), 60)
	}
	if taken(name) { // names need not differ there
		name = within(name, schedule.MaxName-40) + " " + within(mended(id), 36)
	}
	if name != o.text["name"] {
		p.out.warning(o.where, "the job is called %s here, %q there", name, within(o.text["name"], 60))
	}
	if _, err := schedule.ParseCron(cron, ""); err != nil {
		p.out.problem(o.where, "%s: %v", name, err)
		return
	}
	if taken(name) {
		p.out.problem(o.where, "a second schedule %s", name)
		return
	}
	if weekday().MatchString(cron) {
		p.out.warning(o.where, "%s: check the weekday in %q: 0 is Sunday here, and was Monday there", name, cron)
	}
	if p.jobs[id] = name; id == "" {
		delete(p.jobs, id)
	}
	disabled := strings.ToLower(cmp.Or(o.text["disabled"], o.text["disabled_at"]))
	off := !slices.Contains([]string{"", "false", "f", "0", "no"}, disabled)
	p.out.Jobs = append(p.out.Jobs, Job{Name: name, Cron: cron, ID: id, Spec: o.text["spec"], Disabled: off, where: o.where})
}

// lock reads one: the key is task_lock:<name>:<id>, the value an object.
func (p *percolate) lock(r row, now time.Time) {
	name := strings.TrimPrefix(r.text["key"], percolateLock)
	if i := strings.LastIndexByte(name, ':'); i > 0 {
		if job, there := p.jobs[name[i+1:]]; there {
			name = job
		} else {
			name = name[:i]
		}
	}
	l := Lock{Key: "job:" + strings.NewReplacer("/", "-", "@", "-").Replace(name), where: r.where}
	fields := l.object(r.text["value"])
	l.Owner = fields["process_id"]
	if m := podProcess().FindStringSubmatch(l.Owner); m != nil {
		l.Host = m[1]
		l.process(m[2])
	}
	since, err := unix(fields["acquired_at"], time.Second)
	if fields["acquired_at"] != "" || fields["released_at"] == "" { // a released lock may lack it
		l.Since = l.at("acquired_at", since, err)
	}
	until, err := unix(fields["expires_at"], time.Second)
	if released(fields) && len(l.doubts) == 0 {
		p.out.Expired++
		return
	}
	l.Until = l.at("expires_at", until, err)
	p.out.addLock(l, now)
}

// released reports whether a lock was released, and not taken again since.
func released(fields map[string]string) bool {
	at, err := unix(fields["released_at"], time.Second)
	if err != nil {
		at, err = stamp(fields["released_at"])
	}
	since, never := unix(fields["acquired_at"], time.Second)
	return err == nil && (never != nil || !at.Before(since))
}

// rowsOf reads the rows of a table: CSV with a head, an array, an object whose
// members are arrays, or one object on each line.
func rowsOf(name, text string) (rows []map[string]string, err error) {
	if strings.HasSuffix(name, ".csv") {
		return csvRows(text)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	for {
		var v any
		if err := dec.Decode(&v); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, err
		}
		rows = append(rows, jsonRows(v)...)
	}
}

func jsonRows(v any) (rows []map[string]string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			rows = append(rows, jsonRows(e)...)
		}
	case map[string]any:
		row := map[string]string{}
		for name, value := range v {
			if list, ok := value.([]any); ok && v["id"] == nil && v["key"] == nil {
				rows = append(rows, jsonRows(list)...)
				continue
			}
			row[strings.ToLower(name)] = column(value)
		}
		if len(row) > 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// column is a value as text.
func column(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

func csvRows(text string) (rows []map[string]string, err error) {
	all, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff"))).ReadAll()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	for _, record := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[strings.ToLower(strings.TrimSpace(name))] = record[i]
		}
		rows = append(rows, row)
	}
	return rows, nil
}
