package kafka

import (
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/source"
)

// A lane is a partition. Only the goroutine that calls Next changes it, except for progress.
type lane struct {
	partition
	name       string // with the cluster's ID, not its brokers
	id         string // of the topic; "" if the brokers have no topic IDs
	compacted  bool
	start, end int64 // as last reported by the brokers
	until      int64 // the offset at which reading ends; -1: never

	ended  bool   // it was read up to until
	at     cursor // the next record that Next has not returned
	damage error  // why its next batch could not be read; nil: it could
	progress
}

type partition struct {
	topic  string
	number int32
}

// progress can be read by any goroutine.
type progress struct {
	last      atomic.Int64 // the end offset last seen
	committed atomic.Int64 // the offset
	owned     atomic.Bool  // it was begun, and no other member is known to own it
}

// lag returns the number of uncommitted records.
func (p *progress) lag() int64 { return max(0, p.last.Load()-p.committed.Load()) }

// raise records the lane's current end.
func (p *progress) raise(end int64) {
	for {
		last := p.last.Load()
		if end <= last || p.last.CompareAndSwap(last, end) {
			return
		}
	}
}

// A cursor identifies the next record to read.
type cursor struct {
	Offset int64  `json:"offset"`
	Epoch  int32  `json:"epoch"` // of the leader that wrote the previous record; -1: unknown
	Topic  string `json:"topic,omitempty"`
}

func (c cursor) text() source.Cursor {
	text, _ := json.Marshal(c) // a plain struct
	return source.Cursor(text)
}

// offset returns c as the client's type.
func (c cursor) offset() kgo.Offset {
	at := kgo.NewOffset().At(c.Offset)
	if c.Epoch >= 0 {
		at = at.WithEpoch(c.Epoch)
	}
	return at
}

func readCursor(c source.Cursor, l *lane) (at cursor, err error) {
	if c == "" {
		return cursor{Epoch: -1, Topic: l.id}, nil
	}
	if err := json.Unmarshal([]byte(c), &at); err != nil {
		return at, fmt.Errorf("the checkpoint of %s: %w", l.name, err)
	}
	if at.Topic == "" {
		at.Topic = l.id
	}
	return at, nil
}

// key returns the lane as TOPIC/PARTITION.
func (l *lane) key() string { return fmt.Sprintf("%s/%d", l.topic, l.number) }

// check returns an error if a lane cannot be read from a cursor.
func (l *lane) check(at cursor) error {
	switch {
	case l.id != "" && at.Topic != l.id:
		return &source.ChangedError{Name: l.name, What: "is of another topic than the one that was read before, which was deleted and recreated"}
	case at.Offset < l.start:
		return fmt.Errorf("%s: %d records after the checkpoint are lost: it is at offset %d, and the topic begins at %d (its retention has removed them; --restart reread reads again from where it begins)",
			l.name, l.start-at.Offset, at.Offset, l.start)
	case at.Offset > l.end:
		return &source.ChangedError{Name: l.name, What: fmt.Sprintf("ends at offset %d, before the checkpoint at %d: records were lost, or it was restored", l.end, at.Offset)}
	}
	return nil
}

// isAtEnd reports whether Next has returned all records before until.
func (l *lane) isAtEnd() bool { return l.until >= 0 && l.at.Offset >= l.until }
