//go:build linux

package torture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Porcupine looks for an order of the operations on one key that explains all
// answers. Time is left to the other checks: here a lease may expire whenever
// someone says that he took it over. Long histories are cut where a grant is
// known, so that each part takes seconds.
const (
	grantsOfWindow = 400
	heldOfWindow   = 800 // answers that change nothing; there may be thousands
	linearTime     = 20 * time.Second
)

// holderState is what the store says about a key.
type holderState struct {
	token int64
	owner string
	held  bool
	ghost bool // nobody knows how its lease ends
}

// question and reply are an operation as the model sees it.
type question struct {
	kind  string // opAcquire, opRenew, opRelease, ghost, or ended
	token int64
	owner string
	took  string // whom the grant replaced, if that is known
	mute  bool   // it was not
}

// Two things happen to a key that its next holder does not tell. A ghost is
// the grant of a worker that was killed before it could tell; others have seen
// its owner. And whoever takes over one key of a lease ends it for all its
// keys.
const (
	ghost = "ghost"
	ended = "ended"
)

var holderModel = porcupine.Model{
	Init: func() any { return holderState{} },
	Step: func(s, in, out any) (bool, any) {
		now, q := s.(holderState), in.(question)
		mine := now.held && now.token == q.token && !now.ghost // a ghost's own token nobody knows
		switch q.kind + " " + out.(string) {
		case opAcquire + " " + isOK:
			fits := q.mute || q.took == "" && (!now.held || now.ghost) || q.took != "" && now.held && now.owner == q.took
			return fits && q.token > now.token, holderState{token: q.token, owner: q.owner, held: true}
		case opAcquire + " " + isHeld:
			return q.owner == "" || now.held && now.owner == q.owner, now
		case opRenew + " " + isOK:
			return mine, now
		case opRelease + " " + isOK:
			now.held = false
			return mine, now
		case opRenew + " " + isLost, opRelease + " " + isLost:
			return !mine, now
		case opRelease + " " + isUnknown:
			now.held = now.held && !mine
			return true, now
		case ghost + " " + isUnknown:
			return true, holderState{token: now.token, owner: q.owner, held: true, ghost: true}
		case ended + " " + isUnknown:
			if now.owner == q.owner {
				now.held = false
			}
			return true, now
		}
		return false, now
	},
	DescribeOperation: func(in, out any) string {
		q := in.(question)
		return fmt.Sprintf("%s %d by %s took %q: %s", q.kind, q.token, q.owner, q.took, out)
	},
}

// linear checks one window of the key's grants after another. Each but the
// first begins with the last grant of the one before.
func (c *checker) linear(key string, grants []*op) {
	keys := map[string][]string{}
	for g := range c.alive {
		keys[g.Owner] = g.Keys
	}
	for from := 0; from < len(grants); from += grantsOfWindow {
		w := window{key: key, keys: keys, killed: c.killed, kept: c.Mode == Binary, grants: grants, from: from, to: min(from+grantsOfWindow, len(grants)) - 1}
		ops := w.build(c.ops)
		c.r.LinearOps += len(ops)
		model := holderModel
		if from > 0 {
			before := grants[from-1]
			model.Init = func() any { return holderState{token: before.token(key), owner: before.Owner, held: true} }
		}
		verdict, info := porcupine.CheckOperationsVerbose(model, ops, linearTime)
		switch verdict {
		case porcupine.Illegal:
			c.fail("linear", key, "no order explains the %d operations with tokens %d to %d; stuck at\n%s",
				len(ops), grants[w.from].token(key), grants[w.to].token(key), stuck(ops, info))
		case porcupine.Unknown:
			c.r.LinearNoProof++
		}
	}
}

// stuck shows where the longest explanation ends: its last operations, and the
// first ones that do not fit.
func stuck(ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var best []porcupine.Operation
	for _, part := range info.PartialLinearizationsOperations() {
		for _, p := range part {
			if len(p) > len(best) {
				best = p
			}
		}
	}
	var b strings.Builder
	show := func(mark string, list []porcupine.Operation) {
		for _, o := range list {
			fmt.Fprintf(&b, "  %s %.6f to %.6f worker %d %s\n", mark, float64(o.Call)/1e9, float64(o.Return)/1e9,
				o.ClientId, holderModel.DescribeOperation(o.Input, o.Output))
		}
	}
	show("fits", best[max(0, len(best)-5):])
	rest := slices.DeleteFunc(slices.Clone(ops), func(o porcupine.Operation) bool { return slices.Contains(best, o) })
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	show("not ", rest[:min(8, len(rest))])
	return b.String()
}

// A window is the part of a key's history from one grant to another.
type window struct {
	key      string
	keys     map[string][]string // of an owner, where its grant is known
	killed   map[int]int64       // when a worker was
	kept     bool                // a lease that names its worker has a keeper
	grants   []*op
	from, to int

	out    []porcupine.Operation
	ghosts map[string]bool // owners that were added
	over   map[string]bool // owners that lost this key with another
}

func (w *window) add(o *op, q question, result string, call, end int64) {
	w.out = append(w.out, porcupine.Operation{ClientId: o.Row, Input: q, Output: result, Call: call, Return: end})
}

func (w *window) build(ops []op) []porcupine.Operation {
	w.ghosts, w.over = map[string]bool{}, map[string]bool{}
	released := map[int64]bool{}
	known := map[string]bool{}
	at := map[int64]int{} // place of a token
	for i, g := range w.grants {
		known[g.Owner] = true
		at[g.token(w.key)] = i
	}
	for i := w.from; i <= w.to; i++ {
		g := w.grants[i]
		took := g.Took[w.key].Owner
		if took != "" && !known[took] {
			w.seen(took, g)
		}
		w.add(g, question{kind: opAcquire, token: g.token(w.key), owner: g.Owner, took: took, mute: g.Untold}, isOK, g.Began, g.Return)
	}
	held := 0
	for i := range ops {
		o := &ops[i]
		w.addEnded(o)
		switch {
		case o.Result == isHeld && held < heldOfWindow:
			if w.addHeld(o, known) {
				held++
			}
		case o.Result == isDenied, w.foreign(o, at): // says nothing about the token
		case (o.Kind == opRenew || o.Kind == opRelease) && slices.Contains(o.Keys, w.key):
			if place, ok := at[o.token(w.key)]; ok && place >= w.from-1 && place <= w.to {
				w.addOwn(o, place)
				released[o.token(w.key)] = released[o.token(w.key)] || o.Kind == opRelease && o.Result != isLost
			}
		}
	}
	w.addSilent(ops, released)
	return w.out
}

// foreign reports that a probe under another name than the holder's got
// "lost". It is, once the lease is past its ttl, whether somebody has it or not.
func (w *window) foreign(o *op, at map[int64]int) bool {
	place, ok := at[o.token(w.key)]
	if !ok || !o.Probe || o.Result != isLost {
		return false
	}
	g := w.grants[place]
	return g.Owner != o.Owner && o.Return > g.Began+int64(g.TTL)
}

// seen adds the grant of a worker that was killed before it could tell.
func (w *window) seen(owner string, evidence *op) {
	if w.ghosts[owner] {
		return
	}
	w.ghosts[owner] = true
	since := w.start() // it came after every grant that was reported before
	for _, g := range w.grants[w.from : w.to+1] {
		if g.Return < evidence.Began {
			since = max(since, g.Began)
		}
	}
	w.add(evidence, question{kind: ghost, owner: owner}, isUnknown, since, evidence.Return)
}

// start is a moment before everything that the window has to explain.
func (w *window) start() int64 {
	if w.from == 0 {
		return 0
	}
	return w.grants[w.from-1].Return
}

// addHeld adds an answer of one who was refused, if it belongs here for sure.
func (w *window) addHeld(o *op, known map[string]bool) bool {
	end := int64(math.MaxInt64)
	if w.to+1 < len(w.grants) {
		end = min(w.grants[w.to].Return, w.grants[w.to+1].Began)
	}
	if o.HeldKey != w.key || o.Began <= w.start() && w.from > 0 || o.Return > end {
		return false
	}
	if o.Holder != "" && !known[o.Holder] {
		w.seen(o.Holder, o)
	}
	w.add(o, question{kind: opAcquire, owner: o.Holder}, isHeld, o.Began, o.Return)
	return true
}

// addEnded adds the end of this key that came with the take-over of another. A grant of
// all of a pool also ends slots that it does not get, because the pool is smaller now.
func (w *window) addEnded(o *op) {
	for key, t := range o.Took {
		if key == w.key && slices.Contains(o.Keys, key) || len(w.keys[t.Owner]) > 0 && !slices.Contains(w.keys[t.Owner], w.key) {
			continue
		}
		w.add(o, question{kind: ended, owner: t.Owner}, isUnknown, o.Began, o.Return)
		w.over[t.Owner] = true
	}
}

// addSilent adds ends that nobody told. The keeper of a lease gave it back when
// its worker was killed; "run" released by itself and its worker was killed
// before it could say so; or a lease went without release or known take-over,
// and a worker that was killed about then wanted one of its keys: it took them
// over, and gave them back or lost them in its turn.
func (w *window) addSilent(ops []op, released map[int64]bool) {
	for i := max(w.from-1, 0); i < w.to; i++ {
		g, next := w.grants[i], w.grants[i+1]
		if next.Took[w.key].Owner != "" || released[g.token(w.key)] || w.over[g.Owner] {
			continue
		}
		if g.Untold {
			w.add(g, question{kind: ended, owner: g.Owner}, isUnknown, g.Began, next.Return)
			continue
		}
		if at, dead := w.killed[g.Row]; w.kept && g.Process && dead && at < next.Return {
			w.add(g, question{kind: ended, owner: g.Owner}, isUnknown, at, next.Return)
			continue
		}
		killed := slices.ContainsFunc(ops, func(o op) bool {
			return o.Kind == opAcquire && o.Result == isUnknown && o.Call < next.Return && w.gone(o) > g.Began && shares(g.Keys, o.Keys)
		})
		if killed { // a holder that was paused may be told when its ttl is over
			w.add(g, question{kind: ended, owner: g.Owner}, isUnknown, min(g.Return, g.Began+int64(g.TTL)), next.Return)
		}
	}
}

// gone is when nothing can come any more of an operation whose end nobody saw:
// the command that a killed worker had started outlives it by a little.
func (w *window) gone(o op) int64 {
	if at, ok := w.killed[o.Row]; ok {
		return at + 5*int64(o.TTL)
	}
	return never
}

// shares reports whether a lease may have a key that another operation wanted: any slot
// does for the pool.
func shares(a, b []string) bool {
	return slices.Contains(b, poolKey) || slices.ContainsFunc(a, func(k string) bool { return slices.Contains(b, k) })
}

// addOwn adds what the holder of the grant at that place did. Whether an
// operation happened whose end nobody saw is known from the next grant.
func (w *window) addOwn(o *op, place int) {
	q := question{kind: o.Kind, token: o.token(w.key), owner: o.Owner}
	last := place+1 == len(w.grants)
	call := o.Call
	if g := w.grants[place]; g.Untold {
		call = g.Began // "run" releases by itself, before the worker sees its end
	}
	unsure := o.Result == isUnknown || o.Kind == opRelease && o.Result == isLost && o.Attached
	switch {
	case !unsure && o.Result == isLost && place == w.to && !last:
	case !unsure:
		w.add(o, q, o.Result, call, o.Return)
	case o.Probe: // it changes nothing, or the other checks see it
	case o.Kind == opRelease && last:
		w.add(o, q, isUnknown, call, never)
	case o.Kind == opRelease && w.grants[place+1].Took[w.key].Owner != o.Owner:
		w.add(o, q, isUnknown, call, max(call, w.grants[place+1].Return))
	}
}
