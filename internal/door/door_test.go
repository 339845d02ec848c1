package door_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"

	"github.com/tasklock/tasklock/internal/door"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fill sets every field to something that is not zero, so that a field that is
// added to the contract and not to the wire is missed.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString("kind/\xff\x00ä\n\u2028" + strings.Repeat("x", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1<<53 + int64(*n))
	case reflect.Uint8:
		v.SetUint(uint64(0x80 + *n%0x80))
	default:
		panic("fill does not know " + v.Type().String())
	}
}

func TestEveryFieldCrosses(t *testing.T) {
	var q driver.Query
	var b driver.Batch
	n := 0
	fill(reflect.ValueOf(&q).Elem(), &n)
	fill(reflect.ValueOf(&b).Elem(), &n)
	b.Writes = append(b.Writes, driver.Write{Key: "gone"}, driver.Write{Key: "empty", Value: []byte{}})
	if diff := cmp.Diff(q, door.CrossQuery(t, q)); diff != "" {
		t.Errorf("a query is another one behind the wire: %s", diff)
	}
	if diff := cmp.Diff(b, door.CrossBatch(t, b)); diff != "" {
		t.Errorf("a batch is another one behind the wire: %s", diff)
	}
	now := time.Now()
	snap := driver.Snapshot{Rev: 1<<53 + 1, Now: now, Old: true, Unsure: true, Records: []driver.Record{
		{Key: "a/\xff", Rev: 3, Time: now.Add(-time.Hour - 1), Value: []byte("{}\n\xff")},
		{Key: "a/b", Rev: 1<<53 + 1, Time: now.Add(time.Nanosecond), Value: []byte(`{"<":"&"}`)},
	}}
	if have := reflect.TypeFor[driver.Snapshot]().NumField() + reflect.TypeFor[driver.Record]().NumField(); have != 9 {
		t.Errorf("snapshot and record have %d fields and not 9: this test does not look at the new ones", have)
	}
	got := door.CrossSnapshot(t, snap)
	for i, r := range got.Records {
		if age, want := got.Now.Sub(r.Time), snap.Now.Sub(snap.Records[i].Time); age != want {
			t.Errorf("record %d: age %v, was %v", i, age, want)
		}
		got.Records[i].Time = snap.Records[i].Time
	}
	if !got.Now.Equal(snap.Now) {
		t.Errorf("now is %v, was %v", got.Now, snap.Now)
	}
	got.Now = snap.Now
	if diff := cmp.Diff(snap, got); diff != "" {
		t.Errorf("a snapshot is another one behind the wire: %s", diff)
	}
}

// contractErrors are all errors that package driver names.
func contractErrors(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../store/driver/*.go")
	must(t, err)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Err") {
				names = append(names, v.Names[0].Name)
			}
			return true
		})
	}
	if len(names) < 13 {
		t.Fatalf("package driver names no more than %q", names)
	}
	return names
}

func TestEveryErrorCrosses(t *testing.T) {
	all := map[string]error{
		"ErrConflict": driver.ErrConflict, "ErrDamaged": driver.ErrDamaged, "ErrUnsafe": driver.ErrUnsafe, "ErrNewer": driver.ErrNewer,
		"ErrOlder": driver.ErrOlder, "ErrMissing": driver.ErrMissing, "ErrDenied": driver.ErrDenied, "ErrFull": driver.ErrFull,
		"ErrNoTurn": driver.ErrNoTurn, "ErrUntouched": driver.ErrUntouched, "ErrTooLarge": driver.ErrTooLarge,
		"ErrInvalid": driver.ErrInvalid, "ErrUnreachable": driver.ErrUnreachable,
	}
	local := map[string]error{"ErrClosed": driver.ErrClosed, "ErrLeft": driver.ErrLeft} // of this process
	for _, name := range contractErrors(t) {
		if all[name] == nil && local[name] == nil {
			t.Errorf("driver.%s: this test does not know whether it crosses", name)
		}
	}
	given := map[string]error{
		"no class":  errors.New("connection reset"),
		"cancelled": context.Canceled,
		"two":       errors.Join(driver.ErrNoTurn, driver.ErrUnreachable),
		"newer":     driver.Newer("here", 7, 3),
		"lacks":     &driver.LacksError{Text: "no database", Remedy: "createdb x"},
	}
	for name, err := range all {
		given[name], given[name+" wrapped"] = err, errors.Join(errors.New("commit"), err)
	}
	for name, err := range local {
		given[name] = err
	}
	for name, err := range given {
		got := door.CrossError(t, err)
		if got.Error() != err.Error() {
			t.Errorf("%s: says %q, said %q", name, got, err)
		}
		for class, e := range all {
			if errors.Is(got, e) != errors.Is(err, e) {
				t.Errorf("%s: is %s: %v, was %v", name, class, errors.Is(got, e), errors.Is(err, e))
			}
		}
		if errors.Is(got, context.Canceled) || errors.Is(got, driver.ErrClosed) {
			t.Errorf("%s: the other end's context or store is not the caller's: %v", name, got)
		}
		lacks, _ := errors.AsType[*driver.LacksError](got)
		want, _ := errors.AsType[*driver.LacksError](err)
		if diff := cmp.Diff(want, lacks); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// ask sends text to a door over a store, and returns status and body.
func ask(t *testing.T, s driver.Store, path, text string) (int, string) {
	t.Helper()
	server := httptest.NewServer(door.Handler(s))
	defer server.Close()
	resp, err := server.Client().Post(server.URL+path, "application/json", strings.NewReader(text))
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(b)
}

// A request that is not understood in all its parts changes nothing.
func TestUnknownRequests(t *testing.T) {
	s := memstore.New()
	good := `{"writes":[{"key":"YS9i","value":"e30="}]}` // a/b is {}
	for text, class := range map[string]string{
		`{"writes":[{"key":"YS9i","value":"e30="}],"unless":[]}`: "invalid", // of a newer client
		good + `{}`: "invalid", good[:len(good)-1]: "invalid", `[]`: "invalid", ``: "invalid", `{"writes":[{"key":"!"}]}`: "invalid",
		`{"note":"` + strings.Repeat("A", door.MaxBody) + `"}`: "tooLarge",
	} {
		for _, path := range []string{door.CommitPath, door.ReadPath, door.WaitPath} {
			status, body := ask(t, s, path, text)
			if status != http.StatusOK || !strings.Contains(body, `"classes":["`+class+`"]`) {
				t.Errorf("%s %.60s: %d %s, want %s", path, text, status, body, class)
			}
		}
	}
	if snap, err := s.Read(t.Context(), driver.Query{}); err != nil || snap.Rev != 0 {
		t.Errorf("the store is at %d, %v", snap.Rev, err)
	}
	if status, body := ask(t, s, door.CommitPath, good); status != http.StatusOK || strings.TrimSpace(body) != `{"rev":1}` {
		t.Errorf("a good request: %d %s", status, body)
	}
	if status, _ := ask(t, s, "/v1/store/other", good); status != http.StatusNotFound {
		t.Errorf("another path: %d", status)
	}
}

// The largest batch fits, whatever its bytes are.
func TestLargestBatchFits(t *testing.T) {
	var b driver.Batch
	for i := range driver.MaxWrites {
		key := "k/" + strings.Repeat("\x01", 80) + string(rune('0'+i%10)) + strings.Repeat("x", i/10%70) + strings.Repeat("y", i/700)
		b.Writes = append(b.Writes, driver.Write{Key: key, Value: []byte(`{"q":"` + strings.Repeat(`\"`, 20) + `"}`), TTL: time.Hour})
	}
	for i := range driver.MaxGuards {
		b.Guards = append(b.Guards, driver.Guard{Key: "guard/" + strings.Repeat("x", 1000+i%10), Rev: driver.MaxRevision})
	}
	must(t, b.Check())
	if n := len(door.Encode(t, door.Sends(b))); n > door.MaxBody*2/3 {
		t.Errorf("the request has %d bytes of at most %d", n, door.MaxBody)
	}
}

// A wait lasts as long as was asked for, and ends when nobody listens any more.
func TestWaitEnds(t *testing.T) {
	s := &counting{Store: memstore.New(), waits: make(chan string, 10)}
	if status, body := ask(t, s, door.WaitPath, `{"guards":[{"key":"YS9i"}],"for":1000000}`); status != http.StatusOK || strings.TrimSpace(body) != `{}` {
		t.Errorf("a wait of a millisecond: %d %s", status, body)
	}
	if begin, end := <-s.waits, <-s.waits; begin != "begin" || end != "end" {
		t.Fatal(begin, end)
	}
	server := httptest.NewServer(door.Handler(s))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+door.WaitPath, strings.NewReader(`{"guards":[{"key":"YS9i"}]}`))
	must(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := server.Client().Do(req) //nolint:bodyclose // there is none
		done <- err
	}()
	<-s.waits
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-s.waits // or the test hangs
}

// counting says when a wait begins and ends.
type counting struct {
	driver.Store
	waits chan string
}

func (c *counting) Wait(ctx context.Context, guards []driver.Guard) error {
	c.waits <- "begin"
	defer func() { c.waits <- "end" }()
	return c.Store.Wait(ctx, guards)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
