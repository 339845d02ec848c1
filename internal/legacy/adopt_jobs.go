package legacy

import (
	"errors"
	"fmt"

	"github.com/tasklock/tasklock/schedule"
)

// jobs adds schedules, paused and without a command: the environment says what
// they ran, for the person who fills it in.
func (a *adoption) jobs() error {
	for _, j := range a.r.Source.Jobs {
		env := map[string]string{}
		spec := within(j.Spec, 16<<10)
		if len(spec) < len(j.Spec) {
			a.changed(j.where, "%s: its spec is cut to %d bytes", j.Name, len(spec))
		}
		for name, text := range map[string]string{"SCHEDULE_ID": j.ID, "SCHEDULE_SPEC": spec, "SCHEDULE_DISABLED": disabled(j.Disabled)} {
			if text != "" {
				env[name] = text
			}
		}
		_, err := schedule.Apply(a.ctx, a.st, schedule.ApplyRequest{
			Jobs: []schedule.Job{{Name: j.Name, Cron: j.Cron, Env: env, Paused: true}}, New: true, By: a.r.By, DryRun: a.r.DryRun,
		})
		var there *schedule.ExistsError
		switch {
		case err == nil:
			a.out.Jobs++
		case errors.As(err, &there):
			here, err := schedule.Show(a.ctx, a.st, j.Name)
			if err != nil { // also if somebody has just removed it: the next import adds it
				return err
			}
			id := here.Env["SCHEDULE_ID"] // a person may have removed it
			if id != j.ID && (here.Cron != j.Cron || id != "" && j.ID != "") {
				a.leave(j.where, fmt.Errorf("%s: another job has this name here, at %s", j.Name, here.Cron))
				break
			}
			a.out.Already++
		case theirFault(err):
			a.leave(j.where, fmt.Errorf("%s: %w", j.Name, err))
		default:
			return err
		}
		a.tell(1)
	}
	return nil
}

func disabled(yes bool) string {
	if yes {
		return "yes"
	}
	return ""
}
