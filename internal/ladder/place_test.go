package ladder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
)

// TestSQLite_WipesItsFiles whatever their folder is called.
func TestSQLite_WipesItsFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b] 100%")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d := &SQLite{path: filepath.Join(dir, "t.db")}
	if err := d.Begin(t.Context(), discard); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		db, err := d.OpenSQL(t.Context(), sink.Off)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.ExecContext(t.Context(), "CREATE TABLE t (id text)")
		if err := errors.Join(err, db.Close(), d.Wipe(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.End(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestPlace_RemovesThoseOfDeadRunsAlone(t *testing.T) {
	dir := t.TempDir()
	unlocked := filepath.Join(dir, "p-about-to-be-locked")
	if err := os.Mkdir(unlocked, 0o700); err != nil {
		t.Fatal(err)
	}
	strange := filepath.Join(dir, "p-of-another-user")
	others := os.Geteuid() == 0
	if others {
		if err := errors.Join(os.Mkdir(strange, 0o755), os.WriteFile(filepath.Join(strange, "lock"), nil, 0o600), os.Chown(strange, 1, -1)); err != nil {
			t.Fatal(err)
		}
	}
	said := 0
	next := func() *Place {
		t.Helper()
		p, err := NewPlace(dir, "p-", logtest.To(func(string) { said++ }))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	exists := func(path string, want bool) {
		t.Helper()
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	live, dead := next(), next()
	if err := dead.lock.Close(); err != nil { // as the system does
		t.Fatal(err)
	}
	last := next()
	if others {
		exists(strange, true)
	}
	exists(dead.Dir, false)
	exists(live.Dir, true)
	exists(unlocked, true)
	if said != 1 {
		t.Errorf("it named %d places", said)
	}
	for _, p := range []*Place{live, last} {
		if err := p.Remove(); err != nil {
			t.Fatal(err)
		}
		exists(p.Dir, false)
	}
}
