package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/memory"
)

// TestDrivers_OneMore: a driver is a folder and an entry of one list; all commands know it.
func TestDrivers_OneMore(t *testing.T) {
	was := drivers
	t.Cleanup(func() { drivers = was })
	drivers = append(slices.Clone(drivers), memory.NewDriver())
	path := filepath.Join(t.TempDir(), "flights.jsonl")
	feed := func(lines string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// weir runs a command, and expects an exit code, and these words in what it prints.
	weir := func(code int, command, words string) {
		t.Helper()
		var out bytes.Buffer
		e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &out, terminal: func(int) bool { return false },
			lookupEnv: func(string) (string, bool) { return "", false }, environ: func() []string { return nil }}
		args := strings.Fields(strings.ReplaceAll(command, "FEED", path))
		if got := e.run(context.WithoutCancel(t.Context()), args); got != code || !strings.Contains(out.String(), words) {
			t.Errorf("weir %s: exit code %d, want %d, with %q:\n%s", command, got, code, words, &out)
		}
	}
	const first = `{"id":"BA1","gate":"A1"}` + "\n" + `{"id":"BA2","gate":"A2","delay":1.5}` + "\nbad\n"
	feed(first)
	weir(2, "sync FEED --to memory:", `"memory:" names no database`)
	weir(2, "sync FEED --to nosuch://x", "memory:NAME")
	weir(1, "status --to memory:air", `no database is called "air"`)
	weir(3, "sync FEED --to memory:air --dry-run", "gate text, delay real")
	weir(1, "status --to memory:air", `no database is called "air"`) // the dry run made none
	weir(3, "sync FEED --to memory:air", "2 inserted, 0 updated, 0 unchanged, 0 deleted; 1 rejected")
	weir(0, "status --to memory:air --sample 1", `{"id":"BA1","gate":"A1","delay":null}`)
	weir(0, "status --to memory:air --rejects", "bad\n")
	weir(0, "verify FEED --to memory:air", `2 rows of table "flights" are the fold`)
	weir(0, "explain BA2 FEED", "A2")
	feed(first + `{"id":"BA1","gate":"B7"}` + "\n" + `{"id":"BA2","op":"delete"}` + "\n")
	weir(1, "verify FEED --to memory:air --delete-when op=delete", `BA1: gate is A1, and should be "B7"`)
	weir(2, "sync FEED --to memory:air --delete-when op=delete", "--delete-when")
	weir(0, "sync FEED --to memory:air --delete-when op=delete --accept-settings", "1 updated, 0 unchanged, 1 deleted")
	weir(3, "sync FEED --to memory:air --delete-when op=delete --rebuild", "1 inserted")
	weir(0, "verify FEED --to memory:air --delete-when op=delete", "1 row of table")
	weir(0, "status --to memory:air", "5")
	weir(0, "forget flights --to memory:air", `forgot job "flights": 1 checkpoint and 1 rejected line`)
	weir(0, "status --to memory:air", "weir has not written")
	weir(0, "config schema", `"memory"`)
	mapped := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(mapped, []byte("tables: {t: {on_create: {memory: [x], oracle: [y]}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	weir(2, "config check "+mapped, `"oracle" must be sqlite, postgres or memory`)
	weir(1, "status --to memory:other", `no database is called "other"`)
}
