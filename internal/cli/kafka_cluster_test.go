package cli_test

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
)

// Leaders and coordinators of a cluster move while members of a group read, and brokers leave and
// come: each record is applied once.
func TestGroup_LeadersMove(t *testing.T) {
	t.Parallel()
	testcheck.Only(t)
	c := testkafka.Start(t, kfake.SeedTopics(4, "t"))
	g := newGrouped(t, testpg.New(t), c, 4)
	g.produce(20)
	g.finish()
	g.noteRanges()
	g.member("--batch-rows", "20")
	g.member("--batch-rows", "20")
	var nodes []int32
	for range 2 {
		node, _, err := c.AddNode(-1, 0)
		g.check(err)
		nodes = append(nodes, node)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 6 {
		g.produce(20)
		switch round % 3 {
		case 0:
			c.ShufflePartitionLeaders()
		case 1:
			i := rnd.IntN(len(nodes))
			g.check(c.RemoveNode(nodes[i]))
			g.produce(5)
			node, _, err := c.AddNode(-1, 0)
			g.check(err)
			nodes[i] = node
		default:
			c.RehashCoordinators()
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(300 * time.Millisecond))))
	}
	g.finish()
	g.checkRanges()
}

// readingRun is a run that has read the first record of the topic t.
func readingRun(t *testing.T) (*live, *testkafka.Cluster, *exec.Cmd) {
	c := testkafka.Start(t, kfake.SeedTopics(1, "t"))
	c.Produce("t", 0, `{"id":1}`, `{"id":2}`, `{"id":3}`)
	l := newLive(t, "t.db")
	run := l.begin("run", c, "t", "--partitions", "0", "--batch-period", "10ms")
	l.until("it reads", func() bool { return l.rows("SELECT count(*) FROM t") == "3" })
	return l, c, run
}

// A topic that is deleted and recreated while it is read ends the run.
func TestKafka_RecreatedMeanwhile(t *testing.T) {
	t.Parallel()
	testcheck.Only(t)
	l, c, run := readingRun(t)
	l.check(c.DeleteTopic("t"))
	l.check(c.CreateTopic("t", 1, nil))
	c.Produce("t", 0, `{"id":4}`, `{"id":5}`, `{"id":6}`, `{"id":7}`)
	_ = run.Wait()
	if code, log := run.ProcessState.ExitCode(), l.log("run"); code != 1 || !strings.Contains(log, "/t/0 is of a topic that was deleted, or recreated, while it was read (offset 3); to read it from the start: --from-start") || l.rows("SELECT count(*) FROM t") != "3" {
		t.Errorf("exit %d, %s rows\n%s", code, l.rows("SELECT count(*) FROM t"), log)
	}
}

// A leader whose log ends before what was read ends the run.
func TestKafka_TruncatedMeanwhile(t *testing.T) {
	t.Parallel()
	testcheck.Only(t)
	l, c, run := readingRun(t)
	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		request := r.(*kmsg.OffsetForLeaderEpochRequest)
		answer := request.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, of := range request.Topics {
			topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
			topic.Topic = of.Topic
			for _, p := range of.Partitions {
				partition := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				partition.Partition, partition.LeaderEpoch, partition.EndOffset = p.Partition, p.LeaderEpoch, 1
				topic.Partitions = append(topic.Partitions, partition)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true
	})
	_, _, err := c.AddNode(-1, 0)
	l.check(err)
	c.ShufflePartitionLeaders()
	_ = run.Wait()
	if code, log := run.ProcessState.ExitCode(), l.log("run"); code != 1 || !strings.Contains(log, "lost its records from offset 1 to 2, which were read: --from-start reads it again") {
		t.Errorf("exit %d\n%s", code, log)
	}
}
