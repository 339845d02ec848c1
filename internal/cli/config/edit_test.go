package config

import (
	"errors"
	"testing"
)

// Setting a value keeps comments, order and the form of the value.
func TestEditedYAML(t *testing.T) {
	for _, c := range []struct{ name, old, key, value, want string }{
		{"new file", "", "owner", "a", "owner: a\n"},
		{"new group", "owner: a\n", "locking.taskTimeout", "1h", "owner: a\nlocking:\n  taskTimeout: 1h\n"},
		{"only comments", "# mine", "owner", "a", "# mine\nowner: a\n"},
		{"empty group", "locking: # later\n", "locking.jobTimeout", "1m", "locking: # later\n  jobTimeout: 1m\n"},
		{"comments", "# top\nowner: a # me\n# end\n", "owner", "b", "# top\nowner: b # me\n# end\n"},
		{"quotes", "owner: \"a\"\n", "owner", "b", "owner: \"b\"\n"},
		{"looks like a number", "owner: a\n", "owner", "7", "owner: \"7\"\n"},
		{"bool", "allowUnsafeFs: false\n", "allowUnsafeFs", "true", "allowUnsafeFs: true\n"},
		{
			"described", "locking:\n  taskTimeout:\n    _description: \"d\" # c\n    _default: \"60m\"\n    value: \"60m\"\n", "locking.taskTimeout", "45m",
			"locking:\n  taskTimeout:\n    _description: \"d\" # c\n    _default: \"60m\"\n    value: \"45m\"\n",
		},
		{"same value", "locking: {taskTimeout:   60m}\n", "locking.taskTimeout", "1h", "locking: {taskTimeout:   60m}\n"},
		{"flow style", "locking: {taskTimeout: 60m}\n", "locking.jobTimeout", "1m", "locking: {taskTimeout: 60m, jobTimeout: 1m}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := Find(c.key)
			got, err := editedYAML("f", []byte(c.old), s, c.value)
			if err != nil || string(got) != c.want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}

func TestEditKeepsBrokenFiles(t *testing.T) {
	s, _ := Find("owner")
	var bad *Error
	for _, old := range []string{"x: 1\n", "owner: [\n", "\xff"} {
		if _, err := editedYAML("f", []byte(old), s, "a"); !errors.As(err, &bad) {
			t.Errorf("%q: %v", old, err)
		}
	}
}
