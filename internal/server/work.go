package server

import (
	"context"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/task"
)

// Nobody makes or changes a job over HTTP: its command runs on every pod.
func (s *Server) workOps() ops {
	return ops{
		"GET /v1/sections":         op(access.Viewer, s.sections),
		"POST /v1/sections/update": op(access.Operator, s.updateSection),
		"POST /v1/sections/skip":   op(access.Operator, s.skipSection),
		"GET /v1/pools":            op(access.Viewer, s.pools),
		"POST /v1/pools/set":       op(access.Operator, s.setPool),
		"GET /v1/jobs":             op(access.Viewer, s.jobs),
		"GET /v1/jobs/show":        op(access.Viewer, s.showJob),
		"GET /v1/fires":            op(access.Viewer, s.fires),
		"POST /v1/jobs/trigger":    op(access.Operator, s.triggerJob).named(),
		"POST /v1/jobs/pause":      op(access.Operator, s.pauseJob),
		"POST /v1/jobs/resume":     op(access.Operator, s.resumeJob),
		"GET /v1/runners":          op(access.Viewer, s.runners),
		"GET /v1/schedulers":       op(access.Viewer, s.schedulers),
	}
}

type sectionInput struct {
	Section string `json:"section"`
}

func (s *Server) sections(ctx context.Context, _ Caller, in sectionInput) (task.SectionsResult, error) {
	return task.Sections(ctx, s.st, in.Section)
}

type updateSectionInput struct {
	Section   string   `json:"section"`
	Priority  *int     `json:"priority"`
	Workers   *int     `json:"workers"` // how many may work in it: 1 to 16, or -1 for any number
	DependsOn []string `json:"dependsOn"`
	NotOn     []string `json:"notOn"` // dependencies to remove
	DryRun    bool     `json:"dryRun"`
}

func (s *Server) updateSection(ctx context.Context, c Caller, in updateSectionInput) (task.Section, error) {
	return task.SetSection(ctx, s.st, task.SectionRequest{
		Name: in.Section, Priority: in.Priority, Workers: in.Workers, On: in.DependsOn, Off: in.NotOn, By: c.Owner, DryRun: in.DryRun,
	})
}

type skipInput struct {
	Section string `json:"section"`
	Off     bool   `json:"off"` // no longer skip it
	DryRun  bool   `json:"dryRun"`
}

func (s *Server) skipSection(ctx context.Context, c Caller, in skipInput) (task.Section, error) {
	skipped := !in.Off
	return task.SetSection(ctx, s.st, task.SectionRequest{Name: in.Section, Skipped: &skipped, By: c.Owner, DryRun: in.DryRun})
}

func (s *Server) pools(ctx context.Context, _ Caller, _ noInput) (lease.PoolsResult, error) {
	return lease.Pools(ctx, s.st)
}

type setPoolInput struct {
	Pool   string `json:"pool"`
	Slots  int    `json:"slots"`
	Reason string `json:"reason"`
	DryRun bool   `json:"dryRun"`
}

func (s *Server) setPool(ctx context.Context, c Caller, in setPoolInput) (lease.PoolInfo, error) {
	return lease.SetPool(ctx, s.st, lease.SetPoolRequest{Name: in.Pool, Slots: in.Slots, By: c.Owner, Reason: in.Reason, DryRun: in.DryRun})
}

func (s *Server) jobs(ctx context.Context, _ Caller, _ noInput) (schedule.ListResult, error) {
	out, err := schedule.List(ctx, s.st)
	for i := range out.Jobs {
		out.Jobs[i] = shown(out.Jobs[i])
	}
	return out, err
}

// shown is a job without the values of its environment: whoever may look at jobs need
// not know the passwords of their commands.
func shown(j schedule.Info) schedule.Info {
	env := make(map[string]string, len(j.Env))
	for name := range j.Env {
		env[name] = ""
	}
	if j.Env != nil {
		j.Env = env
	}
	return j
}

type jobInput struct {
	Job    string `json:"job"`
	DryRun bool   `json:"dryRun"`
}

func (in jobInput) change(c Caller) schedule.ChangeRequest {
	return schedule.ChangeRequest{Name: in.Job, By: c.Owner, ID: c.Request, DryRun: in.DryRun}
}

type showJobInput struct {
	Job string `json:"job"`
}

func (s *Server) showJob(ctx context.Context, _ Caller, in showJobInput) (schedule.Info, error) {
	out, err := schedule.Show(ctx, s.st, in.Job)
	return shown(out), err
}

type firesInput struct {
	Job   string `json:"job"`   // left out: of all jobs
	Limit int    `json:"limit"` // the newest so many, at most 500; left out: 100
}

func (s *Server) fires(ctx context.Context, _ Caller, in firesInput) (schedule.HistoryResult, error) {
	limit, err := pageInput{Limit: in.Limit}.size()
	if err != nil {
		return schedule.HistoryResult{}, err
	}
	return schedule.History(ctx, s.st, schedule.HistoryRequest{Job: in.Job, Limit: limit})
}

func (s *Server) triggerJob(ctx context.Context, c Caller, in jobInput) (schedule.TriggerResult, error) {
	return schedule.Trigger(ctx, s.st, in.change(c))
}

func (s *Server) pauseJob(ctx context.Context, c Caller, in jobInput) (schedule.Info, error) {
	out, err := schedule.Pause(ctx, s.st, in.change(c))
	return shown(out), err
}

func (s *Server) resumeJob(ctx context.Context, c Caller, in jobInput) (schedule.Info, error) {
	out, err := schedule.Resume(ctx, s.st, in.change(c))
	return shown(out), err
}

func (s *Server) runners(ctx context.Context, _ Caller, _ noInput) (worker.ListResult, error) {
	return worker.List(ctx, s.st)
}

// Schedulers are the pods that fire jobs.
type Schedulers struct {
	Schedulers []schedule.Pod `json:"schedulers"`
}

func (s *Server) schedulers(ctx context.Context, _ Caller, _ noInput) (out Schedulers, err error) {
	out.Schedulers, err = schedule.Pods(ctx, s.st)
	return out, err
}
