package torture

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testweir"
)

// TestCrash_Resend kills weir rejects resend with SIGKILL at random moments, until all lines are applied. After each
// kill a line is either rejected or applied, never both: a trigger records each inserted row.
func TestCrash_Resend(t *testing.T) {
	n := times(t)
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			sinktest.Seeds(t, uint64(n), func(t *testing.T, rnd *rand.Rand) {
				kills, moved := 0, 0
				for life := 400 * time.Millisecond; kills < 5 || moved < 2; life = life * 3 / 4 {
					k, m := resendCrashes(t, rnd, kind, max(life, 50*time.Millisecond))
					kills, moved = kills+k, moved+m
				}
				t.Logf("%d kills, %d of them after something more had been committed", kills, moved)
			})
		})
	}
}

// resentLines is the number of rejected lines.
const resentLines = 3000

// resendCrashes kills runs at random moments within life, until one ends.
func resendCrashes(t *testing.T, rnd *rand.Rand, kind string, life time.Duration) (kills, moved int) {
	f := testweir.New(t, "t.db")
	text, noted := "ALTER TABLE r RENAME TO old; CREATE TABLE r (id INTEGER PRIMARY KEY, n TEXT); DROP TABLE old",
		"CREATE TRIGGER note AFTER INSERT ON r BEGIN INSERT INTO noted VALUES (new.id); END"
	if kind == "postgres" {
		f = f.With(testpg.New(t))
		text = "ALTER TABLE r ALTER n TYPE text"
		noted = `CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO noted VALUES (new.id); RETURN NULL; END';
			CREATE TRIGGER note AFTER INSERT ON r FOR EACH ROW EXECUTE FUNCTION note()`
	}
	f.Exec("CREATE TABLE r (id INTEGER PRIMARY KEY, n INTEGER)", "CREATE TABLE noted (id INTEGER)")
	var feed strings.Builder
	for i := range resentLines {
		fmt.Fprintf(&feed, "{\"id\":%d,\"n\":\"x\"}\n", i)
	}
	f.Write("r.jsonl", feed.String())
	f.Start("sync", "r.jsonl", "--to", f.To).Exit(3)
	f.Exec(text, noted)
	for at := "0"; ; {
		c := f.Start("rejects", "resend", "--to", f.To, "--accept-settings", "--batch-rows", fmt.Sprint(1+rnd.IntN(300)))
		kill := time.AfterFunc(time.Duration(rnd.Int64N(int64(life))), c.Kill)
		code := c.Wait()
		kill.Stop()
		f.Exec("DELETE FROM noted WHERE id < 0") // only a writer is sure to be able to roll back a killed run's transaction
		f.Has(fmt.Sprint(resentLines), "SELECT (SELECT count(*) FROM r) + (SELECT count(*) FROM weir_rejects)")
		f.Has("0", "SELECT count(*) FROM weir_rejects WHERE line - 1 IN (SELECT id FROM r)")
		f.Has("0", "SELECT (SELECT count(*) FROM noted) - (SELECT count(*) FROM r)")
		if t.Failed() {
			t.Fatalf("exit %d\n%s", code, c.Log())
		}
		now := f.Ask("SELECT count(*) FROM r")
		switch {
		case code == 0:
			if now != fmt.Sprint(resentLines) {
				t.Fatalf("the run ended well with %s rows\n%s", now, c.Log())
			}
			return kills, moved
		case code != -1:
			t.Fatalf("exit %d\n%s", code, c.Log())
		}
		if kills++; now != at {
			moved++
		}
		at = now
	}
}
