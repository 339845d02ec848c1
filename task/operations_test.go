package task_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// The operations of a property: each is done for real and to the model, and
// returns what the one answered and what the other says it should.

func (p *property) owner() string {
	return pick(p, "owner", []string{"A", "B", "A/x", "C"}...)
}

// id is a task's that is, was, or never will be.
func (p *property) id() string {
	ids := []string{"none"}
	if p.model.next > 1 {
		ids = ids[:0]
	}
	for i := range p.model.next - 1 {
		ids = append(ids, fmt.Sprint("t", i+1))
	}
	return pick(p, "task", ids...)
}

func (p *property) key() string {
	if p.chance("of a section", 3) {
		return "section:" + pick(p, "section", []string{"S", "T"}...)
	}
	return p.id()
}

// request names the next one.
func (p *property) request(owner string) lease.AcquireRequest {
	p.n++
	return lease.AcquireRequest{Owner: owner, ID: fmt.Sprint("r", p.n)}
}

// granted tells the model the tokens.
func (p *property) granted(g lease.Grant) {
	for _, k := range g.Keys {
		p.tokens = append(p.tokens, k.Token)
		lk := p.model.locks[k.Key]
		lk.token = k.Token
		p.model.locks[k.Key] = lk
	}
}

func (p *property) add() (string, error) {
	m := p.model
	n := task.New{
		Title: "x", Section: pick(p, "section", []string{"", "S", "S", "T", "U"}...),
		Priority: pick(p, "priority", []int{task.High, task.Medium}...),
	}
	deps := map[string]bool{}
	for range pick(p, "dependencies", 0, 0, 1, 2) {
		if id := p.id(); m.tasks[id] != nil {
			deps[id] = true
		}
	}
	n.DependsOn = slices.Collect(maps.Keys(deps))
	id := fmt.Sprint("t", m.next)
	want := ""
	if n.Section != "" && m.holder(id) != nil {
		want = "busy"
	} else if n.Section != "" {
		m.free(id, "test")
	}
	_, err := task.Add(ctx, p.st, task.AddRequest{Tasks: []task.New{n}, By: "test"})
	if err == nil {
		m.tasks[id] = &modelTask{id: id, section: n.Section, priority: n.Priority, age: m.next, status: task.Pending, deps: deps}
		m.next++
	}
	return want, err
}

func (p *property) claim() (string, error) {
	owner := p.owner()
	ids := []string{p.id()}
	if p.chance("two", 4) {
		if id := p.id(); id != ids[0] {
			ids = append(ids, id)
		}
	}
	r := p.request(owner)
	slices.Sort(ids)
	want := ""
	for _, id := range ids {
		if p.model.tasks[id] == nil {
			want = "not found"
		}
	}
	out, err := task.ClaimTasks(ctx, p.st, task.ClaimRequest{Tasks: ids, Acquire: r})
	if want == "" {
		want = p.model.claim(owner+"/"+r.ID, owner, ids)
	}
	p.granted(out.Grant)
	return want, err
}

func (p *property) next() (string, error) {
	owner := p.owner()
	r := p.request(owner)
	id := p.model.candidate(owner)
	out, err := task.Next(ctx, p.st, task.NextRequest{Claim: true, Acquire: r})
	if id == "" {
		return "nothing", err
	}
	if err == nil && out.Task.ID != id {
		p.Fatalf("next is %s, the model says %s", out.Task.ID, id)
	}
	want := p.model.claim(owner+"/"+r.ID, owner, []string{id})
	if out.Grant != nil {
		p.granted(*out.Grant)
	}
	return want, err
}

func (p *property) do() (string, error) {
	verbs := []task.Verb{task.Complete, task.Complete, task.Unclaim, task.Fail, task.Block, task.Unblock, task.Skip, task.Submit}
	verb, owner, id := pick(p, "verb", verbs...), p.owner(), p.id()
	var token int64
	if len(p.tokens) > 0 && p.chance("with token", 2) {
		token = pick(p, "token", p.tokens[max(0, len(p.tokens)-4):]...)
		if lk := p.model.locks[id]; lk.token != 0 && p.chance("of the lock", 2) {
			token = lk.token
		}
	}
	want := p.model.do(verb, owner, id, token)
	_, err := task.ChangeStatus(ctx, p.st, task.StatusRequest{Verb: verb, Tasks: []string{id}, Owner: owner, Token: token})
	return want, err
}

func (p *property) reset() (string, error) {
	r := task.ResetRequest{Tasks: []string{p.id()}, By: "admin", Cascade: p.chance("cascade", 2), Force: p.chance("force", 2)}
	_, err := task.ResetTasks(ctx, p.st, r)
	return p.model.reset(r.Tasks[0], r.Cascade, r.Force), err
}

func (p *property) depends() (string, error) {
	m, id, on := p.model, p.id(), p.id()
	want := ""
	switch {
	case m.tasks[id] == nil || m.tasks[on] == nil:
		want = "not found"
	case m.reaches(on, id):
		want = "cycle"
	default:
		m.tasks[id].deps[on] = true
	}
	_, err := task.Depends(ctx, p.st, task.DependsRequest{Task: id, On: []string{on}})
	return want, err
}

func (p *property) remove() (string, error) {
	archive, id := p.chance("archive", 2), p.id()
	run := task.Delete
	if archive {
		run = task.Archive
	}
	want := p.model.remove(id, "admin", archive)
	_, err := run(ctx, p.st, task.RemoveRequest{Tasks: []string{id}, By: "admin"})
	return want, err
}

func (p *property) keys() []string {
	keys := []string{p.key()}
	if p.chance("two", 4) {
		keys = append(keys, p.key())
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (p *property) acquire() (string, error) {
	owner, keys := p.owner(), p.keys()
	r := p.request(owner)
	r.Keys, r.OuterKey = keys, task.OuterKey
	g, err := lease.Acquire(ctx, p.st, r)
	want := p.model.acquire(owner+"/"+r.ID, owner, keys)
	p.granted(g)
	return want, err
}

func (p *property) release() (string, error) {
	owner, keys := p.owner(), p.keys()
	_, err := lease.Release(ctx, p.st, lease.ReleaseRequest{Owner: owner, Keys: keys})
	return p.model.release(owner, keys), err
}

func (p *property) renew() (string, error) {
	owner, key := p.owner(), p.key()
	_, err := lease.Renew(ctx, p.st, lease.RenewRequest{Owner: owner, Keys: []string{key}})
	l := p.model.leases[p.model.locks[key].lease]
	if l == nil || !related(owner, l.owner) {
		return "lost", err
	}
	p.model.renew(l)
	return "", err
}

func (p *property) breakKey() (string, error) {
	key := p.key()
	_, err := lease.Break(ctx, p.st, lease.BreakRequest{Keys: []string{key}, By: "admin"})
	if l := p.model.leases[p.model.locks[key].lease]; l != nil {
		p.model.end(l, maps.Clone(l.keys))
	}
	return "", err
}

func (p *property) time() (string, error) {
	p.model.now = p.model.now.Add(time.Duration(pick(p, "minutes", []int{10, 40, 61, 121}...)) * time.Minute)
	return "", nil
}

func (p *property) cleanup() (string, error) {
	_, err := lease.Cleanup(ctx, p.st, lease.CleanupRequest{By: "admin"})
	var over []*modelLease
	for _, l := range p.model.leases {
		if !p.model.live(l) {
			over = append(over, l)
		}
	}
	for _, l := range over {
		p.model.end(l, maps.Clone(l.keys))
	}
	return "", err
}

func (p *property) endSession() (string, error) {
	owner := p.owner()
	_, err := lease.Release(ctx, p.st, lease.ReleaseRequest{Owner: owner, All: true})
	for _, l := range p.model.leases {
		if child(l.owner, owner) {
			p.model.end(l, maps.Clone(l.keys))
		}
	}
	return "", err
}

// move puts a task into another section.
func (p *property) move() (string, error) {
	m, owner, id := p.model, p.owner(), p.id()
	section := pick(p, "to", []string{"", "S", "T", "U"}...)
	_, err := task.Edit(ctx, p.st, task.EditRequest{Task: id, Owner: owner, Section: &section})
	t, l := m.tasks[id], m.holder(id)
	switch {
	case t == nil:
		return "not found", err
	case l != nil && !child(owner, l.owner):
		return "owner", err
	case t.section == section:
		return "", err
	case l != nil:
		return "state", err
	}
	m.free(id, owner)
	t.section = section
	return "", err
}
