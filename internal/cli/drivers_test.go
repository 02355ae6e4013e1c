package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/example"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// withDriver adds a driver. It returns a function that runs a command and checks the exit code and words in the output,
// and a folder.
func withDriver(t *testing.T, d sink.Driver) (weir func(code int, command, words string), dir string) {
	was := drivers
	t.Cleanup(func() { drivers = was })
	drivers = append(slices.Clone(drivers), d)
	return runsInProcess(t), t.TempDir()
}

// runsInProcess returns a function that runs a command and checks the exit code and words in the output.
func runsInProcess(t *testing.T) func(code int, command, words string) {
	return func(code int, command, words string) {
		t.Helper()
		var out bytes.Buffer
		e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &out, terminal: func(int) bool { return false },
			lookupEnv: func(string) (string, bool) { return "", false }, environ: func() []string { return nil }}
		if got := e.run(context.WithoutCancel(t.Context()), strings.Fields(command)); got != code || !strings.Contains(out.String(), words) {
			t.Errorf("weir %s: exit code %d, want %d, with %q:\n%s", command, got, code, words, &out)
		}
	}
}

// TestDrivers_WithoutOptionalParts: if a driver lacks an optional part, only commands that need it fail.
func TestDrivers_WithoutOptionalParts(t *testing.T) {
	weir, dir := withDriver(t, example.Driver)
	config := func(name, text string) string {
		path := filepath.Join(dir, name)
		testcheck.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	feed := config("flights.jsonl", `{"id":"BA1","gate":"A1","v":1}`+"\nbad\n")
	to := " --to example:" + filepath.Join(dir, "t.db")
	weir(3, "sync "+feed+to, "1 inserted, 0 updated, 0 unchanged, 0 deleted; 1 rejected")
	weir(3, "sync "+feed+to+" --restart reread", "0 inserted, 0 updated, 1 unchanged, 0 deleted; 1 rejected")
	weir(1, "sync "+feed+to+" --job versions --version-field v", "weir cannot keep versions in a database of this kind")
	nested := config("weir.yaml", "tables: {orders: {key: id}, items: {of: orders, each: items, key: sku}}")
	weir(1, "sync --config "+nested+" "+feed+to+" --job nested", "weir cannot write child tables in a database of this kind")
	weir(1, "status"+to, "weir cannot read what it has written in a database of this kind")
	weir(1, "rejects"+to, "weir cannot read what it has written in a database of this kind")
	weir(1, "verify "+feed+to, "weir cannot read what it has written")
}

// another returns a driver with all optional parts: SQLite's, by another name.
func another() sink.Driver {
	d := sqlite.Driver
	d.Name, d.Usage = "another", "another:PATH"
	d.Parse = func(to string) (path string, ok bool, err error) {
		if path, ok = strings.CutPrefix(to, "another:"); ok && path == "" {
			err = fmt.Errorf("%q names no file", to)
		}
		return path, ok, err
	}
	return d
}

// TestDrivers_OneMore: a new driver is a folder and an entry in one list. All commands then support it.
func TestDrivers_OneMore(t *testing.T) {
	weir, dir := withDriver(t, another())
	air := "another:" + filepath.Join(dir, "air.db")
	path := filepath.Join(dir, "flights.jsonl")
	feed := func(lines string) {
		t.Helper()
		testcheck.NoError(t, os.WriteFile(path, []byte(lines), 0o600))
	}
	const first = `{"id":"BA1","gate":"A1"}` + "\n" + `{"id":"BA2","gate":"A2","delay":1.5}` + "\nbad\n"
	feed(first)
	weir(2, "sync "+path+" --to another:", `"another:" names no file`)
	weir(2, "sync "+path+" --to nosuch://x", "another:PATH")
	weir(1, "status --to "+air, "the database is missing")
	weir(3, "sync "+path+" --to "+air+" --dry-run", `"delay" REAL`)
	weir(1, "status --to "+air, "the database is missing") // the dry run created none
	weir(3, "sync "+path+" --to "+air, "2 inserted, 0 updated, 0 unchanged, 0 deleted; 1 rejected")
	weir(0, "status --to "+air, "flights")
	weir(0, "rejects --to "+air+" --raw", "bad\n")
	weir(0, "verify "+path+" --to "+air, `2 rows of table "flights" match`)
	weir(0, "explain BA2 "+path, "A2")
	feed(first + `{"id":"BA1","gate":"B7"}` + "\n" + `{"id":"BA2","op":"delete"}` + "\n")
	weir(1, "verify "+path+" --to "+air+" --delete-when op=delete", `BA1: gate is A1, and should be "B7"`)
	weir(2, "sync "+path+" --to "+air+" --delete-when op=delete", "--delete-when")
	weir(0, "sync "+path+" --to "+air+" --delete-when op=delete --accept-settings", "1 updated, 0 unchanged, 1 deleted")
	weir(3, "sync "+path+" --to "+air+" --delete-when op=delete --restart rebuild", "1 inserted")
	weir(0, "verify "+path+" --to "+air+" --delete-when op=delete", "1 row of table")
	weir(0, "status --to "+air, "5")
	weir(0, "forget flights --to "+air, `forgot job "flights": 1 checkpoint and 1 rejected line`)
	weir(0, "status --to "+air, "weir has not written")
	weir(0, "config schema", `"another"`)
	mapped := filepath.Join(t.TempDir(), "weir.yaml")
	testcheck.NoError(t, os.WriteFile(mapped, []byte("tables: {t: {on_create: {another: [x], oracle: [y]}}}"), 0o600))
	weir(2, "config check "+mapped, `"oracle" must be sqlite, postgres or another`)
	weir(1, "status --to "+air+"x", "the database is missing")
}
