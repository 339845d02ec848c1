package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// bigWrite is the event of a tool that writes a file of that many bytes.
func bigWrite(size int) string {
	const line = "a \"quoted\" line with \\ and ünïcode\n"
	text, _ := json.Marshal(strings.Repeat(line, size/len(line)))
	return fmt.Sprintf(`{"session_id":"s1","cwd":"/w","tool_name":"Write","tool_input":{"content":%s,"file_path":"/w/src/a.go"},"tool_use_id":"u"}`, text)
}

// What is left out is what no hook asks for, wherever a read ends.
func TestReadEvent(t *testing.T) {
	slashes := `{"session_id":"s1","cwd":"/w","tool_name":"Write","tool_input":{"content":"` + strings.Repeat(`\\`, 200_000) + `\"","file_path":"/w/src/a.go"}}`
	for name, text := range map[string]string{"small": bigWrite(100), "large": bigWrite(300_000), "backslashes": slashes} {
		for read, in := range map[string]io.Reader{
			"at once": strings.NewReader(text), "halves": iotest.HalfReader(strings.NewReader(text)), "bytes": iotest.OneByteReader(strings.NewReader(text)),
			"odd pieces": &pieces{strings.NewReader(text), 4099},
		} {
			data, err := ReadEvent(in)
			if err != nil || !json.Valid(data) || len(data) > 3*maxUnread {
				t.Fatalf("%s, %s: %d bytes, %v", name, read, len(data), err)
			}
			e, err := ParseEvent("claude", "PreToolUse", data)
			if err != nil || e.Session != "s1" || len(e.Targets) != 1 || e.Targets[0].Path != "/w/src/a.go" {
				t.Errorf("%s, %s: %+v, %v", name, read, e, err)
			}
		}
	}
	// what a hook does ask for is there to the end, also behind a pipe that stays open
	patch, _ := json.Marshal(strings.Repeat("+x\n", 100_000) + "*** Update File: src/z.go\n")
	r, w := io.Pipe()
	go fmt.Fprintf(w, `{"session_id":"t1","cwd":"/w","tool_name":"apply_patch","tool_input":{"command":%s}}`, patch)
	data, err := ReadEvent(r)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := ParseEvent("codex", "PreToolUse", data); err != nil || len(e.Targets) != 1 || e.Targets[0].Path != "/w/src/z.go" {
		t.Errorf("%+v, %v", e, err)
	}
	for _, bad := range []string{"", " \n", "{", `{"a":"b`, `{"a":"b\"}`, `{"content":"` + strings.Repeat("x", 100_000)} {
		if data, err := ReadEvent(strings.NewReader(bad)); err == nil {
			t.Errorf("%.40q: %.40q", bad, data)
		}
	}
	if _, err := ReadEvent(io.MultiReader(strings.NewReader(`{"content":"`), endless{})); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

// pieces reads a few bytes at a time.
type pieces struct {
	r io.Reader
	n int
}

func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte("x"), len(b))), nil }

// A file of a megabyte costs a hook hardly more memory than one of a kilobyte:
// what it does not need it does not keep. bench hooks measures the time.
func TestLargeEventIsCheap(t *testing.T) {
	cost := func(text string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		data, err := ReadEvent(strings.NewReader(text))
		if err == nil {
			_, err = ParseEvent("claude", "PreToolUse", data)
		}
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := cost(bigWrite(1<<10)), cost(bigWrite(1<<20))
	if large > 2*small {
		t.Errorf("%d bytes for a file of a kilobyte, %d for one of a megabyte", small, large)
	}
}

// Of a command that is too long the beginning is read, and that is said.
func TestLongCommand(t *testing.T) {
	for name, filler := range map[string]string{"words": "echo ab 'cd'; ", "lines": "true\n", "wide": "echo ü\u2028; ", "tabs": "\t"} {
		command, _ := json.Marshal("rm first; " + strings.Repeat(filler, 1<<20/len(filler)) + "rm last")
		for _, event := range []string{`{"cwd":"/w","tool_name":"Bash","tool_input":{"command":%s}}`, `{"cwd":"/w","tool_name":"shell","tool_input":{"command":["bash","-lc",%s]}}`} {
			e, err := ParseEvent("claude", "PreToolUse", fmt.Appendf(nil, event, command))
			if err != nil || !e.Cut || len(e.Targets) != 1 || e.Targets[0].Path != "/w/first" {
				t.Errorf("%s: cut %v, %+v, %v", name, e.Cut, e.Targets, err)
			}
		}
	}
	if e, err := ParseEvent("claude", "PreToolUse", []byte(`{"tool_name":"Bash","tool_input":{"command":"rm \x"}}`)); err == nil {
		t.Errorf("%+v", e)
	}
}

// FuzzMembers: of every valid object the members are those that encoding/json finds.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : 1 , "b\"\\" : "x\\\"," } `, `{"a":[1,{"b":"]}"}],"a":null,"c":-1.5e3}`, `{"a"`, `{"a":1,}`, `{"a":tru}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := map[string]string{}
		err := members(data, func(name string, value []byte) error { got[name] = string(value); return nil })
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil || want == nil {
			return
		}
		if err != nil || len(got) != len(want) {
			t.Fatalf("%q: %v, %q", data, err, got)
		}
		for name, value := range want {
			if got[name] != string(value) {
				t.Errorf("%q: %q is %q, not %q", data, name, got[name], value)
			}
		}
	})
}
