package ladder

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/logtest"
)

func TestPlace_RemovesThoseOfDeadRunsAlone(t *testing.T) {
	dir := t.TempDir()
	unlocked := filepath.Join(dir, "p-about-to-be-locked")
	if err := os.Mkdir(unlocked, 0o700); err != nil {
		t.Fatal(err)
	}
	said := 0
	next := func() *place {
		t.Helper()
		p, err := newPlace(dir, "p-", logtest.To(func(string) { said++ }))
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
	exists(dead.dir, false)
	exists(live.dir, true)
	exists(unlocked, true)
	if said != 1 {
		t.Errorf("it named %d places", said)
	}
	for _, p := range []*place{live, last} {
		if err := p.remove(); err != nil {
			t.Fatal(err)
		}
		exists(p.dir, false)
	}
}
