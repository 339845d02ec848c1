package main

import (
	"strings"
	"testing"
)

func TestSplitKeepsSecrets(t *testing.T) {
	for _, url := range []string{"postgres://u:secret@h/db", "sqlite:", "file:", "git:"} {
		if _, _, err := split(url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
