package job

import (
	"bytes"
	"fmt"
	"hash/crc64"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/source"
)

// A Feed is what is known of a feed beside the columns of its messages. The zero
// value knows nothing.
type Feed struct {
	// Hello is what a connection begins with, to go on from a value of
	// ResumeField; "" is the beginning. nil is nothing.
	Hello       func(resume string) ([]byte, error)
	ResumeField string
	// Keepalive tells the messages that only say that the feed lives. After
	// StaleAfter of them in succession with one value of ResumeField the connection
	// is made anew; 0 is never.
	Keepalive  Match
	StaleAfter int
	// Failure tells a message by which the feed ends the run, and Words the field
	// that says why.
	Failure Match
	Words   string
	// TimeField has the time of a message: seconds since 1970, or RFC 3339.
	TimeField string
}

// resumes reports whether a source is a feed that can be asked for what came after a
// value.
func (f *Feed) resumes(name string) bool {
	return f.ResumeField != "" && f.Hello != nil && source.TraitsOf(name).Dialed
}

// heeded reports whether messages are to be looked at for more than their columns.
func (f *Feed) heeded() bool {
	return f.ResumeField != "" || f.Keepalive.Field != "" || f.Failure.Field != ""
}

// A Match is a field's text in messages of a kind; the zero value matches none.
type Match struct{ Field, Value string }

// matches reports whether a line is such a message; field is the number of m.Field.
func (m *Match) matches(l *feed.Line, field int32) bool {
	if m.Field == "" {
		return false
	}
	text, ok := l.Get(field)
	return ok && string(text) == m.Value
}

// feedNames are the numbers of the fields that a [Feed] names.
type feedNames struct{ resume, keepalive, failure, words, time int32 }

func (f *Feed) names(n *feed.Names) feedNames {
	return feedNames{n.Number(f.ResumeField), n.Number(f.Keepalive.Field), n.Number(f.Failure.Field), n.Number(f.Words), n.Number(f.TimeField)}
}

// heeding is how a feed's own words have been taken so far.
type heeding struct {
	feedMark        // of the last message with a value
	behind   string // the bad lines since that, as in Rejected
	opening  bool   // no message with a value has come on this connection
	stale    string // value of the last keepalive
	repeats  int    // keepalives in succession with that
}

// heed takes what a message says about the feed itself, and reports whether that
// is all that it says.
func (f *reader) heed(from *lane, l *feed.Line) (pass bool, err error) {
	h := &from.reading.heard
	if f.Feed.ResumeField != "" {
		if v, ok := resumeOf(l, f.feedNames.resume); ok {
			if string(v) != h.Resume {
				h.feedMark = feedMark{Resume: string(v), Before: h.behind}
			}
			h.behind, h.opening = "", false
		}
	}
	if f.Feed.Failure.matches(l, f.feedNames.failure) {
		words, ok := l.Get(f.feedNames.words)
		if !ok {
			words = l.Text
		}
		return true, fmt.Errorf("the feed says: %s", bytes.TrimSpace(words))
	}
	if !f.Feed.Keepalive.matches(l, f.feedNames.keepalive) {
		h.repeats = 0
		return false, nil
	}
	if h.Resume != h.stale {
		h.stale, h.repeats = h.Resume, 0
	}
	if h.repeats++; f.Feed.StaleAfter > 0 && h.repeats >= f.Feed.StaleAfter {
		h.repeats = 0
		from.stream.Reconnect(from.reading.conn, fmt.Errorf("%s: %d keepalives at %s %s: the feed is stale", from.name, f.Feed.StaleAfter, f.Feed.ResumeField, h.Resume))
	}
	return true, nil
}

var ecma = crc64.MakeTable(crc64.ECMA)

// maxRepeats is how many bad lines with one resume value are known again.
const maxRepeats = 64

// again reports whether a bad line came before with the resume value at hand. A feed that is
// asked to resume there sends it again, and it has no value of its own. Where
// the feed begins with the message of that value, it may also send the bad lines right before.
func (h *heeding) again(line []byte) bool {
	sum := fmt.Sprintf(" %016x", crc64.Checksum(line, ecma))
	add(&h.behind, sum)
	return h.opening && strings.Contains(h.Before, sum) || !add(&h.Rejected, sum)
}

// add adds a digest to a list, unless that has it or is full, and reports whether it is new.
func add(list *string, sum string) bool {
	if strings.Contains(*list, sum) {
		return false
	}
	if len(*list) < maxRepeats*len(sum) {
		*list += sum
	}
	return true
}

// resumeOf returns a line's resume value. An empty one is none, for it asks for the
// beginning; nor is one with control characters: it becomes a part of what the feed is
// told, where it could end the line and begin another.
func resumeOf(l *feed.Line, field int32) (v []byte, ok bool) {
	v, ok = l.Get(field)
	return v, ok && len(v) > 0 && !bytes.ContainsFunc(v, unicode.IsControl)
}

// feedTime is the time that a message names, or zero.
func feedTime(l *feed.Line, field int32) time.Time {
	text, ok := l.Get(field)
	if !ok {
		return time.Time{}
	}
	s := feed.Seconds(string(text))
	if math.IsNaN(s) {
		return time.Time{}
	}
	return time.UnixMicro(int64(s * 1e6))
}
