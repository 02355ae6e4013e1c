package kafka

import (
	"context"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// Kind returns Kafka as a kind of source.
func Kind(o Options) source.Kind {
	return source.Kind{
		Usage:    "kafka:// and kafka+tls://broker:9092/topic",
		Schemes:  []string{scheme, tlsScheme},
		Type:     func(string) source.Type { return source.Partition },
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

// suggests returns the topic of a spec with exactly one topic, else "".
func suggests(spec string) string {
	if s, err := ParseSpec(spec); err == nil && len(s.Topics) == 1 {
		return s.Topics[0]
	}
	return ""
}

// Options are the settings specific to Kafka.
type Options struct {
	Partitions []int32       // to read from each topic; nil: Group assigns them
	Group      string        // the consumer group that assigns the partitions
	Consumer   bool          // the broker assigns partitions (KIP-848), not a member
	Instance   string        // the static member ID (group.instance.id), the same after a restart; "": none
	Session    time.Duration // the session timeout, if not Consumer

	Start       Start
	UntilEnd    bool // a partition ends at its end offset when the run began
	Uncommitted bool // read records of open and aborted transactions, too
	Tombstones  Tombstones
	Fields      []RecordField
	SASL        string // mechanism, spelled as in flags; "": none
	// Login returns the mechanism's user and password for each new connection. For oauthbearer, the token is the
	// password.
	Login func() (user, password string, err error)
}

// Start is where a partition without a checkpoint begins. The zero value is its first record.
type Start struct {
	// Offsets has first offsets by TOPIC/PARTITION. They also apply to partitions with a checkpoint before them.
	Offsets   map[string]int64
	Latest    bool      // after its last record
	Committed bool      // at the group's offset committed to Kafka; if none, at its first record
	Time      time.Time // at the first record with this time or later
}

// Tombstones says how to handle a record without a value. By default it is rejected.
type Tombstones struct {
	Field     string // compared with the record's key: the record deletes the row; "": none
	Compacted string // Field for compacted topics, if not set explicitly
	Drop      bool   // skip the record if no field has its key
}

// A RecordField adds a part of a record's metadata to the message.
type RecordField struct {
	Of     string // one of RecordParts
	Header string // header name, if Of is "header"
	Name   string // the field's name
	Null   bool   // for a record without a key, null; otherwise the field is absent
}

// RecordParts are the possible values of RecordField.Of.
var RecordParts = []string{"offset", "partition", "timestamp", "key", "topic", "header"}

// settings returns, by flag, those options that affect how records become messages, if set.
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
