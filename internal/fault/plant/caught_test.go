//go:build linux

package plant

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fewest is how many bugs there were when somebody last counted. It may only grow.
const fewest = 65

// A catch is a bug and a test that fails because of it.
type catch struct {
	bug  string
	test string // that fails, as for go test -run
	says string // what the test then says, where a failure alone could mean something else

	with     string   // another bug that this one needs
	env      []string // for the test
	tries    int      // at most; races need luck
	itself   bool     // the test plants the bug itself, and passes when the bug was caught
	harmless bool     // the test passes in spite of the bug
}

var (
	jitter = []string{"TASKLOCK_FAULT_JITTER=1"}
	seeds  = []string{"TASKLOCK_SEED=0", "TASKLOCK_SEEDS=400"}
)

const found = "TASKLOCK_SEEDS=1)" // a simulation says how to see the failure again

// caught has for every bug at least one test that catches it, by package.
var caught = map[string][]catch{
	"store": {
		{bug: "move_unsealed", test: "^TestMoveWhileOthersWrite$"},
		{bug: "move_same_revisions", test: "^TestMoveDiesAnywhere$"},
		{bug: "move_unseen", test: "^TestMoveRefuses$"},
		{bug: "upgrade_unclosed", test: "^TestUpgradeLocal$"},
		{bug: "seen_is_kept", test: "^TestSeenIsNotKept$"},
	},
	"store/sqlitestore": {
		{bug: "deferred_transaction", test: "^TestConformance$/(one_winner|write_skew)", env: jitter, tries: 10},
		{bug: "memory_unproven", test: "^TestMemoryTellsTheTruth$"},
	},
	"store/filestore": {
		{bug: "journal_emptied_early", test: "^TestPowerLoss$", tries: 10},
		{bug: "no_dir_sync", test: "^TestPowerLoss$", tries: 10},
		{bug: "empty_is_free", test: "^TestDamagedRecord$/^empty$"},
	},
	"store/gitstore": {
		{bug: "git_no_nonce", test: "^TestClonesOnOneKey$", env: jitter, tries: 10},
		{bug: "git_same_wins", test: "^TestClonesOnOneKey$", with: "git_no_nonce", env: jitter, tries: 10},
	},
	"store/etcdstore": {
		{bug: "etcd_stale_lease", test: "^TestNoRecordEndsEarly$", tries: 5}, // on a busy machine an end may be seen late
	},
	"store/pgstore": {
		{bug: "pg_now", test: "^TestAgeCountsFromTheWriting$", env: jitter, tries: 10},
		{bug: "sequence_revision", test: "^TestConformance$/(histories|unrelated)", env: jitter, tries: 10},
		{bug: "lost_notify", test: "^TestNotifiesOnlyListeners$"},
		{bug: "lost_notify", test: "^TestConformance$/wait_wakes_for_(a_changed|another_handle)", harmless: true}, // waiters look by themselves
	},
	"store/httpstore": {
		{bug: "http_cut_untouched", test: "^TestCutBeforeTheReply$", says: "nobody can know"},
		{bug: "http_resent", test: "^TestNothingIsSentTwice$", says: "commits arrived of"},
		{bug: "http_proxy_believed", test: "^TestForeignAnswers$", says: "nobody can know"},
	},
	"internal/host": {
		{bug: "eperm_is_dead", test: "^TestLifeOfSomeoneElsesProcess$"},
	},
	"internal/cli": {
		{bug: "land_unheld", test: "^TestLandFences$", says: "a landing without its lock pushed", tries: 5},
		{bug: "land_forced", test: "^TestLandFences$", says: "the remote has"},
		{bug: "land_untested", test: "^TestLandFences$", says: "tested were"},
	},
	"internal/lease": {
		{bug: "no_compare", test: "^TestSimulate$", says: found, env: seeds},
		{bug: "release_unchecked", test: "^TestSimulate$", says: found, env: seeds},
		{bug: "reentrant_by_user", test: "^TestSimulate$", says: found, env: seeds},
		{bug: "lock_before_lease", test: "^TestSimulate$", says: found, env: seeds},
		{bug: "deadline_from_reply", test: "^TestSimulate$", says: found, env: seeds},
		{bug: "renew_unchecked", test: "^TestSimulate$", says: found, env: seeds},
		{bug: "users_unrecorded", test: "^TestSequences$", says: found, env: seeds},
		{bug: "keeper_releases", test: "^TestSequences$", says: found, env: seeds},
		{bug: "abandon_adopted", test: "^TestSequences$", says: found, env: seeds},
		{bug: "path_unguarded", test: "^TestPathRace$", says: " while o", env: jitter, tries: 40}, // two owners get overlapping paths in one of ten runs
		{bug: "cursor_first", test: "^TestDeliver$"},
		{bug: "watch_window", test: "^TestBurst$"},
		{bug: "gap_unnoted", test: "^TestNewCursor$"},
		{bug: "sweep_unguarded", test: "^TestSweepersRace$"},
		{bug: "pool_size_of_caller", test: "^TestPoolIsCreatedBySizeAndMustAgree$"},
		{bug: "pool_unguarded", test: "^TestOldHintsAboutSlots$"},
		{bug: "pool_any_cycle", test: "^TestPoolDeadlocks$"},
		{bug: "pool_upgrade", test: "^TestPoolDeadlocks$"},
		{bug: "pool_format", test: "^TestFirstPoolRaisesTheFormat$"},
		{bug: "pool_counter", test: "^TestSimulatePools$", says: found, env: seeds},
		{bug: "pool_weight", test: "^TestSimulatePools$", says: found, env: seeds},
		{bug: "pool_jumped", test: "^TestSimulatePools$", says: found, env: seeds},
		{bug: "pool_growth", test: "^TestSimulatePools$", says: found, env: seeds},
		{bug: "pool_drain", test: "^TestSimulatePools$", says: found, env: seeds},
		{bug: "pool_size_unguarded", test: "^TestSimulatePools$", says: found, env: seeds},
	},
	"task": {
		{bug: "list_unguarded", test: "^TestManyNamesAmongLocks$", says: "does not know"},
		{bug: "request_forgotten", test: "^TestAddAfterACutConnection$/after", says: "repeated"},
		{bug: "request_forgotten", test: "^TestAddOnceRaced$", says: "after 1 requests"},
		{bug: "request_any_content", test: "^TestAddRepeated$", says: "was accepted"},
	},
	"internal/worker": {
		{bug: "runner_slot_first", test: "^TestSlotEndsWithTask$", says: "not taken with the task"},
		{bug: "runner_slot_stays", test: "^TestSlotEndsWithTask$", says: "no commit has ended"},
		{bug: "pool_jumped", test: "^TestWorkDoesNotJump$", says: "has not waited"},
	},
	"schedule": {
		{bug: "job_slot_later", test: "^TestSlotEndsWithRun$", says: "in another commit than the claim"},
		{bug: "pool_jumped", test: "^TestJobDoesNotJump$", says: "has not waited"},
		{bug: "request_forgotten", test: "^TestTriggerOnceRaced$", says: "after 1 requests"},
		{bug: "request_forgotten", test: "^TestTriggerAfterACutConnection$/after", says: "again"},
	},
	"internal/server": {
		{bug: "claim_unbound", test: "^TestClaimsOfOthers$", says: "want 403"},
		{bug: "clients_share", test: "^TestOneKeyManyClients$", says: " after "},
		{bug: "clients_share", test: "^TestClaimsWait$", says: "want 202"},
		{bug: "request_any_content", test: "^TestRepeatedWork$", says: "want 422"},
		{bug: "stream_id_early", test: "^TestStreamIsCut$", says: "comes after revision"},
	},
	"internal/mcpserver": {
		{bug: "no_compare", test: "^TestRace$"},
		{bug: "complete_unfenced", test: "^TestLost$"},
		{bug: "reentrant_by_user", test: "^TestSharedServer$"},
	},
	"internal/torture": {
		{bug: "answer_before_sync", test: "^TestCrashes$", says: "is lost", tries: 3},
		{bug: "no_leap", test: "^TestCrashes$", says: "given out twice", tries: 5},
		{bug: "wall_clock_only", test: "^TestPlantedBugs$", itself: true},
		{bug: "mod_revision_token", test: "^TestPlantedBugs$", itself: true},
		{bug: "older_is_current", test: "^TestOldAndNew$", itself: true},
		{bug: "pool_size_of_caller", test: "^TestPoolsCanFail$", itself: true},
		{bug: "pool_weight", test: "^TestPoolsCanFail$", itself: true},
		{bug: "pool_growth", test: "^TestPoolsCanFail$", itself: true},
		{bug: "pool_drain", test: "^TestPoolsCanFail$", itself: true},
		{bug: "pool_format", test: "^TestOldAndPools$", itself: true},
		{bug: "pool_jumped", test: "^TestPoolsCanFail$", itself: true},
		{bug: "section_skew", test: "^TestTaskRacesCanFail$", itself: true},
		{bug: "name_unguarded", test: "^TestTaskRacesCanFail$", itself: true},
		{bug: "schedule_lock_only", test: "^TestScheduleCanFail$", itself: true},
	},
}

// TestEveryBugHasATest compares the patches with the table.
func TestEveryBugHasATest(t *testing.T) {
	root, err := root()
	must(t, err)
	names, err := names(root)
	must(t, err)
	if len(names) < fewest {
		t.Errorf("%d bugs are planted, there were %d", len(names), fewest)
	}
	for dir, list := range caught {
		for _, c := range list {
			if !slices.Contains(names, c.bug) {
				t.Errorf("%s %s catches %s, of which there is no patch", dir, c.name(), c.bug)
			}
		}
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, file(name)))
		must(t, err)
		sentence, _, _ := strings.Cut(string(text), "\n")
		if !slices.ContainsFunc(catching(name), func(test string) bool { return strings.Contains(sentence, "; "+test+" catches it.") }) {
			t.Errorf("%s: its patch begins with %q, which names none of the tests that catch it: %q", name, sentence, catching(name))
		}
		for _, m := range regexp.MustCompile(`(?m)^\+.*fault(?:\.Bug\("(\w+)"\)|")`).FindAllStringSubmatch(string(text), -1) {
			if m[1] != name {
				t.Errorf("%s: its patch plants something else: %s", name, m[0])
			}
		}
	}
}

// TestProductionHasNoBugs: code that asks for a bug compiles only where bugs are planted.
func TestProductionHasNoBugs(t *testing.T) {
	root, err := root()
	must(t, err)
	dir := t.TempDir()
	source, overlay := filepath.Join(dir, "asks.go"), filepath.Join(dir, "overlay.json")
	write(t, source, "package host\n\n"+imported+"\n\nvar _ = fault.Bug(\"any\")\n")
	write(t, overlay, fmt.Sprintf(`{"Replace": {%q: %q}}`, filepath.Join(root, "internal", "host", "asks.go"), source))
	out, err := exec.Command("go", "build", "-tags=failpoint", "-overlay="+overlay, "../../host").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "undefined: fault.Bug") {
		t.Errorf("%v\n%s", err, out)
	}
}

// catching lists the tests that catch a bug, each with its package in front.
func catching(bug string) (tests []string) {
	for dir, list := range caught {
		for _, c := range list {
			if c.bug == bug && !c.harmless {
				tests = append(tests, dir+" "+c.name())
			}
		}
	}
	return tests
}

// name is the name of the test without its parts.
func (c catch) name() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.test, "^"), "$")
	return name
}

// TestEachIsCaught runs the tests of the table with their bugs, which they must
// find, and without, where they must not.
func TestEachIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tests of nine packages")
	}
	for _, dir := range slices.Sorted(maps.Keys(caught)) {
		t.Run(dir, func(t *testing.T) {
			list := slices.DeleteFunc(slices.Clone(caught[dir]), func(c catch) bool { return c.itself })
			if len(list) == 0 {
				return
			}
			binary := filepath.Join(t.TempDir(), "planted.test")
			must(t, Build(binary, "test", "-c", "../../../"+dir))
			var tests []string
			for _, c := range list {
				if !slices.Contains(tests, c.test) {
					tests = append(tests, c.test)
				}
				t.Run(c.bug+" "+c.name(), func(t *testing.T) { c.run(t, binary, dir) })
			}
			t.Run("no bug", func(t *testing.T) {
				if out, err := command(binary, dir, strings.Join(tests, "|"), "TASKLOCK_FAULT_BUG=", "TASKLOCK_SEED=0", "TASKLOCK_SEEDS=20"); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		})
	}
}

func (c catch) run(t *testing.T, binary, dir string) {
	for range max(1, c.tries) {
		out, err := command(binary, dir, c.test, append(c.env, "TASKLOCK_FAULT_BUG="+c.bug+","+c.with)...)
		switch {
		case strings.Contains(out, "NOT TESTED"), strings.Contains(out, "--- SKIP: "+c.name()):
			t.Skip(out)
		case c.harmless && err == nil:
			return
		case c.harmless:
			t.Fatalf("%v\n%s", err, out)
		case err != nil && (!strings.Contains(out, "--- FAIL: "+c.name()) || !strings.Contains(out, c.says)):
			t.Fatalf("it fails for another reason: %v\n%s", err, out)
		case err != nil:
			return
		}
	}
	t.Errorf("%s %s passes with the bug %s", dir, c.test, c.bug)
}

// command runs tests of a package in its folder.
func command(binary, dir, tests string, env ...string) (string, error) {
	cmd := exec.Command(binary, "-test.run", tests, "-test.timeout=5m", "-test.v", "-test.failfast")
	cmd.Dir = filepath.Join("..", "..", "..", dir)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestTorturePlantsItself: where the table says that a test plants a bug, it does.
func TestTorturePlantsItself(t *testing.T) {
	for dir, list := range caught {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", dir, "*_test.go"))
		must(t, err)
		var source strings.Builder
		for _, f := range files {
			text, err := os.ReadFile(f)
			must(t, err)
			source.Write(text)
		}
		for _, c := range list {
			if !strings.Contains(source.String(), "func "+c.name()+"(") || c.itself && !strings.Contains(source.String(), `"`+c.bug+`"`) {
				t.Errorf("%s has no %s that plants %s", dir, c.name(), c.bug)
			}
		}
	}
}
