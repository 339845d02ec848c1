package view

import (
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/schedule"
)

// Some lists keys, and counts those that are not shown.
func Some(keys []string, more int, unknown bool) string {
	text := strings.Join(keys, ", ")
	switch {
	case more > 0 && unknown:
		return fmt.Sprintf("%s and %d or more", text, more)
	case more > 0:
		return fmt.Sprintf("%s and %d more", text, more)
	}
	return text
}

// SchedulerNames lists the running schedulers.
func SchedulerNames(all []schedule.Pod) string {
	var names []string
	for _, s := range all {
		if s.State == "running" {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}
