//go:build linux

package torture

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Violation is a rule that was seen broken.
type Violation struct {
	Kind string // one of those in the package documentation
	Key  string
	Text string
}

func (v Violation) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s: %s", v.Kind, v.Key, v.Text))
}

// A Report is what a run has seen.
type Report struct {
	Mode                     Mode
	Processes, Rounds, Keys  int
	Last                     time.Duration // if set: for this long, however many rounds
	Took                     time.Duration
	Grants, TakeOvers        int
	Renewals, Held, Lost     int
	Refused                  int // fenced writes with an old token
	Kills, KilledHolders     int
	Pauses                   int
	Unreached                int // calls that ended because the server was away
	MaxWait                  time.Duration
	LinearOps, LinearNoProof int // operations in checked histories; histories without a verdict
	Violations               []Violation
}

// Failed returns the violations as one text, empty if there are none.
func (r *Report) Failed() string {
	var b strings.Builder
	for i, v := range r.Violations {
		if i == 10 {
			fmt.Fprintf(&b, "… and %d more\n", len(r.Violations)-i)
			break
		}
		fmt.Fprintln(&b, v)
	}
	return b.String()
}

// Kinds lists the kinds of violations, each with how often it was seen.
func (r *Report) Kinds() string {
	count := map[string]int{}
	var kinds []string
	for _, v := range r.Violations {
		if count[v.Kind]++; count[v.Kind] == 1 {
			kinds = append(kinds, v.Kind)
		}
	}
	slices.Sort(kinds)
	for i, k := range kinds {
		kinds[i] = fmt.Sprintf("%s %d", k, count[k])
	}
	return strings.Join(kinds, ", ")
}

func (r *Report) String() string {
	verdict := "none"
	if len(r.Violations) > 0 {
		verdict = r.Kinds()
	}
	rounds := fmt.Sprintf("%d rounds", r.Rounds)
	if r.Last > 0 {
		rounds = r.Last.String()
	}
	return fmt.Sprintf(`%d processes x %s on %d keys through the %s, %v
  grants      %d, %d of them took over, %d renewals, %d told held, %d lost
  faults      %d killed, %d of them holding, %d paused; %d writes with an old token refused; %d calls did not reach the server
  max wait    %v
  linear      %d operations checked, %d histories without a verdict
  violations  %s`,
		r.Processes, rounds, r.Keys, r.Mode, r.Took.Round(time.Millisecond),
		r.Grants, r.TakeOvers, r.Renewals, r.Held, r.Lost,
		r.Kills, r.KilledHolders, r.Pauses, r.Refused, r.Unreached,
		r.MaxWait.Round(time.Millisecond), r.LinearOps, r.LinearNoProof, verdict)
}
