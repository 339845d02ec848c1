//go:build linux || darwin

package host

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/tasklock/tasklock/internal/patience"
)

func TestCommandWords(t *testing.T) {
	said := func(count uint32, text string) []byte {
		return append(binary.NativeEndian.AppendUint32(nil, count), text...)
	}
	for _, c := range []struct {
		args []byte
		want []string
	}{
		{said(2, "/opt/homebrew/bin/node\x00\x00\x00node\x00/opt/homebrew/bin/gemini\x00HOME=/Users/a\x00"), []string{"node", "/opt/homebrew/bin/gemini"}},
		{said(3, "/bin/sh\x00sh\x00-c\x00\x00X=1\x00"), []string{"sh", "-c", ""}},
		{said(5, "/bin/sh\x00sh"), []string{"sh"}},
		{said(1<<31, "/bin/sh"), nil},
		{said(0, "/bin/sh\x00sh\x00"), nil},
		{[]byte{1, 0}, nil},
		{nil, nil},
	} {
		if got := commandWords(c.args); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q", c.args, got)
		}
	}
}

// A process sees its own command line as it was given.
func TestParentTellsTheCommandLine(t *testing.T) {
	cmd, p := sleeper(t)
	var words []string
	var err error
	patience.Until(t, "the process has its command line", func() bool { // Linux shows an empty one for a moment
		_, words, err = Parent(p.PID)
		return err != nil || len(words) < 2 || words[1] != ""
	})
	if err != nil {
		t.Skip(err)
	}
	if len(words) > 1 && !slices.Equal(words[1:], cmd.Args) { // Windows tells the name only
		t.Errorf("%q, started as %q", words, cmd.Args)
	}
}
