package taskcmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func NewSections(s *session.Session) *cobra.Command {
	return session.Group("sections", "Manage groups of tasks",
		newSectionsAddCmd(s), newSectionsListCmd(s), newSectionsShowCmd(s), newSectionsDependsCmd(s), newSectionsGraphCmd(s),
		newSectionsPriorityCmd(s), newSectionsSkipCmd(s), newSectionsDeleteCmd(s))
}

var oneSection = session.One("section", "a name with spaces needs quotes")

// sectionData is a section with every field present.
type sectionData struct {
	task.Section
	Shared    bool     `json:"shared"`
	Skipped   bool     `json:"skipped"`
	DependsOn []string `json:"dependsOn"`
}

func newSectionData(s task.Section) sectionData {
	return sectionData{s, s.Shared, s.Skipped, append([]string{}, s.DependsOn...)}
}

type sectionInfo struct {
	sectionData
	Tasks    map[task.Status]int `json:"tasks"`
	Open     int                 `json:"open"`
	LockedBy string              `json:"lockedBy"`
	WaitsFor []string            `json:"waitsFor"`
}

func newSectionInfo(s task.SectionInfo) sectionInfo {
	i := sectionInfo{sectionData: newSectionData(s.Section), Tasks: map[task.Status]int{}, LockedBy: s.LockedBy, WaitsFor: append([]string{}, s.WaitsFor...)}
	for _, status := range task.Statuses {
		i.Tasks[status] = s.Tasks[status]
		if status.Open() {
			i.Open += s.Tasks[status]
		}
	}
	return i
}

func (s sectionInfo) kind() string {
	if s.Shared {
		return "shared"
	}
	return "exclusive"
}

func (s sectionInfo) state() string {
	switch {
	case s.Skipped:
		return "skipped"
	case len(s.WaitsFor) > 0:
		return "waits for " + strings.Join(s.WaitsFor, ", ")
	case s.Open == 0:
		return "nothing open"
	}
	return "open"
}

// setSection makes or changes a section, and says so.
func setSection(ctx context.Context, s *session.Session, r task.SectionRequest, text func(*term.Printer, task.Section)) error {
	id, st, err := s.Act(ctx, r.New)
	if err != nil {
		return err
	}
	r.By, r.DryRun = id.Owner, s.DryRun
	section, err := task.SetSection(ctx, st, r)
	if err != nil {
		return err
	}
	return s.Answer(map[string]any{"section": newSectionData(section)}, func(p *term.Printer) { text(p, section) })
}

// allSections are what list and graph show.
func allSections(ctx context.Context, st *store.Store) ([]sectionInfo, error) {
	out, err := task.Sections(ctx, st, "")
	list := make([]sectionInfo, len(out.Sections))
	for i, section := range out.Sections {
		list[i] = newSectionInfo(section)
	}
	return list, err
}
