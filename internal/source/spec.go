package source

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	kafkaScheme    = "kafka://"
	kafkaTLSScheme = "kafka+tls://"
	kafkaPort      = "9092"
)

// isKafka reports whether a spec is topics of Kafka, or a name one of their partitions.
func isKafka(spec string) bool {
	return strings.HasPrefix(spec, kafkaScheme) || strings.HasPrefix(spec, kafkaTLSScheme)
}

// A KafkaSpec is kafka://BROKER,…/TOPIC,… in parts.
type KafkaSpec struct {
	TLS     bool
	Brokers []string       // with their ports
	Topics  []string       // nil where there is a Pattern
	Pattern *regexp.Regexp // that the names of the topics match
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// IsTopic reports whether a name may be that of a topic.
func IsTopic(name string) bool { return topicName.MatchString(name) }

// Reads reports whether a topic is one of the spec's.
func (s *KafkaSpec) Reads(topic string) bool {
	return s.Pattern != nil && s.Pattern.MatchString(topic) || slices.Contains(s.Topics, topic)
}

// ParseKafka returns the parts of a spec.
func ParseKafka(spec string) (s KafkaSpec, err error) {
	scheme, rest, _ := strings.Cut(spec, "://")
	s.TLS = strings.HasSuffix(scheme, "+tls")
	brokers, topics, ok := strings.Cut(rest, "/")
	if !ok || brokers == "" || topics == "" {
		return s, fmt.Errorf("%s: not of the form %s://broker:9092,…/topic,…", spec, scheme)
	}
	for b := range strings.SplitSeq(brokers, ",") {
		host, port, err := net.SplitHostPort(b)
		if err != nil {
			host, port = strings.Trim(b, "[]"), kafkaPort
		}
		if host == "" || port == "" || strings.ContainsAny(b, " ?#") {
			return s, fmt.Errorf("%s: %q is no broker, such as host:9092", spec, b)
		}
		s.Brokers = append(s.Brokers, net.JoinHostPort(host, port))
	}
	if pattern, is := strings.CutPrefix(topics, "~"); is {
		if s.Pattern, err = regexp.Compile(pattern); err != nil {
			return s, fmt.Errorf("%s: %w", spec, err)
		}
		return s, nil
	}
	for t := range strings.SplitSeq(topics, ",") {
		if !IsTopic(t) || slices.Contains(s.Topics, t) {
			return s, fmt.Errorf("%s: %q is no name of a topic, or appears twice; a pattern begins with ~", spec, t)
		}
		s.Topics = append(s.Topics, t)
	}
	return s, nil
}

// PartitionName is the name of a partition's lane: that of the cluster is in it, not its brokers.
func PartitionName(cluster, topic string, partition int32) string {
	return fmt.Sprintf("%s%s/%s/%d", kafkaScheme, cluster, topic, partition)
}

// Partition returns what a partition's lane is of. ok is false for other names.
func Partition(lane string) (topic, partition string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(lane, kafkaScheme), "/")
	if !strings.HasPrefix(lane, kafkaScheme) || len(parts) != 3 {
		return "", "", false
	}
	_, err := strconv.ParseInt(parts[2], 10, 32)
	return parts[1], parts[2], err == nil
}

// Kafka are the options of Kafka alone.
type Kafka struct {
	Partitions []int32 // of each topic, that are read; nil: Group
	Group      string  // the consumer group that assigns the partitions
	Consumer   bool    // the broker assigns them (KIP-848), not a member
	Instance   string  // the member's name, which outlasts the process; "" is none
	// Cursors returns those of the checkpoints of lanes, and Rebalanced is called whenever the group
	// assigns partitions or takes some away, from any goroutine. Both are of groups alone.
	Cursors    func(ctx context.Context, lanes []string) ([]Cursor, error)
	Rebalanced func()

	DeadLetters string // the topic that rejected records are sent to; "" is none
	Start       Start
	UntilEnd    bool // a partition ends where it ended when the run began
	// Ends are where the partitions ended then, by their lanes: others have appeared since. nil: it begins.
	Ends        map[string]int64
	Uncommitted bool // records of transactions that are not committed, or are aborted, are read too
	// Tombstone is the field that has the key of a record without a value, which removes its row.
	// "" removes none: DropTombstones has these records passed over, and else they are rejected.
	Tombstone      string
	DropTombstones bool
	// Compacted is the Tombstone of topics that are compacted, where that is open.
	Compacted string
	Fields    []RecordField
	SASL      string // mechanism, as flags have it; "" is none
	// Login returns what the mechanism needs whenever a connection is made: of oauthbearer, the
	// token is the password.
	Login  func() (user, password string, err error)
	Buffer int64  // bytes of memory for the batches; 0: as much as is of use
	Failed func() // is called for each fetch that failed, from any goroutine; nil: nothing
}

// Start is where a partition without a checkpoint begins; the zero value is its first record.
type Start struct {
	// Offsets are where partitions begin, as TOPIC/PARTITION, whose checkpoints are before that, too.
	Offsets   map[string]int64
	Latest    bool      // behind its last record
	Committed bool      // where the group has committed to Kafka, else at its first record
	Time      time.Time // at the first record of this time or later
}

// A RecordField puts what is known of a record beside its value into the message.
type RecordField struct {
	Of     string // one of RecordParts
	Header string // the name of a header, where Of is "header"
	Name   string // of the field
}

// RecordParts are what a RecordField can have.
var RecordParts = []string{"offset", "partition", "timestamp", "key", "topic", "header"}
