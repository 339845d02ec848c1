package backend

import (
	"strings"
	"testing"
)

func TestSplitKeepsSecrets(t *testing.T) {
	for _, url := range []string{"mysql://u:secret@h/db", "sqlite:", "file:", "git:"} {
		if _, _, err := Split(url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
