package kafka

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/source"
)

// tooLongKept is how much of an oversized record is kept.
const tooLongKept = 64 << 10 // bytes

// A texter turns records into messages.
type texter struct {
	maxLine int
	kafka   *Options
	keys    keyReader
	buf     []byte // the part of the current message that does not come from the record's value
}

// A message consists of before, then value.
type message struct {
	kind          source.RecordKind
	before, value []byte
}

// fill puts records into a block, and returns how many it consumed. The block is nil if none became a message and the
// lane did not advance.
func (t *texter) fill(l *lane, records []*kgo.Record, pool *source.Pool) (b *source.Block, taken int) {
	b = pool.Block()
	buf, was := b.Buf[:0], l.at
	b.Records = make([]source.Record, 0, min(len(records), 1024))
	for _, r := range records {
		if r.LeaderEpoch != records[0].LeaderEpoch {
			break
		}
		// Those before it that were not delivered, perhaps the last ones before the end, were aborted or compacted away.
		l.at.Offset = max(l.at.Offset, min(r.Offset, l.until))
		if r.Offset < l.at.Offset || l.isAtEnd() { // already read, in a partly read batch; or past the end
			taken++
			continue
		}
		m, ok := t.message(l, r)
		if n := len(m.before) + len(m.value) + 1; ok && len(buf)+n > cap(buf) {
			if len(b.Records) > 0 {
				break
			}
			b.Buf = make([]byte, n)
			buf = b.Buf[:0]
		}
		if ok {
			buf = append(append(append(buf, m.before...), m.value...), '\n')
			b.Records = append(b.Records, source.Record{Offset: r.Offset, End: len(buf), Kind: m.kind})
		}
		l.at = cursor{Offset: r.Offset + 1, Epoch: r.LeaderEpoch, Topic: l.id}
		if r.Timestamp.UnixMilli() > 0 {
			b.Time = r.Timestamp
		}
		taken++
	}
	if l.at == was {
		b.Release()
		return nil, taken
	}
	b.Data, b.Next = buf, l.at.Offset
	at := l.at
	b.AtOffset(func(offset int64) source.Cursor {
		at.Offset = offset
		return at.text()
	})
	return b, taken
}

// message returns the message of a record, valid until the next call; ok is false if the record is skipped.
func (t *texter) message(l *lane, r *kgo.Record) (m message, ok bool) {
	if r.Attrs.IsControl() {
		return m, false
	}
	k := t.kafka
	t.buf = t.buf[:0]
	if r.Value == nil {
		field := k.Tombstones.Field
		if field == "" && l.compacted {
			field = k.Tombstones.Compacted
		}
		switch {
		case field == "" && k.Tombstones.Drop:
			return m, false
		case field == "" || r.Key == nil:
			return message{kind: source.NoValue, value: r.Key}, true
		}
		t.buf = appendString(t.fields(append(t.buf, '{'), r), field)
		t.buf = append(t.keys.appendKey(append(t.buf, ':'), r.Key, field), '}')
		return message{kind: source.Tombstone, before: t.buf}, true
	}
	value := r.Value
	if len(value) > t.maxLine {
		return message{kind: source.TooLong, value: value[:min(len(value), tooLongKept)]}, true
	}
	if len(value) >= 5 && value[0] == 0 { // the wire format of a schema registry: a 4-byte schema ID follows
		if value = value[5:]; !begins(value, "{") && !begins(value, "[") {
			return message{kind: source.Binary, value: r.Value[:min(len(r.Value), tooLongKept)]}, true
		}
	}
	switch {
	case len(k.Fields) > 0 && begins(value, "["):
		return t.array(value, r), true
	case len(k.Fields) == 0 || !begins(value, "{"):
		return message{value: value}, true
	}
	rest := t.open(value, r)
	return message{before: t.buf, value: rest}, true
}

// array returns the message of a record whose value may be an array of objects, with the record's fields in each.
func (t *texter) array(value []byte, r *kgo.Record) message {
	var l feed.Line
	if l.Scan(t.keys.scanner, nil, value); !l.Array {
		return message{value: value}
	}
	t.buf = append(t.buf, '[')
	for element := range l.Messages(t.keys.scanner) {
		t.buf = append(append(t.buf, t.open(element.Text, r)...), ',')
	}
	return message{before: append(bytes.TrimSuffix(t.buf, []byte(",")), ']')}
}

// open appends the record's fields at the beginning of an object, and returns the rest of the object.
func (t *texter) open(object []byte, r *kgo.Record) (rest []byte) {
	rest = object[bytes.IndexByte(object, '{')+1:]
	if t.buf = t.fields(append(t.buf, '{'), r); begins(rest, "}") {
		t.buf = bytes.TrimSuffix(t.buf, []byte(","))
	}
	return rest
}

const space = " \t\r\n"

// begins reports whether JSON begins with a character.
func begins(text []byte, with string) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, space), []byte(with))
}

// fields appends a record's metadata as fields, each followed by a comma. What the record lacks is absent.
func (t *texter) fields(buf []byte, r *kgo.Record) []byte {
	for i := range t.kafka.Fields {
		f := &t.kafka.Fields[i]
		begin := len(buf)
		buf = append(appendString(buf, f.Name), ':')
		value := len(buf)
		switch f.Of {
		case "offset":
			buf = strconv.AppendInt(buf, r.Offset, 10)
		case "partition":
			buf = strconv.AppendInt(buf, int64(r.Partition), 10)
		case "timestamp":
			if ms := r.Timestamp.UnixMilli(); ms >= 0 {
				buf = strconv.AppendInt(buf, ms, 10)
			}
		case "topic":
			buf = appendString(buf, r.Topic)
		case "key":
			if r.Key != nil {
				buf = t.keys.appendKey(buf, r.Key, "")
			} else if f.Null {
				buf = append(buf, "null"...)
			}
		case "header":
			for _, h := range r.Headers { // the last header with the name wins
				if h.Key == f.Header {
					buf = appendString(buf[:value], string(h.Value))
				}
			}
		}
		if len(buf) == value {
			buf = buf[:begin]
			continue
		}
		buf = append(buf, ',')
	}
	return buf
}

// appendString appends a JSON string. It is invalid JSON if s is not UTF-8.
func appendString(buf []byte, s string) []byte {
	if !utf8.ValidString(s) {
		return append(append(append(buf, '"'), s...), '"')
	}
	return feed.AppendString(buf, s)
}

// A keyReader decodes the keys of records.
type keyReader struct {
	names   *feed.Names
	scanner *feed.Scanner
}

func newKeyReader() keyReader {
	names := &feed.Names{}
	return keyReader{names, feed.NewScanner(names)}
}

// appendKey appends a record's key: JSON unchanged, other text as a string. Kafka Connect's envelope is unwrapped. If
// the key is an object with the given field, only that field's value is appended.
func (k *keyReader) appendKey(buf, key []byte, field string) []byte {
	if len(key) >= 5 && key[0] == 0 && json.Valid(key[5:]) {
		key = key[5:]
	}
	fields, err := k.scanner.Scan(key)
	if err != nil && !json.Valid(key) {
		return appendString(buf, string(key))
	}
	members := feed.Line{Fields: fields}
	if payload := members.Field(k.names.Number("payload")); payload != nil && members.Field(k.names.Number("schema")) != nil {
		if key = payload.Value; field != "" {
			members.Fields, _ = k.scanner.Scan(key)
		}
	}
	if f := members.Field(k.names.Number(field)); field != "" && f != nil {
		key = f.Value
	}
	return append(buf, bytes.TrimSpace(key)...)
}
