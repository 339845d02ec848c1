package tasklock_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The manifests among the examples can be read.
func TestExamplesParse(t *testing.T) {
	var files []string
	for _, pattern := range []string{"examples/*.yaml", "examples/*/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 2 {
		t.Fatalf("only %q", files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := 0
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; parts++ {
			var part map[string]any
			err := d.Decode(&part)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if strings.Contains(file, "kubernetes") && (part["apiVersion"] == nil || part["kind"] == nil || part["metadata"] == nil) {
				t.Errorf("%s: part %d is not an object of Kubernetes", file, parts+1)
			}
		}
		if parts == 0 {
			t.Errorf("%s is empty", file)
		}
	}
}
