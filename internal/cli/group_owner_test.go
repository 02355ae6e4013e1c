package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
)

// commit has Kafka take offsets of a group, by partition of the topic t.
func (l *live) commit(c *testkafka.Cluster, group string, at ...int64) {
	l.t.Helper()
	all := kadm.Offsets{}
	for p, offset := range at {
		all.AddOffset("t", int32(p), offset, -1)
	}
	l.check(kadm.NewClient(c.Client()).CommitAllOffsets(l.t.Context(), group, all))
}

// --start committed takes over from another consumer.
func TestGroup_StartCommitted(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(2, "t"))
	for p := range int32(2) {
		c.Produce("t", p, fmt.Sprintf(`{"id":%d}`, p), fmt.Sprintf(`{"id":%d}`, p+10))
	}
	l := newLive(t, testpg.New(t))
	l.commit(c, "other", 1)
	code, log := l.topics(c, "t", "--group", "other", "--start", "committed", "--until-end")
	if got := l.rows("SELECT id FROM t ORDER BY 1"); code != 0 || got != "1 10 11" {
		t.Errorf("exit %d, the table has %s\n%s", code, got, log)
	}
	if got := l.rows("SELECT DISTINCT job FROM weir_checkpoints"); got != "other" {
		t.Errorf("the job is %s", got)
	}
}

// --start committed ends where records are missing after an offset that the group has committed, and
// names the partitions; --start earliest reads those that exist.
func TestGroup_StartCommittedOfWhatIsLost(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(3, "t"))
	for p := range int32(3) {
		c.Produce("t", p, fmt.Sprintf(`{"id":%d}`, p), fmt.Sprintf(`{"id":%d}`, p+10), fmt.Sprintf(`{"id":%d}`, p+20))
	}
	l := newLive(t, testpg.New(t))
	l.commit(c, "weir-t", 0, 1, 7)
	l.check(c.DeleteRecords("t", 0, 2))
	code, log := l.topics(c, "t", "--start", "committed", "--until-end")
	for _, said := range []string{"/t/0: 2 records after the offset that group weir-t has committed are lost: it is 0, and the topic begins at 2 (--start earliest",
		"/t/2 ends at offset 3, before the one that group weir-t has committed, 7"} {
		if code != 1 || !strings.Contains(log, said) {
			t.Errorf("exit %d, want 1 with %q\n%s", code, said, log)
		}
	}
	code, log = l.topics(c, "t", "--start", "earliest", "--until-end")
	if got := l.rows("SELECT id FROM t ORDER BY 1"); code != 0 || got != "1 2 11 12 20 21 22" {
		t.Errorf("exit %d, the table has %s\n%s", code, got, log)
	}
}

// A group reads into one database. Another one does not become a member, but may have the group to
// itself, or one of its own.
func TestGroup_OtherDatabase(t *testing.T) {
	t.Parallel()
	groupOtherDatabase(t, testkafka.Start(t, kfake.SeedTopics(2, "t")))
}

// The same with Apache Kafka.
func TestBroker_OtherDatabase(t *testing.T) {
	c := testkafka.Broker(t, 2, "t")
	if c.Slow() {
		t.Skip("make kafka runs it")
	}
	groupOtherDatabase(t, c)
}

func groupOtherDatabase(t *testing.T, c *testkafka.Cluster) {
	group := fmt.Sprint("g", time.Now().UnixNano())
	produce := func(from int) {
		for p := range int32(2) {
			c.Produce("t", p, fmt.Sprintf(`{"id":%d}`, from+int(p)))
		}
	}
	first, second := newLive(t, testpg.New(t)), newLive(t, testpg.New(t))
	f := func(l *live, code int, rows string, more ...string) {
		t.Helper()
		got, log := l.topics(c, "t", append([]string{"--until-end", "--group", group, "--job", "t"}, more...)...)
		if table := l.rows("SELECT string_agg(id::text, ' ' ORDER BY id) FROM t"); got != code || !strings.HasPrefix(table, rows) {
			t.Errorf("%q: exit %d, want %d; the table has %s, want %s\n%s", more, got, code, table, rows, log)
		}
		if code == 4 && !strings.Contains(log, "group "+group+" reads into another database, which has kafka://"+c.ID()+"/t/0 up to offset") {
			t.Errorf("exit 4:\n%s", log)
		}
	}
	produce(0)
	f(first, 0, "0 1")
	produce(2)
	f(second, 4, "ERROR")
	if got := second.rows("SELECT count(*) FROM weir_checkpoints"); got != "0" {
		t.Errorf("a database whose group is another's has %s checkpoints", got)
	}
	m := first.begin("member", c, "t", "--group", group, "--job", "t")
	first.until("it reads", func() bool { return first.rows("SELECT count(*) FROM t") == "4" })
	f(second, 4, "ERROR", "--start", "committed")
	first.check(m.Process.Signal(os.Interrupt))
	_ = m.Wait()
	produce(4)
	f(second, 0, "4 5", "--start", "committed")
	f(second, 0, "4 5")
	f(first, 4, "0 1 2 3")
	f(first, 0, "0 1 2 3 4 5", "--group", group+"own")
	produce(6)
	f(first, 0, "0 1 2 3 4 5 6 7", "--start", "committed")
}

// Of two databases whose members found a group at the same time, one at least ends.
func TestGroup_OtherDatabaseAtTheSameTime(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(2, "t"))
	first, second := newLive(t, testpg.New(t)), newLive(t, testpg.New(t))
	members := map[*live]*exec.Cmd{first: first.begin("member", c, "t"), second: second.begin("member", c, "t")}
	refused := func(l *live) bool { return strings.Contains(l.log("member"), "reads into another database") }
	first.until("one of them ends", func() bool { return refused(first) || refused(second) })
	for l, m := range members {
		if refused(l) {
			if _ = m.Wait(); m.ProcessState.ExitCode() != 4 {
				t.Errorf("exit %d\n%s", m.ProcessState.ExitCode(), l.log("member"))
			}
		}
	}
}
