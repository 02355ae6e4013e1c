package pipeline

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

// A Feed describes a feed's control messages and connections, not the columns of its messages.
type Feed struct {
	// Hello returns what weir sends on a new connection to resume after a value of ResumeField ("": from the
	// beginning). nil: it sends nothing.
	Hello       func(resume string) ([]byte, error)
	ResumeField string
	// Keepalive matches messages that only say that the feed is alive. After StaleAfter of them in a row with the same
	// value of ResumeField, weir reconnects. 0 is never.
	Keepalive  Match
	StaleAfter int
	// Failure matches a message that ends the run with an error. Words is the field that has the reason.
	Failure Match
	Words   string
	// TimeField has the time of a message: seconds since 1970, or RFC 3339.
	TimeField string
}

// resumes reports whether weir can ask a source for the messages after a value.
func (f *Feed) resumes(t source.Type) bool {
	return f.ResumeField != "" && f.Hello != nil && t == source.Dialed
}

// hasControl reports whether any message may be a control message.
func (f *Feed) hasControl() bool {
	return f.ResumeField != "" || f.Keepalive.Field != "" || f.Failure.Field != ""
}

// A Match matches messages whose field has a text. The zero value matches none.
type Match struct{ Field, Value string }

// matches reports whether a line matches. field is the number of m.Field.
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

// feedState is what the control messages of a feed have said so far.
type feedState struct {
	feedMark        // of the last message with a resume value
	behind   string // rejected lines since then, in the form of Rejected
	opening  bool   // no message with a resume value has come on this connection
	stale    string // resume value of the last keepalive
	repeats  int    // how many keepalives in a row had it
}

// controlMessage handles what a message says about the feed. pass is true if the message has nothing else.
func (rd *reader) controlMessage(from *lane, l *feed.Line) (pass bool, err error) {
	h := &from.reading.feed
	if rd.cfg.Feed.ResumeField != "" {
		if v, ok := resumeOf(l, rd.feedNames.resume); ok {
			if string(v) != h.Resume {
				h.feedMark = feedMark{Resume: string(v), Before: h.behind}
			}
			h.behind, h.opening = "", false
		}
	}
	if rd.cfg.Feed.Failure.matches(l, rd.feedNames.failure) {
		words, ok := l.Get(rd.feedNames.words)
		if !ok {
			words = l.Text
		}
		return true, fmt.Errorf("the feed says: %s", bytes.TrimSpace(words))
	}
	if !rd.cfg.Feed.Keepalive.matches(l, rd.feedNames.keepalive) {
		h.repeats = 0
		return false, nil
	}
	if h.Resume != h.stale {
		h.stale, h.repeats = h.Resume, 0
	}
	h.repeats++
	if drop := from.src.Drop; drop != nil && rd.cfg.Feed.StaleAfter > 0 && h.repeats >= rd.cfg.Feed.StaleAfter {
		h.repeats = 0
		drop(from.reading.conn, fmt.Errorf("%s: %d keepalives at %s %s: the feed is stale", from.name, rd.cfg.Feed.StaleAfter, rd.cfg.Feed.ResumeField, h.Resume))
	}
	return true, nil
}

var ecma = crc64.MakeTable(crc64.ECMA)

// maxRepeats is how many rejected lines are remembered for one resume value.
const maxRepeats = 64

// seen reports whether a rejected line was seen before with the current resume value. A feed that resumes there sends
// the line again, and the line has no resume value of its own. A feed that resumes with the message of that value (not
// after it) may also send the rejected lines right before.
func (h *feedState) seen(line []byte) bool {
	sum := fmt.Sprintf(" %016x", crc64.Checksum(line, ecma))
	remember(&h.behind, sum)
	return h.opening && strings.Contains(h.Before, sum) || !remember(&h.Rejected, sum)
}

// remember adds a digest to a list, unless the list contains it or is full. It reports whether the digest is new.
func remember(list *string, sum string) bool {
	if strings.Contains(*list, sum) {
		return false
	}
	if len(*list) < maxRepeats*len(sum) {
		*list += sum
	}
	return true
}

// resumeOf returns a line's resume value. An empty value does not count, because it asks for the beginning. Nor does
// one with control characters: weir sends it to the feed, where it could end the line and begin another.
func resumeOf(l *feed.Line, field int32) (v []byte, ok bool) {
	v, ok = l.Get(field)
	return v, ok && len(v) > 0 && !bytes.ContainsFunc(v, unicode.IsControl)
}

// feedTime returns the time in a field of a message, or the zero time.
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
