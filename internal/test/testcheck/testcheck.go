// Package testcheck is the switch between the two commands that run tests. make test runs what takes a few minutes.
// make check sets CHECK=1 and runs everything: real brokers, browsers, killed programs, power cuts, and longer random
// tests. docs/dev/testing.md has the list.
package testcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
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

// Rounds returns the number of repetitions for make test, or the one for make check.
func Rounds(test, check int) int {
	if On() {
		return check
	}
	return test
}

// NoError fails a test at once if there is an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Missing ends a test because the machine lacks something: it fails in CI, and is skipped elsewhere.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("missing, and needed in CI: %s", what)
	}
	t.Skipf("NOT TESTED: missing: %s", what)
}

// Root returns the absolute path of the repository; a test runs in the folder of its package.
func Root(t testing.TB) string {
	t.Helper()
	root, err := os.Getwd()
	for ; err == nil && root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return root
		}
	}
	t.Fatalf("no go.mod above the test (%v)", err)
	return ""
}

// Tool returns the path of a program that .ci/needs check installs: in .bin of the repository, or in the PATH. If it is
// missing, the test ends as with [Missing].
func Tool(t testing.TB, name string) string {
	t.Helper()
	Only(t)
	path := filepath.Join(Root(t), ".bin", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name+", which .ci/needs check installs")
	}
	return path
}

// Patience is how long a test waits for an event; a loaded machine is slow.
const Patience = 2 * time.Minute

// Until waits until missing returns "". If that takes too long, the test fails with what missing returned.
func Until(t testing.TB, missing func() string) {
	t.Helper()
	for end := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		what := missing()
		if what == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s", Patience, what)
		}
	}
}
