package githooks

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The guard goes into any usual form of the configuration, and out again without a trace.
func TestLefthookInstallAndRemove(t *testing.T) {
	for _, before := range []string{
		"", "# nothing yet\n", "min_version: 1.5.0", "colors: true\r\npre-commit:\r\n  commands:\r\n    a:\r\n      run: x\r\n",
		"pre-commit:\n  commands:\n    a:\n      run: x\n",
		"pre-commit:\n    parallel: true\n    jobs:\n    - run: x # one\n    -   name: two\n        run: y",
		"pre-push:\n  scripts:\n    s.sh:\n      runner: bash\npre-commit:\n  # mine\n  piped: true\n\n  # all\n  commands:\n\n    # first\n    a: {run: x}\n",
		"---\npre-commit:\n  jobs:\n    - group:\n        jobs:\n          - run: x\n",
	} {
		text := []byte(before)
		for _, hook := range Names {
			var err error
			if text, err = lefthookInstall(text, hook, "lefthook.yml"); err != nil {
				t.Fatalf("%q: %s: %v", before, hook, err)
			}
			if !lefthookGuards(text, hook) {
				t.Errorf("%q: no guard for %s in\n%s", before, hook, text)
			}
			if again, err := lefthookInstall(text, hook, "lefthook.yml"); err != nil || string(again) != string(text) {
				t.Errorf("%q: again: %v\n%s", before, err, again)
			}
		}
		if err := yaml.Unmarshal(text, new(any)); err != nil {
			t.Errorf("%q: %v", before, err)
		}
		if strings.Contains(before, "\r\n") && strings.Count(string(text), "\n") != strings.Count(string(text), "\r\n") {
			t.Errorf("lines end in two ways: %q", text)
		}
		for _, hook := range Names {
			text = lefthookRemove(text, hook)
		}
		if string(text) != before {
			t.Errorf("was\n%q\nis\n%q", before, text)
		}
	}
}

// What cannot hold it is left alone, and so is a guard that somebody wrote.
func TestLefthookLeavesAlone(t *testing.T) {
	for _, bad := range []string{"pre-commit:\n", "pre-commit: {}\n", "x: &x\n  commands:\n    a:\n      run: x\npre-commit: *x\n", "pre-commit:\n  jobs: [{run: x}]\n", "a: [\n", "- x\n"} {
		if out, err := lefthookInstall([]byte(bad), "pre-commit", "lefthook.yml"); err == nil {
			t.Errorf("%q became\n%s", bad, out)
		}
	}
	own := "pre-commit:\n  jobs: [{run: tasklock guard run pre-commit}]\n"
	if out, err := lefthookInstall([]byte(own), "pre-commit", "lefthook.yml"); err != nil || string(out) != own {
		t.Errorf("%v: %s", err, out)
	}
}

func TestGuardInScript(t *testing.T) {
	for _, before := range []string{"#!/bin/sh\n", "#!/bin/sh", "#!/usr/bin/env bash\necho a\n", "echo a", "# a comment\necho a\n", "#!/bin/sh\necho a\n\n\n"} {
		for _, hook := range Names {
			once := withGuard([]byte(before), hook)
			if !guards(once) || !inShell(once) || string(withGuard(once, hook)) != string(once) {
				t.Errorf("%q: %s", before, once)
			}
			if after := withoutGuard(once); string(after) != before {
				t.Errorf("was %q, is %q", before, after)
			}
		}
	}
	for _, script := range []string{"#!/usr/bin/env python3\n", "#!/usr/bin/env -S node --x\n", "\x7fELF\x00", "#!/bin/sed -f\n"} {
		if inShell([]byte(script)) {
			t.Errorf("%q is taken for a shell script", script)
		}
	}
}
