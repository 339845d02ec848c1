package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
)

// Granted names the keys of a grant, each pool once: "slot 2 of pool:tests".
func Granted(g lease.Grant) (names []string) {
	slots, all := map[string][]string{}, map[string]bool{}
	for _, k := range g.Keys {
		switch pool, slot, ok := lease.SlotOf(k.Key); {
		case ok && slot == 0:
			all[pool] = true
		case ok:
			slots[pool] = append(slots[pool], strconv.Itoa(slot))
		}
	}
	for _, k := range g.Keys {
		pool, _, ok := lease.SlotOf(k.Key)
		switch {
		case !ok:
			names = append(names, k.Key)
			continue
		case slots[pool] == nil: // named before
			continue
		case all[pool]:
			names = append(names, "all "+term.Plural(len(slots[pool]), "slot")+" of "+pool)
		default:
			names = append(names, numbered(slots[pool])+" of "+pool)
		}
		delete(slots, pool)
	}
	return names
}

func numbered(slots []string) string {
	if len(slots) == 1 {
		return "slot " + slots[0]
	}
	return "slots " + strings.Join(slots, ", ")
}

// Used is how full a pool is: "3 of 4 used", "all of it held by bob".
func Used(p *lease.PoolInfo) string {
	switch all := p.AllOf(); {
	case all != nil: // it may have released its slots
		return "all of it held by " + term.Short(all.Owner, 120)
	case p.Size == 0:
		return "no size"
	}
	return fmt.Sprintf("%d of %d used", p.Used, p.Size)
}

// poolText says why a pool is in the way: "3 of 4 used, you are #2".
func poolText(h *lease.HeldError) string {
	s := named(h.Pool.Key) + ": " + Used(h.Pool)
	if h.Waited > 0 {
		s += ", still after " + term.Rough(h.Waited)
	}
	switch {
	case h.Position > 0:
		s += fmt.Sprintf(", you are #%d", h.Position)
	case h.Ahead == 1:
		s += ", 1 other waits for it"
	case h.Ahead > 1:
		s += fmt.Sprintf(", %d others wait for it", h.Ahead)
	}
	return s
}

// mostHolders is how many holders of a pool a refused caller sees.
const mostHolders = 5

// PrintHolders prints who holds the slots of a pool, one line each.
func PrintHolders(p *term.Printer, holders []lease.Info) {
	for _, h := range holders[:min(len(holders), mostHolders)] {
		p.Line("  %s  held by %s, %s", h.Key, term.Short(h.Owner, 60), EndsIn(p, h.ExpiresAt))
	}
	if more := len(holders) - mostHolders; more > 0 {
		p.Line("  … and %d more", more)
	}
}
