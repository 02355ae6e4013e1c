package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutants_HaveTheirPlace: a mutant whose code was changed or moved would be noticed only
// when all of them run.
func TestMutants_HaveTheirPlace(t *testing.T) {
	mutants, err := all()
	if err != nil || len(mutants) < 100 {
		t.Fatalf("%d mutants, %v", len(mutants), err)
	}
	for _, m := range mutants {
		code, err := os.ReadFile(filepath.Join("../../..", m.file))
		if n := strings.Count(string(code), m.old); n != 1 {
			t.Errorf("%s: %s has its text %d times (%v)", m.name, m.file, n, err)
		}
	}
}
