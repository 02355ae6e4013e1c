package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/testkafka"
)

// An id that comes from two partitions is warned of, once for each table, unless messages have
// versions.
func TestKafka_WarnsOfIDsInTwoPartitions(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(2, "t", "stream"))
	for p := range int32(2) {
		c.Produce("t", p, `{"id":7,"at":1}`, `{"id":8,"at":2}`)
	}
	const warning = `table "t": messages of id 7 come from partition 0 of topic t and from partition 1 of topic t`
	f := func(warnings int, more ...string) {
		t.Helper()
		l := newLive(t, "t.db")
		code, log := l.topics(c, "t", append([]string{"--until-end"}, more...)...)
		log = strings.ReplaceAll(log, "from partition 1 of topic t and from partition 0 of topic t", "from partition 0 of topic t and from partition 1 of topic t")
		if got := strings.Count(log, "send all messages of a key to one partition, or use --version-field"); code != 0 || got != warnings || got > 0 && !strings.Contains(log, warning) {
			t.Errorf("%q: exit %d, %d warnings, want %d\n%s", more, code, got, warnings, log)
		}
	}
	f(1, "--partitions", "0-1")
	f(0, "--partitions", "0-1", "--version-field", "at")
	f(0, "--partitions", "1")

	l := newLive(t, "t.db")
	config := "tables:\n  t: {key: id}\n  other: {key: id}\n"
	l.check(os.WriteFile(filepath.Join(l.dir, "c.yaml"), []byte(config), 0o600))
	cmd := l.start("config", "sync", "kafka://"+c.Addr()+"/t", "--to", "t.db", "--config", "c.yaml", "--partitions", "0-1", "--until-end")
	_ = cmd.Wait()
	if log := l.log("config"); strings.Count(log, "messages of id 7 come from") != 2 || strings.Count(log, `table "other": messages`) != 1 {
		t.Errorf("with two tables:\n%s", log)
	}
	config = "envelope: {table: of, row: row}\ntables: {'*': {rest: add}}\n" // each makes its own
	l.check(os.WriteFile(filepath.Join(l.dir, "c.yaml"), []byte(config), 0o600))
	for p := range int32(2) {
		c.Produce("stream", p, `{"of":"a","row":{"id":7}}`, `{"of":"b","row":{"id":7}}`)
	}
	cmd = l.start("star", "sync", "kafka://"+c.Addr()+"/stream", "--to", "t.db", "--config", "c.yaml", "--job", "star", "--partitions", "0-1", "--until-end")
	_ = cmd.Wait()
	if log := l.log("star"); strings.Count(log, "messages of id 7 come from") != 2 || strings.Count(log, `table "b": messages`) != 1 {
		t.Errorf("with tables of the stream:\n%s", log)
	}
}

// A compacted topic whose messages are partial is warned of, once.
func TestKafka_WarnsOfCompactedPartialMessages(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(1, "plain"))
	c.CreateTopics(1, map[string]string{"cleanup.policy": "compact"}, "sparse", "whole")
	for _, topic := range []string{"plain", "sparse"} {
		c.Produce(topic, 0, `1|{"id":1,"a":1}`, `1|{"id":1,"b":2}`, `1|{"id":1,"a":3}`)
	}
	c.Produce("whole", 0, `1|{"id":1,"a":1}`, `1|{"id":1,"a":2,"b":2}`, `1|`, `1|{"id":1,"a":3,"n":4}`, `2|{"id":2,"x":4}`)
	f := func(topic string, warnings int, more ...string) {
		t.Helper()
		l := newLive(t, "t.db")
		code, log := l.topics(c, topic, append([]string{"--partitions", "0", "--until-end"}, more...)...)
		if got := strings.Count(log, `topic `+topic+` is compacted, and its messages are partial: one of id 1 lacks "a", which an earlier one has`); code != 0 || got != warnings {
			t.Errorf("%s: exit %d, %d warnings, want %d\n%s", topic, code, got, warnings, log)
		}
	}
	f("plain", 0)
	f("whole", 0)
	f("sparse", 1)
	f("sparse", 1, "--record-fields", "offset=@at", "--version-field", "@at")
	f("sparse", 1, "--tombstones-by-key", "off")
}
