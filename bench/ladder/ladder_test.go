package ladder

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// TestAdvise_IsTheSafestOfTheFastest: among those that meet the requirements.
func TestAdvise_IsTheSafestOfTheFastest(t *testing.T) {
	setting := func(level sink.Level, period, lag time.Duration, rate float64) Setting {
		return Setting{Level: level, Period: period, Lag: lag, Lost: (&Postgres{fsync: true}).Lost(level), Flushes: enough, Cost: Cost{Rate: report.Spread{Median: rate}}}
	}
	sweep := []Setting{
		setting("off", time.Second, time.Second, 200),
		setting("normal", time.Second, 1500*time.Millisecond, 100),
		setting("normal", 5*time.Second, 6*time.Second, 150),
		setting("full", time.Second, 1500*time.Millisecond, 91),
		setting("full", 100*time.Millisecond, 200*time.Millisecond, 40),
	}
	few := setting("full", 200*time.Millisecond, 300*time.Millisecond, 1000)
	few.Flushes = enough - 1
	sweep = append(sweep, few)
	f := func(lag time.Duration, unsafe bool, level sink.Level, rate float64) {
		t.Helper()
		c := Config{Lag: lag, Unsafe: unsafe}
		got := c.advise(sweep)
		if level == "" {
			if got != nil {
				t.Errorf("lag %s: %s at %v", lag, got.Level, got.Rate.Median)
			}
			return
		}
		if got == nil || got.Level != level || got.Rate.Median != rate {
			t.Errorf("lag %s, unsafe %v: %+v, want %s at %v", lag, unsafe, got, level, rate)
		}
	}
	f(2*time.Second, true, "full", 91)     // within a tenth of normal
	f(10*time.Second, true, "normal", 150) // full is too slow to be preferred
	f(10*time.Second, false, "full", 91)
	f(time.Second, false, "full", 40)
	f(time.Millisecond, false, "", 0)
	for i := range sweep {
		sweep[i].Lost = (&Postgres{}).Lost(sweep[i].Level)
	}
	f(2*time.Second, false, "", 0) // without fsync no commit is safe
	f(2*time.Second, true, "full", 91)
}

func TestMain(m *testing.M) { os.Exit(testpg.Tests{M: m}.Run()) }

// TestPostgres_LeavesNoSchema: at whatever point it is interrupted.
func TestPostgres_LeavesNoSchema(t *testing.T) {
	url := testpg.New(t)
	for range 50 {
		db, err := Open(postgres.Driver.Name, url)
		testcheck.NoError(t, err)
		testcheck.NoError(t, db.Begin(t.Context(), slog.New(slog.DiscardHandler)))
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(500*time.Microsecond))
		if err := db.Wipe(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		testcheck.NoError(t, db.End(t.Context()))
	}
	noSchemaIsLeft(t, url)
}

// noSchemaIsLeft fails the test if measurements left a schema in a database.
func noSchemaIsLeft(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	testcheck.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var left int
	testcheck.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'weir_bench%'").Scan(&left))
	if left != 0 {
		t.Errorf("it left %d schemas", left)
	}
}

func TestPlace_RemovesThoseOfDeadRunsAlone(t *testing.T) {
	dir := t.TempDir()
	unlocked := filepath.Join(dir, "p-about-to-be-locked")
	testcheck.NoError(t, os.Mkdir(unlocked, 0o700))
	strange := filepath.Join(dir, "p-of-another-user")
	others := os.Geteuid() == 0
	if others {
		testcheck.NoError(t, errors.Join(os.Mkdir(strange, 0o755), os.WriteFile(filepath.Join(strange, "lock"), nil, 0o600), os.Chown(strange, 1, -1)))
	}
	removed := 0
	next := func() *Place {
		t.Helper()
		p, err := NewPlace(dir, "p-", logtest.To(func(string) { removed++ }))
		testcheck.NoError(t, err)
		return p
	}
	exists := func(path string, want bool) {
		t.Helper()
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	live, dead := next(), next()
	if err := dead.lock.Close(); err != nil { // like the system does for a dead process
		t.Fatal(err)
	}
	last := next()
	if others {
		exists(strange, true)
	}
	exists(dead.Dir, false)
	exists(live.Dir, true)
	exists(unlocked, true)
	if removed != 1 {
		t.Errorf("it removed %d folders", removed)
	}
	for _, p := range []*Place{live, last} {
		testcheck.NoError(t, p.Remove())
		exists(p.Dir, false)
	}
}
