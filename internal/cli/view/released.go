package view

import (
	"slices"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
)

// ReleaseData is a release with every field present.
type ReleaseData struct {
	Released []lease.Released `json:"released"`
	Free     []string         `json:"free"`
	Never    []string         `json:"never,omitempty"` // of these: never held by the caller
	Left     []string         `json:"left,omitempty"`  // free when their users end
}

// NewReleaseData makes every field of a release present.
func NewReleaseData(r lease.ReleaseResult) ReleaseData {
	return ReleaseData{Released: append([]lease.Released{}, r.Released...), Free: append([]string{}, r.Free...), Never: r.Never, Left: r.Left}
}

// PrintReleased says what was released, and what was free already.
func PrintReleased(p *term.Printer, did, would string, out lease.ReleaseResult) {
	for _, r := range out.Released {
		p.Line("%s %s (token %d, held by %s).", p.Did(did, would), r.Key, r.Token, term.Short(r.Owner, 120))
	}
	for _, k := range out.Free {
		if slices.Contains(out.Never, k) {
			p.Line("%s was free already, and never yours as far as the history goes back.", k)
			continue
		}
		p.Line("%s was free already.", k)
	}
	for _, k := range out.Left {
		p.Line("%s stays locked until those who work under it end (tasklock show %s names them).", k, k)
	}
	if len(out.Released)+len(out.Free)+len(out.Left) == 0 {
		p.Line("Nothing was held.")
	}
}
