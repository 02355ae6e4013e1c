// Package testcheck is the switch between the two commands that run tests. make test runs what a few
// minutes allow; make check sets CHECK=1 and runs all: real brokers, browsers, killed programs, power
// cuts, and random tests for longer. docs/dev/testing.md has the list.
package testcheck

import (
	"os"
	"testing"
)

// On reports whether make check runs the tests.
func On() bool { return os.Getenv("CHECK") != "" }

// Only skips a test that make test does not run.
func Only(t testing.TB) {
	t.Helper()
	if !On() {
		t.Skip("not in make test: make check runs it, and so does CHECK=1 go test -run '^" + t.Name() + "$'")
	}
}

// Rounds returns how often a test repeats what it does, by make test and by make check.
func Rounds(test, check int) int {
	if On() {
		return check
	}
	return test
}

// NoError ends a test with an error, if there is one.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Missing ends a test for which the machine lacks something: in CI it fails, elsewhere it is skipped.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("missing, and needed in CI: %s", what)
	}
	t.Skipf("NOT TESTED: missing: %s", what)
}
