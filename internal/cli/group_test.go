package cli_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
)

// A grouped is a topic that members of a group read into Postgres. One record in five is rejected:
// weir_rejects is written with the rows, so it shows which records were applied, and how often.
type grouped struct {
	*live
	c    *testkafka.Cluster
	rnd  *rand.Rand
	sent []int             // records by partition
	bad  int               // of these
	want map[string]string // the table: values by id and field
	ids  map[*exec.Cmd]string
	n    int      // members so far
	more []string // flags of all runs
	// versions are those of the values that are wanted, where ids come from all partitions and
	// messages have versions; nil: an id comes from one partition.
	versions map[string]int
}

func newGrouped(t *testing.T, to string, c *testkafka.Cluster, partitions int) *grouped {
	t.Helper()
	return &grouped{live: newLive(t, to), c: c, rnd: rand.New(rand.NewPCG(1, 1)), sent: make([]int, partitions), want: map[string]string{}, ids: map[*exec.Cmd]string{}}
}

// produce appends records to each partition.
func (g *grouped) produce(n int) {
	for p := range g.sent {
		texts := make([]string, n)
		for i := range texts {
			if (g.sent[p]+i)%5 == 4 {
				texts[i] = "bad"
				g.bad++
				continue
			}
			id, field, value := g.rnd.IntN(50)*len(g.sent)+p, g.rnd.IntN(3), g.rnd.IntN(1000)
			if g.versions == nil {
				texts[i] = fmt.Sprintf(`{"id":%d,"f%d":%d}`, id, field, value)
				g.want[fmt.Sprintf("%d f%d", id, field)] = fmt.Sprint(value)
				continue
			}
			id /= len(g.sent)
			version := 1 + g.rnd.IntN(1000)*1_000_000 + g.sent[p]*len(g.sent) + i*len(g.sent) + p // no other message has it
			texts[i] = fmt.Sprintf(`{"id":%d,"f%d":%d,"v":%d}`, id, field, value, version)
			if cell := fmt.Sprintf("%d f%d", id, field); version > g.versions[cell] {
				g.versions[cell], g.want[cell] = version, fmt.Sprint(value)
			}
		}
		g.sent[p] += n
		g.c.Produce("t", int32(p), texts...)
	}
}

// member starts one. Unless it is the last one to come, its id in the group is found out.
func (g *grouped) member(more ...string) *exec.Cmd {
	g.n++
	before := g.c.Members("weir-t")
	m := g.begin(fmt.Sprintf("member%d", g.n), g.c, "t", slices.Concat([]string{"--batch-period", "50ms", "--metrics-addr", "127.0.0.1:0"}, g.more, more)...)
	g.until("a member joins", func() bool {
		for _, id := range g.c.Members("weir-t") {
			if !slices.Contains(before, id) {
				g.ids[m] = id
				return true
			}
		}
		return false
	})
	return m
}

// finish has a member read until the end, while others may read, and compares the table and the
// rejects with what was sent.
func (g *grouped) finish(more ...string) {
	g.t.Helper()
	if code, log := g.topics(g.c, "t", slices.Concat([]string{"--until-end"}, g.more, more)...); code != 0 && code != 3 {
		g.t.Fatalf("exit %d\n%s", code, log)
	}
	for p := range g.sent {
		if got := g.rows(fmt.Sprintf(`SELECT line || ' ' || "offset" FROM weir_checkpoints WHERE source LIKE '%%/t/%d'`, p)); got != fmt.Sprintf("%d %d", g.sent[p], g.sent[p]) {
			g.t.Errorf("partition %d: %s of %d records", p, got, g.sent[p])
		}
	}
	if got := g.rows(`SELECT count(*) || ' ' || count(DISTINCT source || "offset") FROM weir_rejects`); got != fmt.Sprintf("%d %d", g.bad, g.bad) {
		g.t.Errorf("the records that were applied, and the different ones of these, are %s of %d", got, g.bad)
	}
	cells := 0
	for line := range strings.SplitSeq(g.ask("SELECT id || ' f0 ' || COALESCE(f0, -1) FROM t UNION ALL SELECT id || ' f1 ' || COALESCE(f1, -1) FROM t UNION ALL SELECT id || ' f2 ' || COALESCE(f2, -1) FROM t"), "\n") {
		at := strings.LastIndexByte(line, ' ')
		if cell, value := line[:at], line[at+1:]; value != "-1" {
			if cells++; g.want[cell] != value {
				g.t.Errorf("%s is %s, want %s", cell, value, g.want[cell])
			}
		}
	}
	if cells != len(g.want) {
		g.t.Errorf("%d values, want %d", cells, len(g.want))
	}
}

// count returns a metric of a member, the sum of all its series; -1 where there is none.
func (g *grouped) count(name, metric string) int {
	sum := -1
	for line := range strings.SplitSeq(g.scrape(name), "\n") {
		if rest, ok := strings.CutPrefix(line, metric+"{"); ok {
			n, err := strconv.Atoi(rest[strings.LastIndexByte(rest, ' ')+1:])
			g.check(err)
			sum = max(sum, 0) + n
		}
	}
	return sum
}

// Members of a group divide the partitions among them, and tell Kafka what the database has.
func TestKafka_Group(t *testing.T) {
	t.Parallel()
	testkafka.Each(t, func(t *testing.T, start testkafka.Starter) {
		for _, protocol := range []string{"classic", "consumer"} {
			t.Run(protocol, func(t *testing.T) {
				c := start(t, 4, "t")
				if c.Slow() && protocol == "classic" {
					t.Skip("make kafka runs it")
				}
				kafkaGroup(t, c, protocol)
			})
		}
	})
}

func kafkaGroup(t *testing.T, c *testkafka.Cluster, protocol string) {
	g := newGrouped(t, testpg.New(t), c, 4)
	group := fmt.Sprintf("%s%d", protocol, time.Now().UnixNano())
	begin := func(name string) *exec.Cmd {
		m := g.begin(name, g.c, "t", "--group", group, "--group-protocol", protocol, "--batch-period", "50ms", "--metrics-addr", "127.0.0.1:0")
		g.until(name, func() bool { return strings.Contains(g.log(name), "metrics at") })
		return m
	}
	has := func(name string, partitions int) bool { return g.count(name, "weir_kafka_partitions") == partitions }
	g.produce(50)
	one := begin("one")
	g.until("one has all", func() bool { return has("one", 4) })
	two := begin("two")
	g.until("each has two", func() bool { return has("one", 2) && has("two", 2) })
	if text := g.scrape("one"); strings.Count(text, "\nweir_kafka_lag_records") != 2 || g.count("one", "weir_kafka_rebalances_total") == 0 {
		t.Errorf("the metrics are\n%s", text)
	}
	g.produce(50)
	g.finish("--group", group, "--group-protocol", protocol)
	for _, m := range []*exec.Cmd{one, two} {
		_ = m.Process.Signal(os.Interrupt)
		if _ = m.Wait(); m.ProcessState.ExitCode() != 130 {
			t.Errorf("exit %d", m.ProcessState.ExitCode())
		}
	}
	offsets, err := kadm.NewClient(c.Client()).FetchOffsets(t.Context(), group)
	g.check(err)
	for p := range int32(4) {
		if at, _ := offsets.Lookup("t", p); at.At != 100 {
			t.Errorf("Kafka has offset %d of partition %d", at.At, p)
		}
	}
	for _, name := range []string{"one", "two"} {
		if log := g.log(name); strings.Contains(log, "another") {
			t.Errorf("there was a conflict\n%s", log)
		}
	}
}

// Whatever Kafka has as the group's offsets, the database's are those from which members read.
func TestGroup_OffsetsAreTheDatabases(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(2, "t")), 2)
	g.produce(20)
	g.finish()
	g.produce(20)
	for _, at := range []int64{35, 3} {
		all := kadm.Offsets{}
		all.AddOffset("t", 0, at, -1)
		all.AddOffset("t", 1, at, -1)
		g.check(kadm.NewClient(g.c.Client()).CommitAllOffsets(t.Context(), "weir-t", all))
		g.finish()
		g.produce(20)
	}
}

// The first member to come writes where all partitions begin, also those that it does not get; a
// partition that appears later begins at its first record, while members read.
func TestGroup_StartLatest(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(2, "t")), 2)
	g.c.Produce("t", 0, `{"id":0}`)
	g.c.Produce("t", 1, `{"id":1}`)
	m := g.member("--start", "latest")
	g.until("it reads", func() bool { return g.count("member1", "weir_kafka_partitions") == 2 })
	g.kill(m)
	g.c.Expel("weir-t", g.ids[m])
	g.c.Produce("t", 0, `{"id":2}`)
	g.c.Produce("t", 1, `{"id":3}`)
	answers, err := kadm.NewClient(g.c.Client()).CreatePartitions(t.Context(), 1, "t")
	g.check(err)
	g.check(answers.Error())
	g.c.Produce("t", 2, `{"id":4}`)
	if code, log := g.topics(g.c, "t", "--start", "latest", "--until-end"); code != 0 || g.rows("SELECT id FROM t ORDER BY 1") != "2 3 4" {
		t.Errorf("exit %d, the table has %s\n%s", code, g.rows("SELECT id FROM t ORDER BY 1"), log)
	}
}

// A member that stops for longer than its session, and lives on, has lost its partitions: what it
// has read is not written a second time, and it joins again.
func TestGroup_Zombie(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(2, "t")), 2)
	zombie := g.member("--batch-period", "2s")
	g.until("it reads", func() bool { return g.count("member1", "weir_kafka_partitions") == 2 })
	g.produce(20)
	g.until("it has read", func() bool { return g.count("member1", "weir_pending_lines") == 40 })
	g.check(zombie.Process.Signal(syscall.SIGSTOP))
	g.c.Expel("weir-t", g.ids[zombie])
	g.member()
	g.until("the other member commits", func() bool { return g.rows("SELECT sum(line) FROM weir_checkpoints") == "40" })
	g.check(zombie.Process.Signal(syscall.SIGCONT))
	g.until("the zombie has flushed", func() bool { return g.count("member1", "weir_pending_lines") <= 0 })
	g.until("it is a member again", func() bool {
		return g.count("member1", "weir_kafka_partitions") == 1 && g.count("member2", "weir_kafka_partitions") == 1
	})
	g.produce(20)
	g.finish()
	if zombie, owner := g.count("member1", "weir_kafka_fenced_total"), g.count("member2", "weir_kafka_fenced_total"); zombie != 1 || owner != 0 {
		t.Errorf("the zombie was fenced %d times, and the new owner %d times", zombie, owner)
	}
}

// A claim waits for the flush of the former owner, and reads on where that ends.
func TestGroup_ClaimWaits(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(2, "t")), 2)
	g.produce(5)
	g.finish() // there is a table
	db := g.database()
	defer db.Close()
	lock, err := db.Conn(t.Context())
	g.check(err)
	defer lock.Close()
	for _, q := range []string{"CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NEW; END'",
		"CREATE TRIGGER wait BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION wait()", "SELECT pg_advisory_lock(42)"} {
		_, err := lock.ExecContext(t.Context(), q)
		g.check(err)
	}
	former := g.member("--batch-period", "3s") // so that one flush has both partitions
	g.produce(20)
	waiting := func(what string) func() bool {
		return func() bool {
			return g.rows("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%"+what+"%'") != "0"
		}
	}
	g.until("the former owner flushes", waiting("weir_checkpoints"))
	g.c.Expel("weir-t", g.ids[former])
	g.member("--verbose")
	g.until("a claim waits", waiting("seq = seq + 1"))
	_, err = lock.ExecContext(t.Context(), "SELECT pg_advisory_unlock(42)")
	g.check(err)
	g.until("both read", func() bool {
		return g.count("member1", "weir_kafka_partitions") == 1 && g.count("member2", "weir_kafka_partitions") == 1
	})
	g.produce(20)
	g.finish()
	if got := g.count("member2", "weir_kafka_fenced_total"); got != 0 {
		t.Errorf("the new owner was fenced %d times\n%s", got, g.log("member2"))
	}
}

// A member commits what it has read of a partition before it releases it.
func TestGroup_RevocationCommits(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(2, "t")), 2)
	g.member("--batch-period", "1h")
	g.until("it reads", func() bool { return g.count("member1", "weir_kafka_partitions") == 2 })
	g.produce(20)
	g.until("it has read", func() bool { return g.count("member1", "weir_pending_lines") == 40 })
	g.member("--batch-period", "1h")
	g.until("it has released one", func() bool { return g.count("member2", "weir_kafka_partitions") == 1 })
	if got := g.rows("SELECT sum(line) FROM weir_checkpoints"); got != "40" {
		t.Errorf("%s of 40 records are committed", got)
	}
}

// A member ends as asked while the group waits for one that is dead.
func TestGroup_EndsWhileOthersJoin(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(2, "t")), 2)
	one, dead := g.member(), g.member()
	g.until("each has one", func() bool {
		return g.count("member1", "weir_kafka_partitions") == 1 && g.count("member2", "weir_kafka_partitions") == 1
	})
	g.kill(dead)
	g.begin("member3", g.c, "t")
	g.until("the group waits", func() bool { return g.c.GroupInfo("weir-t").State == "PreparingRebalance" })
	time.Sleep(2 * time.Second) // a heartbeat, after which the first member joins again
	g.check(one.Process.Signal(os.Interrupt))
	if _ = one.Wait(); one.ProcessState.ExitCode() != 130 {
		t.Errorf("exit %d\n%s", one.ProcessState.ExitCode(), g.log("member1"))
	}
	if left := g.c.Members("weir-t"); slices.Contains(left, g.ids[one]) || !slices.Contains(left, g.ids[dead]) {
		t.Errorf("it has not left the group, or waited until the session of the dead one had expired: %v are left", left)
	}
}

// A member whose name outlasts it has its partitions again after a restart, long before its session
// expires.
func TestGroup_Instance(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(2, "t")), 2)
	g.produce(10)
	g.member("--group-instance", "a")
	b := g.member("--group-instance", "b")
	g.until("each has one", func() bool {
		return g.count("member1", "weir_kafka_partitions") == 1 && g.count("member2", "weir_kafka_partitions") == 1
	})
	g.kill(b)
	g.produce(10)
	g.member("--group-instance", "b")
	if slices.Contains(g.c.Members("weir-t"), g.ids[b]) {
		t.Error("the dead one is still a member: its partitions wait until its session expires")
	}
	g.until("all is committed", func() bool { return g.rows("SELECT sum(line) FROM weir_checkpoints") == "40" })
	g.finish()
}

// A partition that a topic gets while members read it is read from its first record.
func TestGroup_NewPartition(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(1, "t"), kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "500"}))
	g := newGrouped(t, testpg.New(t), c, 1)
	g.begin("one", c, "t", "--group-protocol", "consumer", "--start", "latest", "--batch-period", "50ms", "--metrics-addr", "127.0.0.1:0")
	g.until("it reads", func() bool { return strings.Contains(g.log("one"), "reading from offset") })
	c.Produce("t", 0, `{"id":0}`)
	want := "0"
	for p := range int32(12) { // more often than a run may read again for other reasons
		answers, err := kadm.NewClient(c.Client()).CreatePartitions(t.Context(), 1, "t")
		g.check(err)
		g.check(answers.Error())
		c.Produce("t", p+1, fmt.Sprintf(`{"id":%d}`, p+1))
		want += fmt.Sprint(" ", p+1)
		g.until("the rows", func() bool { return g.rows("SELECT id FROM t ORDER BY 1") == want })
	}
}

// A member that ends at the end of the topic ends where that was when the run began, also if it has
// to begin again meanwhile.
func TestGroup_UntilEndOfTheRun(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(1, "t")), 1)
	g.produce(20)
	g.finish() // there is a table
	db := g.database()
	defer db.Close()
	run := func(q string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), q)
		g.check(err)
	}
	run("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END'")
	run("CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION slow()")
	g.produce(20)
	m := g.begin("member", g.c, "t", "--until-end", "--batch-rows", "1")
	committed := func() int {
		n, err := strconv.Atoi(g.rows("SELECT line FROM weir_checkpoints"))
		g.check(err)
		return n
	}
	g.until("it writes", func() bool { return committed() > 20 })
	g.produce(20)
	run("UPDATE weir_checkpoints SET seq = seq + 1, run = 'another'")
	_ = m.Wait()
	if code, log := m.ProcessState.ExitCode(), g.log("member"); code != 3 || committed() != 40 || !strings.Contains(log, "reading again") {
		t.Errorf("exit %d at record %d\n%s", code, committed(), log)
	}
}

// A topic that was recreated ends the run although it ends before the checkpoint, so nothing of it
// has to be read.
func TestGroup_UntilEndOfARecreatedTopic(t *testing.T) {
	testkafka.Each(t, groupUntilEndOfARecreatedTopic)
}

func groupUntilEndOfARecreatedTopic(t *testing.T, start testkafka.Starter) {
	c := start(t, 1, "t")
	l := newLive(t, testpg.New(t))
	c.Produce("t", 0, `{"id":1}`, `{"id":2}`, `{"id":3}`)
	if code, log := l.topics(c, "t", "--group", "g", "--until-end"); code != 0 {
		t.Fatalf("exit %d\n%s", code, log)
	}
	for _, records := range [][]string{{`{"id":4}`}, {`{"id":4}`, `{"id":5}`, `{"id":6}`}} {
		c.DeleteTopics("t")
		c.CreateTopics(1, nil, "t")
		c.Produce("t", 0, records...)
		code, log := l.topics(c, "t", "--group", "g", "--until-end")
		if code != 1 || !strings.Contains(log, "which was deleted and recreated") {
			t.Errorf("%d records: exit %d\n%s", len(records), code, log)
		}
	}
}

// A member that has read its partitions to their ends commits what it read before another member
// gets one of them.
func TestGroup_UntilEndCommitsBeforeItReleases(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(2, "t")), 2)
	g.produce(20)
	g.finish() // there is a table
	db := g.database()
	defer db.Close()
	lock, err := db.Conn(t.Context())
	g.check(err)
	defer lock.Close()
	for _, q := range []string{"SELECT pg_advisory_lock(1)",
		"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1), pg_sleep(0.05); RETURN NEW; END'",
		"CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION slow()"} {
		_, err := lock.ExecContext(t.Context(), q)
		g.check(err)
	}
	g.produce(20)
	first := g.member("--until-end", "--batch-rows", "10")
	g.until("it has read all", func() bool { return g.count("member1", "weir_pending_lines") >= 20 })
	rebalances := g.count("member1", "weir_kafka_rebalances_total")
	second := g.member("--until-end")
	g.until("a partition is revoked", func() bool { return g.count("member1", "weir_kafka_rebalances_total") > rebalances })
	_, err = lock.ExecContext(t.Context(), "SELECT pg_advisory_unlock(1)")
	g.check(err)
	_, _ = first.Wait(), second.Wait()
	if log := g.log("member1"); strings.Contains(log, "reading again") {
		t.Errorf("the first one reads again\n%s", log)
	}
	g.finish()
}

// What a group refuses for good ends the run; what passes does not.
func TestGroup_Errors(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(1, "t")), 1)
	m := g.member()
	g.until("it has joined", func() bool { return g.count("member1", "weir_kafka_partitions") == 1 })
	g.c.Expel("weir-t", g.ids[m])
	g.until("it joins again", func() bool { return strings.Contains(g.log("member1"), "left group weir-t: UNKNOWN_MEMBER_ID") })
	g.produce(10)
	g.until("it reads", func() bool { return g.rows("SELECT sum(line) FROM weir_checkpoints") == "10" })
	g.c.Fault(kfake.Fault{Group: "weir-t", TopLevel: true, Err: kerr.GroupAuthorizationFailed, Count: -1})
	if _ = m.Wait(); m.ProcessState.ExitCode() != 1 || !strings.Contains(g.log("member1"), "GROUP_AUTHORIZATION_FAILED") {
		t.Errorf("exit %d\n%s", m.ProcessState.ExitCode(), g.log("member1"))
	}
}

// While no broker can be reached, members wait; then they are members again.
func TestGroup_BrokerAway(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(2, "t")), 2)
	g.produce(10)
	g.member()
	g.until("it reads", func() bool { return g.rows("SELECT sum(line) FROM weir_checkpoints") == "20" })
	g.c.Down()
	g.until("the warning", func() bool { return strings.Contains(g.log("member1"), "no broker can be reached") })
	g.c.Up()
	g.produce(10)
	g.until("it reads on", func() bool { return g.rows("SELECT sum(line) FROM weir_checkpoints") == "40" })
	g.finish()
}
