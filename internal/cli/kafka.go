package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/source/kafka"
)

// kafkaOptions are the flags of sync for Kafka.
type kafkaOptions struct {
	partitions string
	group      string
	protocol   groupProtocol
	instance   string
	start      string
	untilEnd   bool
	isolation  isolation
	tombstones string
	fields     []string
	sasl       string
}

// isolation says which records of transactions are read.
type isolation string

const (
	isolationCommitted   isolation = "committed"
	isolationUncommitted isolation = "uncommitted"
)

// groupProtocol says who assigns the partitions of a group: one of its members, or the broker.
type groupProtocol string

const (
	protocolClassic  groupProtocol = "classic"
	protocolConsumer groupProtocol = "consumer"
)

const (
	startEarliest  = "earliest"
	startLatest    = "latest"
	startCommitted = "committed"
	noTombstones   = "off"
)

func (o *kafkaOptions) flags(f *pflag.FlagSet, enums *choices) {
	f.StringVar(&o.group, "group", "", "consumer `GROUP`, and name of the job (default weir-JOB)")
	addChoice(enums, f, &o.protocol, "group-protocol", protocolClassic, "consumer has the brokers assign the partitions (KIP-848; best from Kafka 4.3 on)", protocolClassic, protocolConsumer)
	f.StringVar(&o.instance, "group-instance", "", "static member ID, `NAME` (group.instance.id): a restarted member keeps its partitions")
	f.StringVar(&o.partitions, "partitions", "", "`PARTITIONS` to read without a consumer group, such as 0-3,7")
	f.StringVar(&o.start, "start", startEarliest, "`WHERE` a partition without a checkpoint begins: earliest, latest, committed (by the group, to Kafka), or a time such as 2026-11-01T00:00:00Z; or TOPIC/PARTITION=OFFSET,..., which skips the records of partitions before it")
	f.BoolVar(&o.untilEnd, "until-end", false, "end when all records that existed at the start are committed")
	addChoice(enums, f, &o.isolation, "isolation", isolationCommitted, "uncommitted also reads records of transactions that are open or were aborted", isolationCommitted, isolationUncommitted)
	f.StringVar(&o.tombstones, "tombstones-by-key", "", "the `FIELD` that has a record's key: a record without a value then deletes its row; off passes over these records (default the --key, of a compacted topic)")
	f.StringSliceVar(&o.fields, "record-fields", nil, "`PART=FIELD,...`: put into each message its record's offset, partition, timestamp, key, topic or header.NAME")
	addChoice(enums, f, &o.sasl, "sasl", "", "log in with KAFKA_USERNAME and KAFKA_PASSWORD or KAFKA_PASSWORD_FILE (of oauthbearer the token)", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
}

// parseOffsets reads TOPIC/PARTITION=OFFSET,...; nil: the text is none.
func parseOffsets(text string) map[string]int64 {
	of := map[string]int64{}
	for part := range strings.SplitSeq(text, ",") {
		name, offset, _ := strings.Cut(part, "=")
		topic, number, _ := strings.Cut(name, "/")
		n, bad := strconv.ParseUint(number, 10, 31)
		at, err := strconv.ParseInt(offset, 10, 64)
		_, twice := of[name]
		if bad != nil || strconv.FormatUint(n, 10) != number || err != nil || at < 0 || !kafka.IsTopic(topic) || twice {
			return nil
		}
		of[name] = at
	}
	return of
}

// isKafka reports whether the sources are topics.
func isKafka(sources []string) bool {
	return slices.ContainsFunc(sources, kafka.Is)
}

// checkKafka finds what is set for Kafka alone, and what is not for Kafka, or not for a group.
func (o *syncOptions) checkKafka(sources []string, to destination, rejects *job.Rejects) error {
	var faults []error
	fault := func(wrong bool, text string) {
		if wrong {
			faults = append(faults, errors.New(text))
		}
	}
	k := &o.kafkaOptions
	if !isKafka(sources) {
		for _, f := range []struct {
			set  bool
			name string
		}{{k.partitions != "", "partitions"}, {k.group != "", "group"}, {k.protocol != protocolClassic, "group-protocol"}, {k.instance != "", "group-instance"}, {k.start != startEarliest, "start"}, {k.untilEnd, "until-end"}, {k.tombstones != "", "tombstones-by-key"},
			{len(k.fields) > 0, "record-fields"}, {k.sasl != "", "sasl"}} {
			fault(f.set, "--"+f.name+" is for kafka:// alone")
		}
		fault(rejects.Topic() != "", "--rejects topic:NAME is for kafka:// alone: no other source names brokers")
		return errors.Join(faults...)
	}
	grouped := k.partitions == ""
	if grouped && to.Files != nil && len(to.Files(to.dest)) > 0 {
		faults = append(faults, fmt.Errorf("without --partitions, such as 0-3, topics are read by a consumer group, which needs a server: %s has one writer", to.Name))
	}
	fault(grouped && o.restart != "", "--restart is not for a group: end its members, and run weir once with the same --job, --partitions and --until-end")
	fault(grouped && o.dryRun, "--dry-run joins no group: --partitions says which partitions of each topic are read, such as 0-3")
	fault(!grouped && (k.group != "" || k.protocol != protocolClassic || k.instance != "" || k.start == startCommitted),
		"--partitions reads without a group: leave out --group, --group-protocol, --group-instance and --start committed")
	fault(grouped && rejects.Path() != "", "--rejects file:PATH is not for a group, whose members would share what the database knows of the file: --rejects table, or topic:NAME")
	if spec, err := kafka.ParseSpec(sources[0]); err == nil {
		fault(rejects.Topic() != "" && spec.Reads(rejects.Topic()), fmt.Sprintf("--rejects topic:%s: the topic is also read, so that dead letters would come back", rejects.Topic()))
		faults = append(faults, k.checkOffsets(&spec)...)
	}
	fault(o.init != "", "--init is for connections to feeds: Kafka has --sasl")
	fault(o.dryRun && !k.untilEnd, "--dry-run needs --until-end: a topic has no end")
	return errors.Join(faults...)
}

// checkOffsets finds the offsets of --start whose partitions are not read.
func (o *kafkaOptions) checkOffsets(spec *kafka.Spec) (faults []error) {
	read, err := parsePartitions(o.partitions)
	for _, name := range slices.Sorted(maps.Keys(parseOffsets(o.start))) {
		topic, number, _ := strings.Cut(name, "/")
		n, _ := strconv.ParseInt(number, 10, 32)
		switch {
		case !spec.Reads(topic):
			faults = append(faults, fmt.Errorf("--start %s: the topic is not read", name))
		case err == nil && read != nil && !slices.Contains(read, int32(n)):
			faults = append(faults, fmt.Errorf("--start %s: --partitions leaves the partition out", name))
		}
	}
	return faults
}

// settings turns the options into those of the source.
func (o *kafkaOptions) settings(env func(string) (string, bool), rules *fold.Options, m *mapping.Mapping) (k kafka.Options, err error) {
	k = kafka.Options{UntilEnd: o.untilEnd, Uncommitted: o.isolation == isolationUncommitted, SASL: o.sasl,
		Consumer: o.protocol == protocolConsumer, Instance: o.instance}
	var faults []error
	if k.Partitions, err = parsePartitions(o.partitions); err != nil {
		faults = append(faults, fmt.Errorf("--partitions %s: %w", o.partitions, err))
	}
	switch o.start {
	case startEarliest:
	case startLatest:
		k.Start.Latest = true
	case startCommitted:
		k.Start.Committed = true
	default:
		if k.Start.Offsets = parseOffsets(o.start); k.Start.Offsets != nil {
			break
		}
		if k.Start.Time, err = time.Parse(time.RFC3339, o.start); err != nil {
			faults = append(faults, fmt.Errorf("--start %q: must be earliest, latest, committed, a time such as 2026-11-01T00:00:00Z, or offsets such as flights/0=1234", o.start))
		}
	}
	for _, text := range o.fields {
		f, err := parseRecordField(text)
		if err != nil {
			faults = append(faults, err)
		}
		k.Fields = append(k.Fields, f)
	}
	switch o.tombstones {
	case "":
		k.Tombstones.Drop = m != nil && m.Envelope != nil // they name no table, and follow a message that removes the row
		if len(rules.Key) == 1 && !rules.FillOnly && (m == nil || m.File == "") {
			k.Tombstones.Compacted = rules.Key[0]
		}
	case noTombstones:
		k.Tombstones.Drop = true
	default:
		if k.Tombstones.Field = o.tombstones; rules.FillOnly {
			faults = append(faults, errors.New("--fill-only never removes a row: leave --tombstones-by-key out, or set it to off"))
		} else if m != nil && m.Envelope != nil && !m.TakesTombstones() {
			faults = append(faults, errors.New("--tombstones-by-key: a record without a value names no table of the stream, and has no version: with an envelope it removes rows of one table that takes all messages and keeps no versions; leave it out, for a message that removes the row comes before it"))
		}
	}
	if o.sasl != "" {
		k.Login = func() (string, string, error) { return login(env, o.sasl) }
		if _, _, err := k.Login(); err != nil {
			faults = append(faults, fmt.Errorf("--sasl %s: %w", o.sasl, err))
		}
	}
	return k, errors.Join(faults...)
}

// login reads the credentials of a mechanism. A file is read again each time: tokens expire.
func login(env func(string) (string, bool), mechanism string) (user, password string, err error) {
	user, ok := env("KAFKA_USERNAME")
	if !ok && mechanism != "oauthbearer" {
		return "", "", errors.New("environment variable KAFKA_USERNAME is not set")
	}
	if path, ok := env("KAFKA_PASSWORD_FILE"); ok {
		text, err := os.ReadFile(path)
		return user, strings.TrimSpace(string(text)), err
	}
	if password, ok = env("KAFKA_PASSWORD"); !ok {
		return "", "", errors.New("neither of the environment variables KAFKA_PASSWORD and KAFKA_PASSWORD_FILE is set")
	}
	return user, password, nil
}

// maxPartition is the highest number that --partitions takes.
const maxPartition = 99_999

// parsePartitions reads a list such as 0-3,7.
func parsePartitions(list string) (all []int32, err error) {
	if list == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 31)
		to, err2 := strconv.ParseUint(last, 10, 31)
		if err != nil || err2 != nil || from > to || to > maxPartition {
			return nil, fmt.Errorf("%q is neither a number nor a range, such as 0-3", part)
		}
		for n := from; n <= to; n++ {
			all = append(all, int32(n))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// parseRecordField reads a part and the name of the field that it becomes.
func parseRecordField(text string) (f kafka.RecordField, err error) {
	part, name, ok := strings.Cut(text, "=")
	f = kafka.RecordField{Of: part, Name: name}
	if header, is := strings.CutPrefix(part, "header."); is {
		f.Of, f.Header = "header", header
	}
	if !ok || name == "" || !slices.Contains(kafka.RecordParts, f.Of) || f.Of == "header" && f.Header == "" {
		return f, fmt.Errorf("--record-fields %s: must be PART=FIELD, with a PART of %s", text, strings.Join(kafka.RecordParts[:len(kafka.RecordParts)-1], ", ")+" or header.NAME")
	}
	return f, nil
}
