package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
)

// Misfire says what happens to fire times at which no pod ran, or could claim.
type Misfire string

// Overlap says what happens to a fire time while the one before still runs.
type Overlap string

// OnCrash says what happens to a run whose pod died.
type OnCrash string

// The policies. The first of each is the default.
const (
	MisfireSkip Misfire = "skip" // they are skipped, with a record
	MisfireOnce Misfire = "once" // the newest runs, the others are skipped
	MisfireAll  Misfire = "all"  // all run in their order, at most the newest 100; one after the other unless OverlapAllow

	OverlapSkip  Overlap = "skip"  // it is skipped, with a record
	OverlapQueue Overlap = "queue" // it runs afterwards; one waits, those after it are skipped
	OverlapAllow Overlap = "allow" // both run, up to MaxRuns at a time

	CrashLost  OnCrash = "lost"  // the record says so: started at most once
	CrashRetry OnCrash = "retry" // another pod starts it again: at least once
)

// Limits and defaults of a job.
const (
	MaxName     = 200
	MaxJobs     = 10_000
	MaxCatchUp  = 100 // fire times that MisfireAll makes up for
	MaxTriggers = 100 // that wait at a time
	MaxRuns     = 200 // at a time, with OverlapAllow: further fire times are skipped

	defaultTTL      = 5 * time.Minute
	defaultAttempts = 3
	defaultKeep     = 100
	defaultKeepFor  = 30 * 24 * time.Hour
	maxKeep         = 10_000
	maxDefinition   = 48 << 10 // bytes of a job as JSON
)

// Job is the definition of a job. Every zero field means its default.
type Job struct {
	Name    string            `json:"name"`
	Cron    string            `json:"cron"`
	Zone    string            `json:"tz"`                // default UTC
	Command []string          `json:"command,omitempty"` // none: a handler of a program runs it
	Dir     string            `json:"dir,omitempty"`     // default: that of the scheduler
	Env     map[string]string `json:"env,omitempty"`
	Pool    string            `json:"pool,omitempty"` // a run starts only with a slot of this pool

	TTL         time.Duration `json:"-"` // a pod is dead after this long without a heartbeat; default 5m
	MaxRun      time.Duration `json:"-"` // a command that runs longer is stopped; default: no bound
	Jitter      time.Duration `json:"-"` // spreads the starts, at most until the next fire time
	Misfire     Misfire       `json:"misfire"`
	Overlap     Overlap       `json:"overlap"`
	OnCrash     OnCrash       `json:"onCrash"`
	MaxAttempts int           `json:"maxAttempts"` // with CrashRetry; default 3
	Keep        int           `json:"keep"`        // records of fire times; default 100
	KeepFor     time.Duration `json:"-"`           // default 30 days

	Paused    bool      `json:"paused"`
	By        string    `json:"by,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// spans are the durations of a job as its record has them.
type spans struct {
	TTL     float64 `json:"ttlSeconds"`
	MaxRun  float64 `json:"maxRunSeconds,omitempty"`
	Jitter  float64 `json:"jitterSeconds,omitempty"`
	KeepFor float64 `json:"keepForSeconds"`
}

type plainJob Job // without methods

// MarshalJSON shows durations as seconds.
func (j Job) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		plainJob
		spans
	}{plainJob(j), spans{j.TTL.Seconds(), j.MaxRun.Seconds(), j.Jitter.Seconds(), j.KeepFor.Seconds()}})
}

// marshalJob is a job with further fields.
func marshalJob(j Job, more map[string]any) ([]byte, error) {
	b, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	extra, err := json.Marshal(more)
	if err != nil {
		return nil, err
	}
	return append(append(b[:len(b)-1], ','), extra[1:]...), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (j *Job) UnmarshalJSON(b []byte) error {
	var in struct {
		plainJob
		spans
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*j = Job(in.plainJob)
	j.TTL, j.MaxRun, j.Jitter, j.KeepFor = span(in.spans.TTL), span(in.spans.MaxRun), span(in.spans.Jitter), span(in.spans.KeepFor)
	return nil
}

func span(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// Check tells a damaged record from one that says something.
func (j Job) Check(key string) error {
	if key != jobKind+j.Name {
		return errors.New("no job of that name")
	}
	_, err := j.normal()
	var cron *CronError
	var zone *ZoneError
	if errors.As(err, &cron) || errors.As(err, &zone) {
		return nil // a newer program on another pod may know more
	}
	return err
}

// normal validates a job and fills in its defaults.
func (j Job) normal() (Job, error) {
	if err := CheckName(j.Name); err != nil {
		return j, err
	}
	j.Zone = orElse(j.Zone, "UTC")
	j.Misfire, j.Overlap, j.OnCrash = orElse(j.Misfire, MisfireSkip), orElse(j.Overlap, OverlapSkip), orElse(j.OnCrash, CrashLost)
	j.TTL, j.MaxAttempts = orElse(j.TTL, defaultTTL), orElse(j.MaxAttempts, defaultAttempts)
	j.Keep, j.KeepFor = orElse(j.Keep, defaultKeep), orElse(j.KeepFor, defaultKeepFor)
	cron, err := ParseCron(j.Cron, j.Zone)
	if err != nil {
		return j, j.wrong(err)
	}
	j.Cron = cron.String()
	j.Pool = strings.TrimPrefix(j.Pool, string(lease.Pool)+":")
	return j, j.wrong(j.check())
}

func (j Job) wrong(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("job %s: %w", j.Name, err)
}

func (j Job) check() error {
	bad := func(what, rule string) error { return &lease.InvalidError{What: what, Rule: rule} }
	switch {
	case !slices.Contains([]Misfire{MisfireSkip, MisfireOnce, MisfireAll}, j.Misfire):
		return bad("misfire "+short(string(j.Misfire)), "must be skip, once or all")
	case !slices.Contains([]Overlap{OverlapSkip, OverlapQueue, OverlapAllow}, j.Overlap):
		return bad("overlap "+short(string(j.Overlap)), "must be skip, queue or allow")
	case !slices.Contains([]OnCrash{CrashLost, CrashRetry}, j.OnCrash):
		return bad("on-crash "+short(string(j.OnCrash)), "must be lost or retry")
	case j.MaxRun < 0 || j.MaxRun > 365*24*time.Hour:
		return bad("max-run "+j.MaxRun.String(), "must be between 0 and 8760h (a year)")
	case j.Jitter < 0 || j.Jitter > 24*time.Hour:
		return bad("jitter "+j.Jitter.String(), "must be between 0 and 24h")
	case j.MaxAttempts < 1 || j.MaxAttempts > 100:
		return bad("max-attempts", "must be between 1 and 100")
	case j.Keep < 1 || j.Keep > maxKeep:
		return bad("keep", "must be between 1 and 10000")
	case j.KeepFor < time.Minute || j.KeepFor > 10*365*24*time.Hour:
		return bad("keep-for "+j.KeepFor.String(), "must be between 1m and 87600h (ten years)")
	case len(j.Command) > 0 && j.Command[0] == "":
		return bad("command", "must not be empty")
	}
	if j.Pool != "" {
		if _, err := lease.PoolKey(j.Pool); err != nil {
			return err
		}
	}
	for _, text := range append(slices.Clone(j.Command), j.Dir) {
		if strings.ContainsRune(text, 0) {
			return bad("command", "must not hold a zero byte")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(j.Env[name], 0) {
			return bad("environment variable "+short(name), "must have a name without '=', and no zero byte")
		}
		if strings.HasPrefix(name, "TASKLOCK_") {
			return bad("environment variable "+short(name), "TASKLOCK_ is for what the scheduler says")
		}
	}
	if b, err := json.Marshal(j); err != nil || len(b) > maxDefinition {
		return fmt.Errorf("%w: the definition has more than 48 KB", driver.ErrTooLarge)
	}
	return lease.CheckTTL(j.TTL)
}

// CheckName says whether a job may have that name.
func CheckName(name string) error {
	bad := &lease.InvalidError{What: "name of a job", Rule: fmt.Sprintf("must be visible text of at most %d bytes without '/' and '@', and not begin with %s", MaxName, lockPrefix)}
	key, err := lease.CheckKey(lockPrefix + name)
	if err != nil || name == "" || len(name) > MaxName || strings.ContainsAny(name, "/@") || strings.HasPrefix(name, lockPrefix) || key != lockPrefix+name {
		return bad
	}
	return nil
}

// pool is the key of the job's pool, or "".
func (j Job) pool() string {
	if j.Pool == "" {
		return ""
	}
	return lease.Pool.Key(j.Pool)
}

// cron is the parsed expression of a job that was checked.
func (j Job) cron() Cron {
	c, _ := ParseCron(j.Cron, j.Zone)
	return c
}

// sameSchedule reports whether both fire at the same times.
func (j Job) sameSchedule(o Job) bool {
	return j.Cron == o.Cron && j.Zone == o.Zone && j.Jitter == o.Jitter
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func short(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
