package cli_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testkafka"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

// The program is killed and the broker restarted, again and again. Each record is applied once, and the table is the
// fold of the topic.
func TestKafka_ExactlyOnce(t *testing.T) {
	t.Parallel()
	testkafka.Each(t, func(t *testing.T, start testkafka.Starter) {
		testcheck.Only(t)
		intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
			sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
				k := newTopic(start(t, 3, "t"), 3)
				f, rounds, restarts := testweir.New(t, to(t)), 4, 4
				if k.rnd = rnd; k.c.Real() && testkafka.Slow() {
					rounds, restarts = 2, 1
				}
				for round := range rounds {
					run := f.Start(k.sync(f.To, "t", "--partitions", "0-2", "--batch-period", "20ms", "--batch-rows", "20")...)
					for i := range 4 {
						k.fill(300)
						if round%2 == 1 && i < restarts {
							k.c.Down()
							k.c.Up()
						}
					}
					time.Sleep(rand.N(100 * time.Millisecond))
					run.Kill()
					if got := f.Ask(`SELECT count(*) FROM weir_checkpoints WHERE line <> "offset"`); got != "0" && !strings.Contains(got, "weir_checkpoints") {
						t.Fatalf("%s partitions have records that were applied twice, or not at all", got)
					}
				}
				k.applied(f, "--partitions", "0-2")
			})
		})
	})
}

// A group is the members that read a topic into Postgres.
type group struct {
	*testweir.Folder
	*topic
	more []string // flags of all runs
	ids  map[*testweir.Run]string
}

func newGroup(t *testing.T, to string, partitions int) *group {
	c := testkafka.Start(t, kfake.SeedTopics(int32(partitions), "t"))
	return &group{Folder: testweir.New(t, to), topic: newTopic(c, partitions), ids: map[*testweir.Run]string{}}
}

// member starts a member.
func (g *group) member() *testweir.Run {
	before := g.c.Members("weir-t")
	m := g.Start(g.sync(g.To, "t", append(g.more, "--batch-period", "50ms", "--batch-rows", "20")...)...)
	g.ids[m] = g.joined(g.Folder, before)
	return m
}

// expel removes a member from the group, or all members if its ID has changed.
func (g *group) expel(m *testweir.Run) {
	all := g.c.Members("weir-t")
	if slices.Contains(all, g.ids[m]) {
		all = []string{g.ids[m]}
	}
	for _, id := range all {
		g.c.Expel("weir-t", id)
	}
}

// noteRanges reads some records, then adds triggers that record how far each flush moves a partition.
func (g *group) noteRanges() {
	g.Helper()
	g.fill(20)
	g.applied(g.Folder, g.more...)
	g.Exec(`CREATE TABLE ranges (n bigserial, source text, first bigint, next bigint, lines bigint)`,
		`CREATE FUNCTION range() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
			INSERT INTO ranges (source, first, next, lines) VALUES (NEW.source, OLD."offset", NEW."offset", NEW.line - OLD.line);
			RETURN NULL;
		END'`,
		`CREATE TRIGGER range AFTER UPDATE ON weir_checkpoints FOR EACH ROW WHEN (OLD."offset" <> NEW."offset" OR OLD.line <> NEW.line) EXECUTE FUNCTION range()`)
}

// checkRanges reports committed ranges of records with gaps or overlaps, and flushes whose counts do not match their
// ranges.
func (g *group) checkRanges() {
	g.Helper()
	const ranges = "(SELECT *, lag(next) OVER (PARTITION BY source ORDER BY n) AS before FROM ranges) r"
	g.Has("", "SELECT source, first, next, lines, before FROM "+ranges+" WHERE lines <> next - first OR first <> before ORDER BY n")
	g.Has(fmt.Sprint(len(g.sent), "|true"), "SELECT count(DISTINCT source), count(*) > 20 FROM ranges")
}

// Members join and leave, are killed, or stop for longer than their session timeout and then continue. The database is
// down for a while. Each record is applied once, and the table is the fold of the topic, in which an id is in all
// partitions and messages have versions.
func TestGroup_ExactlyOnce(t *testing.T) {
	testcheck.Only(t)
	for _, way := range []string{"an id is in one partition", "ids have versions"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
				groupExactlyOnce(t, rnd, strings.Contains(way, "versions"))
			})
		})
	}
}

func groupExactlyOnce(t *testing.T, rnd *rand.Rand, versions bool) {
	server := testpg.Start(t)
	g := newGroup(t, server.Database(t), 5)
	if g.rnd = rnd; versions {
		g.versions, g.more = true, []string{"--version-field", "v"}
	}
	g.noteRanges()
	var members, stopped []*testweir.Run
	drop := func(all []*testweir.Run) ([]*testweir.Run, *testweir.Run) {
		i := rnd.IntN(len(all))
		m := all[i]
		return slices.Delete(all, i, i+1), m
	}
	for round := range 10 {
		g.fill(100)
		var m *testweir.Run
		switch what := rnd.IntN(5); {
		case len(members) < 2 || what == 0 && len(members) < 4:
			members = append(members, g.member())
		case what == 1:
			members, m = drop(members)
			m.Interrupt()
		case what == 2:
			members, m = drop(members)
			m.Kill()
			g.expel(m)
		case what == 3 && len(stopped) > 0:
			stopped, m = drop(stopped)
			m.Continue()
			members = append(members, m)
		default:
			members, m = drop(members)
			stopped = append(stopped, m)
			m.Pause()
			g.expel(m)
		}
		if round == 5 {
			server.Stop()
			time.Sleep(100 * time.Millisecond)
			server.Restart(t)
		}
		time.Sleep(rand.N(100 * time.Millisecond))
	}
	for _, m := range stopped {
		m.Continue()
	}
	g.applied(g.Folder, g.more...)
	g.checkRanges()
}

// Leaders and coordinators of a cluster move while group members read, and brokers leave and return. Each record is
// applied once.
func TestGroup_LeadersMove(t *testing.T) {
	t.Parallel()
	testcheck.Only(t)
	g := newGroup(t, testpg.New(t), 4)
	g.noteRanges()
	g.member()
	g.member()
	var nodes []int32
	for range 2 {
		node, _, err := g.c.AddNode(-1, 0)
		g.Check(err)
		nodes = append(nodes, node)
	}
	for round := range 6 {
		g.fill(20)
		switch round % 3 {
		case 0:
			g.c.ShufflePartitionLeaders()
		case 1:
			i := g.rnd.IntN(len(nodes))
			g.Check(g.c.RemoveNode(nodes[i]))
			g.fill(5)
			node, _, err := g.c.AddNode(-1, 0)
			g.Check(err)
			nodes[i] = node
		default:
			g.c.RehashCoordinators()
		}
		time.Sleep(rand.N(100 * time.Millisecond))
	}
	g.applied(g.Folder)
	g.checkRanges()
}
