package cli_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
)

// Members come and go, are killed, stop for longer than their sessions and live on, and the
// database is down for a while: each record is applied once, and the table is the fold of the topic,
// where ids come from all partitions by the versions of their messages.
func TestGroup_ExactlyOnce(t *testing.T) {
	for _, way := range []string{"an id is in one partition", "ids have versions"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			testcheck.Only(t)
			sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
				groupExactlyOnce(t, rnd, strings.Contains(way, "versions"))
			})
		})
	}
}

func groupExactlyOnce(t *testing.T, rnd *rand.Rand, versions bool) {
	server := testpg.Start(t)
	g := newGrouped(t, server.Database(t), testkafka.Start(t, kfake.SeedTopics(5, "t")), 5)
	if g.rnd = rnd; versions {
		g.versions, g.more = map[string]int{}, []string{"--version-field", "v"}
	}
	g.produce(20)
	g.finish()
	g.noteRanges()
	var members, stopped []*exec.Cmd
	drop := func(all []*exec.Cmd) ([]*exec.Cmd, *exec.Cmd) {
		i := rnd.IntN(len(all))
		m := all[i]
		return slices.Delete(all, i, i+1), m
	}
	for round := range 10 {
		g.produce(100)
		var m *exec.Cmd
		switch what := rnd.IntN(5); {
		case len(members) < 2 || what == 0 && len(members) < 4:
			members = append(members, g.member("--batch-rows", "20"))
		case what == 1:
			members, m = drop(members)
			_ = m.Process.Signal(os.Interrupt)
			if _ = m.Wait(); m.ProcessState.ExitCode() != 130 {
				t.Errorf("exit %d", m.ProcessState.ExitCode())
			}
		case what == 2:
			members, m = drop(members)
			g.kill(m)
			g.expel(m)
		case what == 3 && len(stopped) > 0:
			stopped, m = drop(stopped)
			g.check(m.Process.Signal(syscall.SIGCONT))
			members = append(members, m)
		default:
			members, m = drop(members)
			stopped = append(stopped, m)
			g.check(m.Process.Signal(syscall.SIGSTOP))
			g.expel(m)
		}
		if round == 5 {
			server.Stop()
			time.Sleep(time.Second)
			server.Restart(t)
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(time.Second))))
	}
	for _, m := range stopped {
		g.check(m.Process.Signal(syscall.SIGCONT))
	}
	g.finish()
	g.checkRanges()
}

// noteRanges has the database note by how much each flush moves a partition on.
func (g *grouped) noteRanges() {
	g.t.Helper()
	db := g.database()
	defer db.Close()
	for _, q := range []string{`CREATE TABLE ranges (n bigserial, source text, first bigint, next bigint, lines bigint)`,
		`CREATE FUNCTION range() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
			INSERT INTO ranges (source, first, next, lines) VALUES (NEW.source, OLD."offset", NEW."offset", NEW.line - OLD.line);
			RETURN NULL;
		END'`,
		`CREATE TRIGGER range AFTER UPDATE ON weir_checkpoints FOR EACH ROW WHEN (OLD."offset" <> NEW."offset" OR OLD.line <> NEW.line) EXECUTE FUNCTION range()`} {
		_, err := db.ExecContext(g.t.Context(), q)
		g.check(err)
	}
}

// checkRanges reports ranges of records that were committed with a gap before them, or that overlap,
// and flushes that counted more or fewer records than their ranges have.
func (g *grouped) checkRanges() {
	g.t.Helper()
	const ranges = "(SELECT *, lag(next) OVER (PARTITION BY source ORDER BY n) AS before FROM ranges) r"
	if wrong := g.ask("SELECT source, first, next, lines, before FROM " + ranges + " WHERE lines <> next - first OR first <> before ORDER BY n"); wrong != "" {
		g.t.Errorf("these flushes left a gap or overlap:\n%s", wrong)
	}
	if got, want := g.rows("SELECT count(DISTINCT source) || ' ' || (count(*) > 20) FROM ranges"), fmt.Sprint(len(g.sent), " true"); got != want {
		g.t.Errorf("the partitions and whether there were many flushes are %s", got)
	}
}

// expel has the group take a member for dead, or all of them where it has another id by now.
func (g *grouped) expel(m *exec.Cmd) {
	all := g.c.Members("weir-t")
	if slices.Contains(all, g.ids[m]) {
		all = []string{g.ids[m]}
	}
	for _, id := range all {
		g.c.Expel("weir-t", id)
	}
}
