package cli

import (
	"context"
	"strings"
)

// foreign tells the other systems that migrate can read.
func foreign(url string) (system, place string, ok bool) {
	system, place, _ = strings.Cut(url, ":")
	switch system {
	case "steroids", "cat", "pi", "aitasks":
		return system, place, true
	}
	return "", "", false
}

func (o *migrateOptions) adopt(ctx context.Context, a *App, system, place string) error {
	return usagef("--from: %s: not yet", system)
}
