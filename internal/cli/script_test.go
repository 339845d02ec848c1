package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tasklock/tasklock/internal/backend"
	"github.com/tasklock/tasklock/internal/cli"
	"github.com/tasklock/tasklock/internal/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv("TASKLOCK_TEST_MAIN") != "" || len(os.Args) > 1 && os.Args[1] == "guardian" {
		tasklock()
	}
	_ = flag.Set("test.parallel", "6") // most of them wait for each other's processes
	testscript.Main(m, map[string]func(){"tasklock": tasklock})
}

// tasklock is the command as it is, without what only tasklock-plus can do.
func tasklock() {
	if os.Getenv("TASKLOCK_TEST_IMPATIENT") == "" {
		cli.Patient()
	}
	os.Exit(cli.Main(os.Args[1:], backend.Process(), backend.Program("")))
}

// TestScript runs testdata/script, which says what the command does. Beside
// the commands of testscript there are:
//
//	exits N tasklock ARGS...   the exit code is N, and the command after "Next:" can be understood
//	eventually RE COMMAND...   run it until its output matches
//	json PATH VALUE            the value at that path of the JSON on stdout, as jq would print it
//	fields PATH NAME...        the names of the object there, all of them
//	printf FILE TEXT           write a file; \xNN and \n as in Go
//	harness N NAME SESSION[/AGENT] COMMAND...   as a harness runs a shell command: it asks the hook, then bash; the exit code is N
//	postgres                   $PG is a store in PostgreSQL that is not made yet, $PGHOST and $PGPORT its server, $SCHEMA its schema
//
// The folder of a script is a project: it has a .tasklock, without a store.
func TestScript(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // under nohup the scripts' commands would inherit that it is ignored
	t.Parallel()
	testscript.Run(t, scripts(t, "testdata/script", nil))
}

// TestScriptOnEveryStore runs testdata/stores with stores of each kind in $FROM
// and $TO; of git the remote is a folder.
func TestScriptOnEveryStore(t *testing.T) {
	t.Parallel()
	urls := map[string]string{"sqlite": "sqlite:%s/t.db", "file": "file:%s/records", "git": "git:%s.git"}
	for _, pair := range [][2]string{{"sqlite", "file"}, {"file", "git"}, {"git", "sqlite"}, {"sqlite", "postgres"}, {"postgres", "file"}} {
		t.Run(pair[0]+" to "+pair[1], func(t *testing.T) {
			if testing.Short() && pair != [2]string{"sqlite", "file"} {
				t.Skip("starts PostgreSQL, or git by the hundred")
			}
			testscript.Run(t, scripts(t, "testdata/stores", func(env *testscript.Env) error {
				for i, name := range []string{"FROM", "TO"} {
					url := fmt.Sprintf(urls[pair[i]], env.WorkDir+"/"+strings.ToLower(name))
					if pair[i] == "postgres" {
						url = pgtest.Shared(t).Place()
					}
					env.Setenv(name, url)
					if remote, ok := strings.CutPrefix(url, "git:"); ok {
						if out, err := exec.Command("git", "init", "--quiet", "--bare", remote).CombinedOutput(); err != nil {
							return fmt.Errorf("%w: %s", err, out)
						}
					}
				}
				return nil
			}))
		})
	}
}

func scripts(t *testing.T, dir string, more func(*testscript.Env) error) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TASKLOCK_OWNER", "alice")
			env.Setenv("HOME", env.WorkDir+"/home")
			for _, dir := range []string{"/home", "/.tasklock"} { // a project, with a user who has a home
				if err := os.Mkdir(env.WorkDir+dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
					return err
				}
			}
			env.Setenv("LONG", strings.Repeat("x", 513)) // no key is that long
			if more == nil {
				return nil
			}
			return more(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "harness": runHarness, "eventually": eventually, "json": checkJSON, "fields": checkFields, "printf": writeFile,
			"postgres": func(ts *testscript.TestScript, _ bool, _ []string) { setPostgres(ts, pgtest.Shared(t)) },
		},
	}
}

func setPostgres(ts *testscript.TestScript, s *pgtest.Server) {
	place := s.Place()
	ts.Setenv("PG", place)
	ts.Setenv("SCHEMA", place[strings.LastIndex(place, "=")+1:])
	ts.Setenv("PGHOST", s.Dir)
	ts.Setenv("PGPORT", strconv.Itoa(s.Port))
	ts.Setenv("PGUSER", "postgres")
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND...")
	}
	for i, a := range args { // characters that a script cannot hold
		if text, err := strconv.Unquote(`"` + a + `"`); err == nil && strings.Contains(a, `\`) {
			args[i] = text
		}
	}
	code := exitCode(ts, args[1], args[2:]...)
	if want := args[0]; strconv.Itoa(code) != want {
		ts.Fatalf("exit %d, want %s", code, want)
	}
	ts.Check(understood(ts.ReadFile("stdout"), ts.ReadFile("stderr")))
	if slices.Contains(args, "--json") && !json.Valid([]byte(ts.ReadFile("stdout"))) {
		ts.Fatalf("stdout is not JSON")
	}
}

// runHarness does what Claude and Gemini do with a shell command: the hook may deny it
// (exit 2) or change it; bash runs it with what the harness tells its commands.
func runHarness(ts *testscript.TestScript, _ bool, args []string) {
	name, command := args[1], strings.Join(args[3:], " ")
	session, sub, _ := strings.Cut(args[2], "/")
	event, tool, env := "PreToolUse", "Bash", []string{"CLAUDE_CODE_SESSION_ID=" + session}
	if name == "gemini" { // which switches git's hooks off
		event, tool = "BeforeTool", "run_shell_command"
		env = []string{"GEMINI_CLI=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0="}
	}
	input := map[string]any{"command": command, "description": "<a & b>", "timeout": 120000}
	data, err := json.Marshal(map[string]any{"session_id": session, "agent_id": sub, "hook_event_name": event, "tool_name": tool, "tool_input": input})
	ts.Check(err)
	code := exitCode(ts, "sh", "-c", `printf %s "$0" | tasklock hook "$1" "$2"`, string(data), name, event)
	var reply struct {
		Decision string
		Hook     struct{ UpdatedInput, Tool_input map[string]any } `json:"hookSpecificOutput"`
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Check(json.Unmarshal([]byte(out), &reply))
		if strings.Contains(out, "permissionDecision") {
			ts.Fatalf("the hook decides in place of a person: %s", out)
		}
	}
	if reply.Decision == "deny" {
		code = 2
	}
	if code == 0 {
		for _, changed := range []map[string]any{reply.Hook.UpdatedInput, reply.Hook.Tool_input} {
			if changed == nil {
				continue
			}
			command = changed["command"].(string)
			if len(changed) != len(input) || changed["description"] != input["description"] || changed["timeout"] != 120000.0 {
				ts.Fatalf("the hook changed more than the command: %v", changed)
			}
		}
		ts.Logf("%s", command)
		code = exitCode(ts, "env", append(env, "bash", "-c", command)...)
	}
	if want := args[0]; strconv.Itoa(code) != want {
		ts.Fatalf("exit %d, want %s", code, want)
	}
}

func exitCode(ts *testscript.TestScript, command string, args ...string) int {
	var exit *exec.ExitError
	if err := ts.Exec(command, args...); errors.As(err, &exit) {
		return exit.ExitCode()
	} else {
		ts.Check(err)
	}
	return 0
}

func eventually(ts *testscript.TestScript, _ bool, args []string) {
	re := regexp.MustCompile(args[0])
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_ = ts.Exec(args[1], args[2:]...)
		if re.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("never matched %s", re)
		}
	}
}

var ourLine = regexp.MustCompile(`(^|[;&] )tasklock `)

var nextLine = regexp.MustCompile(`(?m)^Next: (.*)$`)

// understood checks that what is offered as the next command can be typed: a
// shell splits it, and the command understands it.
func understood(stdout, stderr string) error {
	var lines []string
	for _, m := range nextLine.FindAllStringSubmatch(stderr, -1) {
		lines = append(lines, m[1])
	}
	var envelope struct{ Next string }
	if json.Unmarshal([]byte(stdout), &envelope) == nil && envelope.Next != "" {
		lines = append(lines, envelope.Next)
	}
	for _, line := range lines {
		if !ourLine.MatchString(line) { // a command of another program, which must not run here
			if err := exec.Command("bash", "-n", "-c", line).Run(); err != nil {
				return fmt.Errorf("next command %q: %w", line, err)
			}
			continue
		}
		out, err := exec.Command("bash", "-c", `tasklock() { printf '%s\0' "$@"; }; `+line).Output()
		if err != nil {
			return fmt.Errorf("next command %q: %w", line, err)
		}
		words := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if err := cli.Understands(words); err != nil {
			return fmt.Errorf("next command %q: %w", line, err)
		}
	}
	return nil
}

// at returns what is at a path like .data.locks.0.key of the JSON on stdout.
func at(ts *testscript.TestScript, path string) any {
	var v any
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	dec.UseNumber()
	ts.Check(dec.Decode(&v))
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' }) {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(in) {
				ts.Fatalf("%s: no element %s in %v", path, name, in)
			}
			v = in[i]
		default:
			ts.Fatalf("%s: nothing at %s", path, name)
		}
	}
	return v
}

func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH VALUE")
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	v := at(ts, args[0])
	ts.Check(enc.Encode(v))
	got := strings.TrimSpace(b.String())
	if s, ok := v.(string); ok {
		got = s
	}
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}

func checkFields(ts *testscript.TestScript, _ bool, args []string) {
	in, ok := at(ts, args[0]).(map[string]any)
	if !ok {
		ts.Fatalf("%s is not an object", args[0])
	}
	var got []string
	for name := range in {
		got = append(got, name)
	}
	want := slices.Clone(args[1:])
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		ts.Fatalf("%s has %v, want %v", args[0], got, want)
	}
}

func writeFile(ts *testscript.TestScript, _ bool, args []string) {
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}
