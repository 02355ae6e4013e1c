package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/source/kafka"
)

// isolation tells which records of transactions are read.
type isolation string

const (
	committedIsolation   isolation = "committed"
	uncommittedIsolation isolation = "uncommitted"
)

// groupProtocol tells who assigns the partitions of a group: a member, or the broker.
type groupProtocol string

const (
	classicProtocol  groupProtocol = "classic"
	consumerProtocol groupProtocol = "consumer"
)

const (
	startEarliest  = "earliest"
	startLatest    = "latest"
	startCommitted = "committed"
	noTombstones   = "off"
)

// leastSession is the shortest --session-timeout: three heartbeats.
const leastSession = 3 * time.Second

// ordinal matches the end of a StatefulSet pod's name. Other pods have random names.
var ordinal = regexp.MustCompile(`-[0-9]+$`)

// stableName returns a member name that stays the same when this process restarts and that other processes are unlikely
// to have, and its origin. It returns "" if there is none.
func stableName(env *Env) (name, why string) {
	if env.Lookup == nil {
		return "", ""
	}
	variable := func(name string) string {
		text, _ := env.Lookup(name)
		return text
	}
	if pod := variable("HOSTNAME"); variable("KUBERNETES_SERVICE_HOST") != "" && ordinal.MatchString(pod) {
		return pod, "the pod of a StatefulSet"
	}
	// Each service on a host has its own state directory.
	if folder := variable("STATE_DIRECTORY"); folder != "" && variable("INVOCATION_ID") != "" {
		if host, err := os.Hostname(); err == nil {
			return host + "-" + filepath.Base(folder), "a systemd service on this host"
		}
	}
	return "", ""
}

// parseOffsets parses TOPIC/PARTITION=OFFSET,.... It returns nil if the text is something else.
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

// IsKafka reports whether the sources are topics.
func IsKafka(sources []string) bool {
	return slices.ContainsFunc(sources, kafka.Is)
}

// aloneForRestart tells how to reread a job that belongs to a group.
const aloneForRestart = "end its members, and run weir once with the same --job, --partitions and --until-end"

// checkKafka rejects Kafka settings without a Kafka source, and settings that Kafka or a consumer group cannot use.
func (b *builder) checkKafka(sources []string) {
	k := &b.Kafka
	if !IsKafka(sources) {
		for _, one := range b.settings {
			if one.group == "Kafka" && one.Name != "isolation" && one.String() != one.preset {
				b.fault(one.Name, "--"+one.Name+" is for kafka:// alone")
			}
		}
		return
	}
	grouped := k.Partitions == ""
	named := !b.env.FileOnly || b.Table.To != ""
	if to := b.plan.To; grouped && named && to.Files != nil && len(to.Files(to.Dest)) > 0 {
		b.add(b.sourceFault("without --partitions, such as 0-3, topics are read by a consumer group, which needs a server: %s has one writer", to.Name))
	}
	b.faultIf(grouped && b.Source.Restart != "", "restart", "--restart is not for a group: "+aloneForRestart)
	b.faultIf(grouped && b.Table.DryRun, "dry-run", "--dry-run joins no group: --partitions says which partitions of each topic are read, such as 0-3")
	b.faultIf(!grouped && (k.Group != "" || k.GroupProtocol != classicProtocol || b.Setting("group-instance").IsSet() || b.Setting("session-timeout").IsSet() || k.Start == startCommitted),
		"partitions", "--partitions reads without a group: leave out --group, --group-protocol, --group-instance, --session-timeout and --start committed")
	b.faultIf(k.GroupProtocol == consumerProtocol && b.Setting("session-timeout").IsSet(),
		"session-timeout", "--session-timeout is for the classic protocol: with --group-protocol consumer the brokers set it (group.consumer.session.timeout.ms)")
	b.faultIf(b.Feed.Init != "", "init", "--init is for connections to feeds: Kafka has --sasl")
	b.faultIf(b.Table.DryRun && !k.UntilEnd, "dry-run", "--dry-run needs --until-end: a topic has no end")
}

func (b *builder) kafka() (k kafka.Options) {
	o := &b.Kafka
	k = kafka.Options{UntilEnd: o.UntilEnd, Uncommitted: o.Isolation == uncommittedIsolation, SASL: o.SASL,
		Consumer: o.GroupProtocol == consumerProtocol, Instance: o.GroupInstance, Session: o.SessionTimeout}
	b.faultIf(o.SessionTimeout < leastSession, "session-timeout", "--session-timeout %s: must be at least 3s, three heartbeats; the brokers may demand more (group.min.session.timeout.ms)", o.SessionTimeout)
	var err error
	if k.Partitions, err = parsePartitions(o.Partitions); err != nil {
		b.fault("partitions", "--partitions %s: %v", o.Partitions, err)
	}
	switch o.Start {
	case startEarliest:
	case startLatest:
		k.Start.Latest = true
	case startCommitted:
		k.Start.Committed = true
	default:
		if k.Start.Offsets = parseOffsets(o.Start); k.Start.Offsets != nil {
			break
		}
		if k.Start.Time, err = time.Parse(time.RFC3339, o.Start); err != nil {
			b.fault("start", "--start %q: must be earliest, latest, committed, a time such as 2026-11-01T00:00:00Z, or offsets such as flights/0=1234", o.Start)
		}
	}
	for _, text := range o.RecordFields {
		f, err := parseRecordField(text)
		if err != nil {
			b.fault("record-fields", "--record-fields %v", err)
		}
		k.Fields = append(k.Fields, f)
	}
	m := b.plan.Mapping
	if m.Envelope != nil && m.Envelope.RecordKeys && slices.ContainsFunc(m.Tables, func(t mapping.Table) bool { return t.KeyByDefault }) {
		k.Fields = append(k.Fields, kafka.RecordField{Of: "key", Name: envelope.RecordKey, Null: true})
	}
	k.Tombstones = b.tombstones()
	if o.SASL != "" && !b.env.FileOnly {
		k.Login = func() (string, string, error) { return login(b.env.Lookup, o.SASL) }
		if _, _, err := k.Login(); err != nil {
			b.fault("sasl", "--sasl %s: %v", o.SASL, err)
		}
	}
	return k
}

// tombstones returns what happens to records without a value.
func (b *builder) tombstones() (t kafka.Tombstones) {
	o, m, fillOnly := &b.Kafka, b.plan.Mapping, b.Fold.FillOnly
	switch o.TombstonesByKey {
	case "":
		t.Drop = m.Envelope != nil // they name no table, and follow a message that removes the row
		if tables := b.plan.Job.Plan.Tables; b.Mapping == nil && !fillOnly && len(tables) == 1 && len(tables[0].StoredKey()) == 1 {
			t.Compacted = tables[0].StoredKey()[0]
		}
	case noTombstones:
		t.Drop = true
	default:
		if t.Field = o.TombstonesByKey; fillOnly {
			b.fault("tombstones-by-key", "--fill-only never removes a row: leave --tombstones-by-key out, or set it to off")
		} else if m.Envelope != nil && !m.AppliesTombstones() {
			b.fault("tombstones-by-key", "--tombstones-by-key: a record without a value names no table of the stream, and has no version: with an envelope it removes rows of one table that takes all messages and keeps no versions; leave it out, for a message that removes the row comes before it")
		}
	}
	return t
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

// maxPartition is the highest partition number.
const maxPartition = 99_999

// parsePartitions parses a list such as 0-3,7.
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

// parseRecordField parses a part of a record and the name of its field.
func parseRecordField(text string) (f kafka.RecordField, err error) {
	part, name, ok := strings.Cut(text, "=")
	f = kafka.RecordField{Of: part, Name: name}
	if header, is := strings.CutPrefix(part, "header."); is {
		f.Of, f.Header = "header", header
	}
	if !ok || name == "" || !slices.Contains(kafka.RecordParts, f.Of) || f.Of == "header" && f.Header == "" {
		return f, fmt.Errorf("%s: must be PART=FIELD, with a PART of %s", text, strings.Join(kafka.RecordParts[:len(kafka.RecordParts)-1], ", ")+" or header.NAME")
	}
	return f, nil
}
