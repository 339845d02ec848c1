package lease

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A named request has one effect, however often it is repeated. The lease of an
// acquisition shows that it was granted, and after its end a receipt does; every
// other request leaves its receipt in the commit that carries it out.

// receipt is the outcome of a named request.
type receipt struct {
	Keys  []string `json:"keys,omitempty"`
	Ended string   `json:"ended,omitempty"` // how the lease of an acquisition ended
	Used  []string `json:"used,omitempty"`  // of an acquisition without new keys: the leases that had its keys
	Call  string   `json:"call,omitempty"`  // which call it was granted to, see [Once]

	Digest string          `json:"digest,omitempty"` // a hash of what was asked for
	Result json.RawMessage `json:"result,omitempty"` // of a [Repeatable] request: what came of it
}

// Repeatable is a request that its caller may repeat under the same id, also after a
// lost reply, for one effect. Other owners may use the same id. The zero Repeatable is a
// request without an id: it cannot be repeated.
type Repeatable struct{ owner, id, digest string }

// NewRepeatable names a request. Under its id the owner can ask for nothing else: verb and
// content are all that it asks for.
func NewRepeatable(owner, id, verb string, content any) (Repeatable, error) {
	if id == "" {
		return Repeatable{}, nil
	}
	if err := errors.Join(CheckOwner(owner), checkID(id)); err != nil {
		return Repeatable{}, err
	}
	digest, err := Digest(verb, content)
	return Repeatable{owner, id, digest}, err
}

// Digest is a hash of what a request asks for: data that has a form in JSON.
func Digest(verb string, content any) (string, error) {
	b, err := json.Marshal([]any{verb, content})
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:]), err
}

func (r Repeatable) name() string { return r.owner + "/" + r.id }

// Need names the records that Before reads.
func (r Repeatable) Need() []string {
	if r.id == "" {
		return nil
	}
	return []string{requestKind + r.name(), leaseKind + r.name()}
}

// Before reports whether the request was carried out before, and reads its result.
// The error is a [ReusedError] if the id stands for something else.
func (r Repeatable) Before(tx *store.Tx, result any) (bool, error) {
	if r.id == "" {
		return false, nil
	}
	if err := tx.Want(r.Need()...); err != nil {
		return false, err
	}
	done, err := store.Get[receipt](tx, requestKind+r.name())
	if err != nil {
		return false, err
	}
	own, err := store.Get[leaseRecord](tx, leaseKind+r.name())
	switch {
	case err != nil:
		return false, err
	case own.Exists() || done.Exists() && done.Value.Digest != r.digest:
		return false, usedBefore(r.id)
	case !done.Exists():
		return false, nil
	}
	return true, json.Unmarshal(done.Value.Result, result)
}

// Keep leaves the receipt with the result of the request in its commit.
func (r Repeatable) Keep(tx *store.Tx, result any) error {
	if r.id == "" {
		return nil
	}
	b, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return putReceipt(tx, r.name(), receipt{Digest: r.digest, Result: b})
}

// putReceipt notes the outcome of a request. name is its owner and its id.
func putReceipt(tx *store.Tx, name string, r receipt) error {
	tx.After(tidy)
	return tx.PutTTL(requestKind+name, r, keepTokens)
}

// grantedBefore reports whether this repeats a granted request. It refuses a
// request id that was used for something else, or whose lease has ended.
func (a *acquisition) grantedBefore(tx *store.Tx) (bool, error) {
	a.used = nil
	if !a.requested() {
		return false, nil
	}
	done, err := store.Get[receipt](tx, requestKind+a.lease())
	if err != nil {
		return false, err
	}
	own, err := getLease(tx, a.lease())
	if err != nil {
		return false, err
	}
	before := slices.Concat(done.Value.Keys, own.Value.all(), own.Value.WaitsFor)
	switch {
	case (own.Exists() || done.Exists()) && cmp.Or(own.Value.Digest, done.Value.Digest) != a.req.Digest:
		return false, usedBefore(a.id)
	case slices.ContainsFunc(before, func(k string) bool { return !slices.Contains(a.keys, queueOf(k)) && a.asks(k) }):
		return false, usedBefore(a.id)
	case done.Exists() && done.Value.Used == nil:
		return false, a.over(a.keys[0], done.Value.Ended)
	}
	a.used = done.Value.Used
	return own.Value.holds() || a.used != nil, nil
}

// asks reports whether the request asks for a key that an earlier request of this
// id had: a section may have come with a task that has moved since, or have another
// number of workers.
func (a *acquisition) asks(key string) bool {
	kind, _ := KindOf(key)
	return a.req.OuterKey == nil || kind != Section && !ofSection(queueOf(key))
}

// over is the answer to a repeated request whose key is no longer held: it has had
// its one effect.
func (a *acquisition) over(key, how string) error {
	return &LostError{Key: key, Why: fmt.Sprintf("request %s was granted before and is %s", quote(a.id), how)}
}

// noteUse leaves the receipt of a request for what its owner already had: no new
// lease shows it.
func (a *acquisition) noteUse(tx *store.Tx, leases []string) error {
	if !a.requested() || a.attached || a.used != nil {
		return nil
	}
	own, err := getLease(tx, a.lease())
	if err != nil || own.Value.holds() {
		return err
	}
	return putReceipt(tx, a.lease(), receipt{Keys: a.asked, Used: leases, Digest: a.req.Digest})
}

// Once is a [AcquireRequest.Then] that lets a request of an attached holder be
// granted once: each holder has its own name, so the request is noted under the
// parent.
func Once(owner, id string) func(*store.Tx, *Grant) error {
	call := NewID() // the same call recognises its receipt after a lost reply
	return func(tx *store.Tx, g *Grant) error {
		if err := errors.Join(CheckOwner(owner), checkID(id)); err != nil {
			return err
		}
		done, err := store.Get[receipt](tx, requestKind+owner+"/"+id)
		if err != nil {
			return err
		}
		var keys []string
		for _, k := range g.Keys {
			keys = append(keys, k.Key)
		}
		switch {
		case done.Exists() && done.Value.Call == call:
			return nil
		case done.Value.Result != nil:
			return usedBefore(id)
		case done.Exists():
			return &LostError{Key: keys[0], Why: fmt.Sprintf("request %s was granted before", quote(id))}
		}
		return putReceipt(tx, owner+"/"+id, receipt{Keys: keys, Ended: "done", Call: call})
	}
}

// Granted returns the keys that a request of that id holds, if any. If it was
// granted and has ended, the error is [ErrLost].
func Granted(ctx context.Context, st *store.Store, owner, id string) (keys []string, err error) {
	if err := errors.Join(CheckOwner(owner), checkID(id)); err != nil {
		return nil, err
	}
	name := owner + "/" + id
	err = st.View(ctx, driver.Query{Keys: []string{leaseKind + name, requestKind + name}}, func(tx *store.Tx) error {
		ls, err := getLease(tx, name)
		if err != nil {
			return err
		}
		keys = ls.Value.Keys
		done, err := store.Get[receipt](tx, requestKind+name)
		switch {
		case err != nil || !done.Exists():
		case done.Value.Result != nil:
			err = usedBefore(id)
		default:
			err = &LostError{Key: "request " + quote(id), Why: "was granted before and is " + done.Value.Ended}
		}
		return err
	})
	return keys, err
}

func usedBefore(id string) error {
	return &ReusedError{InvalidError{What: "request id " + quote(id), Rule: "was used for something else: choose a new one"}}
}
