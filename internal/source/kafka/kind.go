package kafka

import (
	"context"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// Kind is Kafka as a kind of source, by its options.
func Kind(o Options) source.Kind {
	traits := source.Traits{Live: true, Rewindable: true, Named: true, Records: true, Divided: true}
	return source.Kind{
		Usage:    "kafka:// and kafka+tls://broker:9092/topic",
		Schemes:  []string{scheme, tlsScheme},
		Traits:   func(string) source.Traits { return traits },
		Parse:    source.One(func(spec string) error { _, err := ParseSpec(spec); return err }),
		Suggests: suggests,
		Settings: o.settings(),
		Open: func(ctx context.Context, specs []string, common source.Options) (source.Source, error) {
			s, err := New(ctx, specs[0], common, o)
			switch {
			case err != nil:
				return nil, err
			case o.Group != "":
				return groupSource{s}, nil
			}
			return s, nil
		},
	}
}

// suggests is the topic of a spec that has one and no more, "" of others.
func suggests(spec string) string {
	if s, err := ParseSpec(spec); err == nil && len(s.Topics) == 1 {
		return s.Topics[0]
	}
	return ""
}

// Options are the settings that only Kafka has.
type Options struct {
	Partitions []int32       // of each topic, that are read; nil: Group
	Group      string        // the consumer group that assigns the partitions
	Consumer   bool          // the broker assigns them (KIP-848), not a member
	Instance   string        // the member's name (group.instance.id), the same after a restart; "" is none
	Session    time.Duration // the session timeout, if not Consumer

	DeadLetters string // the topic that rejected records are sent to; "" is none
	Start       Start
	UntilEnd    bool // a partition ends where it ended when the run began
	Uncommitted bool // records of transactions that are not committed, or are aborted, are read too
	Tombstones  Tombstones
	Fields      []RecordField
	SASL        string // mechanism, as flags have it; "" is none
	// Login returns what the mechanism needs whenever a connection is made: of oauthbearer, the token is the password.
	Login func() (user, password string, err error)
}

// Start is where a partition without a checkpoint begins; the zero value is its first record.
type Start struct {
	// Offsets are where partitions begin, as TOPIC/PARTITION, whose checkpoints are before that, too.
	Offsets   map[string]int64
	Latest    bool      // behind its last record
	Committed bool      // where the group has committed to Kafka, else at its first record
	Time      time.Time // at the first record of this time or later
}

// Tombstones says what a record without a value does. By default it is rejected.
type Tombstones struct {
	Field     string // that has the record's key: the record deletes the row; "" is none
	Compacted string // the Field of compacted topics, if that is open
	Drop      bool   // the record is skipped if no field has its key
}

// A RecordField puts what is known of a record beside its value into the message.
type RecordField struct {
	Of     string // one of RecordParts
	Header string // the name of a header, where Of is "header"
	Name   string // of the field
	Null   bool   // a record without a key has null there; otherwise the field is absent
}

// RecordParts are what a RecordField can have.
var RecordParts = []string{"offset", "partition", "timestamp", "key", "topic", "header"}

// settings are the options that say what records become, where they are set, by their flags.
func (o *Options) settings() map[string]string {
	flags := map[string]string{}
	var fields []string
	for _, f := range o.Fields {
		if f.Header != "" {
			f.Of += "." + f.Header
		}
		fields = append(fields, f.Of+"="+f.Name)
	}
	if len(fields) > 0 {
		flags["record-fields"] = strings.Join(fields, ",")
	}
	if o.Tombstones.Drop {
		flags["tombstones-by-key"] = "off"
	} else if o.Tombstones.Field != "" {
		flags["tombstones-by-key"] = o.Tombstones.Field
	}
	return flags
}
