package server_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/internal/server"
)

// raw sends bytes and returns the status of the answer, 0 if there is none.
func (r *replica) raw(t *testing.T, text string) int {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.addr, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		return 0
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// TestRebinding is W1: a page whose name leads to this machine has no key, and gets
// nothing, on no path. A client with a key may use any name: a probe has the address of
// the pod.
func TestRebinding(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Viewer, "").Secret
	for _, host := range []string{"evil.test", "evil.test:7421", "0.0.0.0", "localhost.evil.test", "127.0.0.1.evil.test", "[::]"} {
		for _, path := range []string{"/v1/locks", "/v1/keys", "/", "/nothing"} {
			for _, auth := range []string{"", "Authorization: Bearer tl_aaaaaaaaaa_" + strings.Repeat("a", 52) + "\r\n"} {
				if got := w.raw(t, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\n"+auth+"\r\n"); got != 403 {
					t.Errorf("%s at %s: %d", path, host, got)
				}
			}
		}
		if got := w.raw(t, "GET /v1/locks HTTP/1.1\r\nHost: "+host+"\r\nAuthorization: Bearer "+key+"\r\n\r\n"); got != 200 {
			t.Errorf("with a key at %s: %d", host, got)
		}
		for _, path := range []string{"/healthz", "/readyz"} {
			if got := w.raw(t, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); got != 200 {
				t.Errorf("%s at %s: %d", path, host, got)
			}
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80"} {
		if got := w.raw(t, "GET /v1/locks HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); got != 401 {
			t.Errorf("%s: %d", host, got)
		}
	}
}

// TestCrossSite is W2: what a page of another site can send changes nothing, even with a
// key.
func TestCrossSite(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Admin, "ops")
	acquire := `{"keys":["x"]}`
	for name, c := range map[string]struct {
		method, path, kind, body string
		header                   map[string]string
		want                     int
	}{
		"form":            {"POST", "/v1/locks/acquire", "text/plain", acquire, nil, 415},
		"no type":         {"POST", "/v1/locks/acquire", "", acquire, nil, 415},
		"urlencoded":      {"POST", "/v1/locks/acquire", "application/x-www-form-urlencoded", "keys=x", nil, 415},
		"cross-site":      {"POST", "/v1/locks/acquire", "application/json", acquire, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"same-site":       {"POST", "/v1/locks/acquire", "application/json", acquire, map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		"origin":          {"POST", "/v1/locks/acquire", "application/json", acquire, map[string]string{"Origin": "https://evil.test"}, 403},
		"null origin":     {"POST", "/v1/locks/acquire", "application/json", acquire, map[string]string{"Origin": "null"}, 403},
		"delete":          {"DELETE", "/v1/keys?id=" + key.ID, "", "", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"get that writes": {"GET", "/v1/locks/acquire?keys=x", "", "", nil, 405},
		"override":        {"GET", "/v1/keys?id=" + key.ID, "", "", map[string]string{"X-HTTP-Method-Override": "DELETE"}, 400},
	} {
		req, _ := http.NewRequest(c.method, w.addr+c.path, strings.NewReader(c.body))
		req.Header.Set("Authorization", "Bearer "+key.Secret)
		req.Header.Set("Idempotency-Key", id())
		if c.kind != "" {
			req.Header.Set("Content-Type", c.kind)
		}
		for k, v := range c.header {
			req.Header.Set(k, v)
		}
		r, err := do(req)
		if err != nil || r.status != c.want || r.Code == "" {
			t.Errorf("%s: %+v %v", name, r, err)
		}
		if r.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: a page may read it", name)
		}
	}
	if r := w.must(200, "GET", "/v1/locks", key.Secret, "", nil); len(r.Locks) != 0 {
		t.Errorf("%s", r.text)
	}
	w.must(200, "GET", "/v1/keys", key.Secret, "", nil)
}

// TestKeys is W3: each key opens what its role allows, and the dead ones nothing.
func TestKeys(t *testing.T) {
	w := newWorld(t)
	roles := map[access.Role]string{"": "", "wrong": "tl_aaaaaaaaaa_" + strings.Repeat("a", 52)}
	for _, role := range access.Roles {
		roles[role] = w.key(role, "own-"+string(role)).Secret
	}
	revoked := w.key(access.Admin, "gone")
	w.must(200, "GET", "/v1/locks", revoked.Secret, "", nil)
	w.must(200, "DELETE", "/v1/keys?id="+revoked.ID, roles[access.Admin], "", nil)
	roles["revoked"] = revoked.Secret
	for _, c := range []struct {
		method, path string
		body         any
		from         access.Role // the least role
		want         int         // with it
	}{
		{"GET", "/v1/locks", nil, access.Viewer, 200},
		{"GET", "/v1/locks/show?key=x", nil, access.Viewer, 404},
		{"GET", "/v1/locks/check?key=x", nil, access.Viewer, 200},
		{"GET", "/v1/locks/wait?key=x", nil, access.Viewer, 200},
		{"POST", "/v1/locks/acquire", object{"keys": []string{""}}, access.Worker, 400},
		{"POST", "/v1/locks/renew", object{"lease": "strange/a", "token": 1}, access.Worker, 403},
		{"POST", "/v1/locks/release", object{"lease": "strange/a", "token": 1}, access.Worker, 403},
		{"POST", "/v1/locks/break", object{"keys": []string{"x"}, "reason": "r"}, access.Operator, 200},
		{"POST", "/v1/cleanup", object{"dryRun": true}, access.Operator, 200},
		{"GET", "/v1/keys", nil, access.Admin, 200},
		{"POST", "/v1/keys", object{"role": "root"}, access.Admin, 400},
		{"DELETE", "/v1/keys?id=nosuchkey0", nil, access.Admin, 404},
	} {
		for role, key := range roles {
			want := c.want
			switch {
			case role == "" || role == "wrong" || role == "revoked":
				want = 401
			case !role.Allows(c.from):
				want = 403
			}
			r := w.must(want, c.method, c.path, key, id(), c.body)
			if (r.header.Get("WWW-Authenticate") != "") != (want == 401) {
				t.Errorf("%+v", r)
			}
		}
	}
}

// TestChildKeysOverHTTP: an admin makes keys below its own, and they die with it, also
// in requests that wait.
func TestChildKeysOverHTTP(t *testing.T) {
	w := newWorld(t)
	boss := w.key(access.Admin, "boss")
	top := w.key(access.Admin, "ops").Secret
	for _, bad := range []object{
		{"role": "peer", "owner": "boss/a"}, {"role": "worker", "owner": "bob"}, {"role": "worker", "owner": "boss"}, {"role": "viewer"},
	} {
		w.must(403, "POST", "/v1/keys", boss.Secret, "", bad)
	}
	made := w.must(200, "POST", "/v1/keys", boss.Secret, "", object{"role": "admin", "owner": "boss/a", "name": "n", "expires": "1h"})
	child := field(t, made.text, "key")
	w.must(404, "DELETE", "/v1/keys?id="+boss.ID, child, "", nil)
	g := w.must(200, "POST", "/v1/locks/acquire", top, id(), object{"keys": []string{"x"}})
	done := make(chan reply, 1)
	go func() {
		r, _ := w.call("POST", "/v1/locks/acquire", child, id(), object{"keys": []string{"x"}, "wait": "50s"})
		done <- r
	}()
	patience.Until(t, "it waits", func() bool {
		s, err := lease.Show(t.Context(), w.st, "x")
		return err == nil && len(s.Waiters) == 1
	})
	if _, err := access.Revoke(t.Context(), w.st, access.RevokeRequest{IDs: []string{boss.ID}}); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.status != 401 {
		t.Errorf("%+v", r)
	}
	w.must(401, "GET", "/v1/locks", child, "", nil)
	w.must(200, "POST", "/v1/locks/release", top, "", object{"lease": g.LeaseID, "token": g.Token})
}

// TestSecrets is W4: a key in a URL opens nothing, and no log or answer has it.
func TestSecrets(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Worker, "ci").Secret
	secret := key[len(key)-52:]
	answers := ""
	for _, c := range [][2]string{
		{"/v1/locks?key=" + key, ""}, {"/v1/locks?access_token=" + key, ""}, {"/v1/locks?access_token=" + key, key}, {"/" + key, ""}, {"/" + key, key},
		{"/v1/locks/show?key=x", key}, {"/v1/locks?limit=%zz", key},
	} {
		r, err := w.call("GET", c[0], c[1], "", nil)
		if err != nil || r.status == 200 {
			t.Errorf("%s: %+v %v", c[0], r, err)
		}
		answers += r.text
	}
	if got := w.raw(t, "GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nCookie: key="+key+"\r\nX-Api-Key: "+key+"\r\nAuthorization: Basic "+key+"\r\n\r\n"); got != 401 {
		t.Errorf("%d", got)
	}
	_ = w.st.Close()
	w.replica.mu.Lock()
	defer w.replica.mu.Unlock()
	if log := strings.Join(w.log, "\n"); strings.Contains(log+answers, secret) {
		t.Errorf("a log or an answer has the key: %s %s", log, answers)
	}
}

// TestBadInput is S9: a body is one JSON object with known names, each once.
func TestBadInput(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Worker, "ci").Secret
	deep := strings.Repeat("[", 100_000)
	for _, body := range []string{
		"", " ", "null", "1", `"x"`, "[]", "{", `{"keys":["x"]}{}`, `{"keys":["x"]} x`, `{"keys":["x"],"keys":["y"]}`, `{"keys":["x"],"Keys":["y"]}`,
		`{"keys":["x"],"owner":"root"}`, `{"keys":["x"],"id":"a"}`, `{"keys":"x"}`, `{"keys":[1]}`, `{"keys":[]}`, `{"keys":["x"],"ttl":60}`,
		`{"keys":["x"],"ttl":"60"}`, `{"keys":["x"],"ttl":"-1s"}`, `{"keys":["x"],"ttl":"10000h"}`, `{"keys":["x"],"wait":"51s"}`, `{"keys":["x"],"wait":"-1s"}`,
		`{"keys":["x"],"take":1e400}`, `{"keys":["x"],"take":1.5}`, `{"keys":["a\u0000b"]}`, "{\"keys\":[\"\xff\"]}", `{"keys":` + deep, `{"keys":["../../etc/x"]}`,
		`{"keys":["x"],"maxHold":"-1s"}`, `{"keys":["x"],"slots":-1}`,
	} {
		if r := w.must(400, "POST", "/v1/locks/acquire", key, id(), body); r.Detail == "" {
			t.Errorf("%.60q: %+v", body, r)
		}
	}
	for _, query := range []string{"?keys=x", "?key=a&key=b", "?token=x", "?token=1.5", "?token=null1", "?key=%zz", "?=x", "?timeout=5", "?since=1e400"} {
		r, err := w.call("GET", "/v1/locks/wait"+query, key, "", nil)
		if err != nil || r.status != 400 {
			t.Errorf("%s: %+v %v", query, r, err)
		}
	}
	if r := w.must(200, "GET", "/v1/locks", key, "", nil); len(r.Locks) != 0 {
		t.Errorf("%s", r.text)
	}
}

// TestHugeRequests is a part of W6: bodies and headers have an end.
func TestHugeRequests(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Worker, "ci").Secret
	r, err := w.call("POST", "/v1/locks/acquire", key, id(), `{"reason":"`+strings.Repeat("a", 2<<20)+`"}`)
	if err != nil || r.status != 413 {
		t.Errorf("%+v %v", r, err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(bytes.Repeat([]byte(" "), 64<<20))
	_ = z.Close()
	req, _ := http.NewRequest("POST", w.addr+"/v1/locks/acquire", &packed)
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}, "Idempotency-Key": {id()}}
	if r, err := do(req); err != nil || r.status != 415 {
		t.Errorf("%+v %v", r, err)
	}
	if got := w.raw(t, "GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("a", 2<<20)+"\r\n\r\n"); got != 431 && got != 0 {
		t.Errorf("%d", got)
	}
}

// TestOthersAreServed is W6: while one floods with wrong keys and another uses all that
// its key allows, a third is served.
func TestOthersAreServed(t *testing.T) {
	w := newWorld(t)
	small := w.serve(server.Options{Calls: 4, Rate: 1000})
	greedy, other := w.key(access.Worker, "greedy").Secret, w.key(access.Worker, "ci").Secret
	g := w.at(small, 200, "POST", "/v1/locks/acquire", other, id(), object{"keys": []string{"x"}})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var refused, wrong atomic.Int64
	for range 4 {
		all.Go(func() {
			_, _ = small.send(ctx, "POST", "/v1/locks/acquire", greedy, id(), object{"keys": []string{"x"}, "wait": "50s"})
		})
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if r, err := small.send(ctx, "GET", "/v1/locks", fmt.Sprintf("tl_%010d_%s", n, strings.Repeat("a", 52)), "", nil); err == nil && r.status == 401 {
					wrong.Add(1)
				}
			}
		})
	}
	patience.Until(t, "all its calls wait", func() bool {
		s, err := lease.Show(t.Context(), w.st, "x")
		return err == nil && len(s.Waiters) == 4
	})
	for range 20 {
		if r := w.at(small, 429, "GET", "/v1/locks", greedy, "", nil); r.header.Get("Retry-After") != "" {
			refused.Add(1)
		}
		w.at(small, 200, "GET", "/v1/locks/check?key=x", other, "", nil)
		w.at(small, 200, "POST", "/v1/locks/renew", other, "", object{"lease": g.LeaseID, "token": g.Token})
	}
	patience.Until(t, "wrong keys come", func() bool { return wrong.Load() > 100 })
	cancel()
	all.Wait()
	if refused.Load() != 20 {
		t.Errorf("%d refused", refused.Load())
	}
}

// TestRate: a client in a loop is slowed down, and nobody else.
func TestRate(t *testing.T) {
	w := newWorld(t)
	slow := w.serve(server.Options{Rate: 2})
	key, other := w.key(access.Viewer, "").Secret, w.key(access.Viewer, "").Secret
	got := map[int]int{}
	for range 50 {
		r, err := slow.call("GET", "/v1/locks", key, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		got[r.status]++
	}
	if got[200] < 4 || got[429] == 0 || got[200]+got[429] != 50 {
		t.Errorf("%v", got)
	}
	w.at(slow, 200, "GET", "/v1/locks", other, "", nil)
}

// TestSlowHeaders is W6: a client that sends its header letter by letter is given up.
func TestSlowHeaders(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.server.Serve(ctx, l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = io.Copy(io.Discard, c) }()
	for _, letter := range "GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 1000) {
		if _, err := io.WriteString(c, string(letter)); err != nil {
			break
		}
		select {
		case <-gone:
		case <-time.After(50 * time.Millisecond):
			continue
		}
		break
	}
	<-gone
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestPaths is W7: a path is what it says, a request has one host, and nothing hides
// behind another request.
func TestPaths(t *testing.T) {
	w := newWorld(t)
	auth := "Authorization: Bearer " + w.key(access.Admin, "ops").Secret + "\r\n"
	for _, path := range []string{
		"/v1/locks/../keys", "/v1/..%2fkeys", "/v1%2flocks", "//v1/locks", "/v1//locks", "/v1/locks/", "/v1/./locks", "/V1/locks", "/v1/locks%00", "/v1/locks;x", "/", "/v1",
	} {
		if got := w.raw(t, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n"+auth+"\r\n"); got != 404 {
			t.Errorf("%s: %d", path, got)
		}
	}
	for name, text := range map[string]string{
		"1.0 without host": "GET /v1/locks HTTP/1.0\r\n" + auth + "\r\n",
		"no host":          "GET /v1/locks HTTP/1.1\r\n" + auth + "\r\n",
		"two hosts":        "GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nHost: evil.test\r\n" + auth + "\r\n",
		"two lengths":      "POST /v1/cleanup HTTP/1.1\r\nHost: localhost\r\n" + auth + "Content-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
		"bad chunks":       "POST /v1/cleanup HTTP/1.1\r\nHost: localhost\r\n" + auth + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"bad header":       "GET /v1/locks HTTP/1.1\r\nHost: localhost\r\n" + auth + "X : y\r\n\r\n",
	} {
		if got := w.raw(t, text); got != 400 {
			t.Errorf("%s: %d", name, got)
		}
	}
	if got := w.raw(t, "TRACE /v1/locks HTTP/1.1\r\nHost: localhost\r\n"+auth+"\r\n"); got != 405 {
		t.Errorf("%d", got)
	}
	// The key of a lock travels as text, whatever it holds.
	worker := w.key(access.Worker, "ci").Secret
	w.must(200, "POST", "/v1/locks/acquire", worker, id(), object{"keys": []string{"a/b&c=d#e?f"}})
	if r := w.must(200, "GET", "/v1/locks/check?key=a%2Fb%26c%3Dd%23e%3Ff", worker, "", nil); !r.Locked {
		t.Errorf("%s", r.text)
	}
}

// TestOwners is W8: nobody acts for another owner, whatever it knows: neither by a name
// that only begins like one, nor for a parent, nor by an Idempotency-Key of another.
func TestOwners(t *testing.T) {
	w := newWorld(t)
	ci, child, near := w.key(access.Worker, "ci").Secret, w.key(access.Worker, "ci/a").Secret, w.key(access.Worker, "c").Secret
	request := id()
	g := w.must(200, "POST", "/v1/locks/acquire", ci, request, object{"keys": []string{"x"}})
	if _, err := lease.Acquire(t.Context(), w.st, lease.AcquireRequest{Keys: []string{"own"}, Owner: "ci", ID: "own-request-of-ci"}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{child, near} {
		for _, name := range []string{g.LeaseID, "ci/own-request-of-ci"} {
			for _, path := range []string{"renew", "release"} {
				w.must(403, "POST", "/v1/locks/"+path, key, request, object{"lease": name, "token": g.Token})
			}
		}
	}
	for _, name := range []string{"../ci/" + request, "c/../" + g.LeaseID, "/" + g.LeaseID, "c", ""} {
		for _, path := range []string{"renew", "release"} {
			r, err := w.call("POST", "/v1/locks/"+path, near, "", object{"lease": name, "token": g.Token})
			if err != nil || r.status < 400 || r.status >= 500 {
				t.Errorf("%s %s: %+v %v", path, name, r, err)
			}
		}
	}
	w.must(423, "POST", "/v1/locks/acquire", near, request, object{"keys": []string{"x"}, "wait": "0s"})
	w.must(423, "POST", "/v1/locks/acquire", child, request, object{"keys": []string{"x"}, "wait": "0s"})
	w.must(200, "GET", fmt.Sprintf("/v1/locks/check?key=x&token=%d", g.Token), ci, "", nil)
}

// TestStop: a server that stops is not ready, answers those who wait that they are
// queued, and they go on at another one.
func TestStop(t *testing.T) {
	w := newWorld(t)
	other := w.serve(server.Options{})
	key := w.key(access.Worker, "ci").Secret
	g := w.must(200, "POST", "/v1/locks/acquire", key, id(), object{"keys": []string{"x"}})
	request, body := id(), object{"keys": []string{"x"}, "wait": "50s"}
	done := make(chan reply, 2)
	began := time.Now()
	go func() {
		r, _ := w.call("POST", "/v1/locks/acquire", key, request, body)
		done <- r
	}()
	patience.Until(t, "it waits", func() bool {
		s, err := lease.Show(t.Context(), w.st, "x")
		return err == nil && len(s.Waiters) == 1
	})
	w.server.Stop()
	if r := <-done; r.status != 202 || r.Position != 1 || time.Since(began) >= 50*time.Second {
		t.Errorf("it did not end the wait: %+v after %v", r, time.Since(began))
	}
	w.must(503, "GET", "/readyz", "", "", nil)
	w.must(200, "GET", "/healthz", "", "", nil)
	go func() {
		r, _ := other.call("POST", "/v1/locks/acquire", key, request, body)
		done <- r
	}()
	w.at(other, 200, "POST", "/v1/locks/release", key, "", object{"lease": g.LeaseID, "token": g.Token})
	if r := <-done; r.status != 200 || r.State != "acquired" {
		t.Errorf("%+v", r)
	}
}

// TestPrefix: behind a proxy all paths have one; a probe that comes past it needs none.
func TestPrefix(t *testing.T) {
	w := newWorld(t)
	r := w.serve(server.Options{Prefix: "/tasklock", Hosts: []string{"Locks.example.com"}})
	key := w.key(access.Viewer, "").Secret
	w.at(r, 200, "GET", "/tasklock/v1/locks", key, "", nil)
	w.at(r, 404, "GET", "/v1/locks", key, "", nil)
	w.at(r, 404, "GET", "/tasklockv1/locks", key, "", nil)
	w.at(r, 200, "GET", "/tasklock/readyz", "", "", nil)
	w.at(r, 200, "GET", "/readyz", "", "", nil)
	if got := r.raw(t, "GET /tasklock/v1/locks HTTP/1.1\r\nHost: locks.example.com\r\n\r\n"); got != 401 {
		t.Errorf("%d", got)
	}
}
