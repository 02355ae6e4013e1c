package kafka

import (
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func TestLane_Check(t *testing.T) {
	l := &lane{name: "kafka://C/t/0", id: "A", start: 10, end: 20}
	f := func(at cursor, want string) {
		t.Helper()
		err := l.check(at)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", at, err, want)
		}
	}
	f(cursor{Offset: 10, Topic: "A"}, "")
	f(cursor{Offset: 20, Topic: "A"}, "")
	f(cursor{Offset: 7, Topic: "A"}, "3 records after the checkpoint are lost")
	f(cursor{Offset: 21, Topic: "A"}, "ends at offset 20, before the checkpoint at 21")
	f(cursor{Offset: 15, Topic: "B"}, "deleted and recreated")
	l.id = "" // brokers without topic IDs
	f(cursor{Offset: 15, Topic: "B"}, "")
}

// All brokers share a part of the buffer.
func TestCatalog_FetchBytes(t *testing.T) {
	f := func(buffer int64, nodes int, want int32) {
		t.Helper()
		c := &catalog{nodes: nodes, brokers: &brokers{cfg: &config{common: source.Options{Buffer: buffer}}}}
		if got := c.fetchBytes(); got != want {
			t.Errorf("%d brokers, a buffer of %d: %d, want %d", nodes, buffer, got, want)
		}
	}
	f(256<<20, 1, 8<<20)
	f(256<<20, 4, 4<<20)
	f(16<<20, 1, 1<<20)
	f(16<<20, 100, 256<<10)
	f(0, 0, 8<<20)
}

// TestAppendKey checks the keys in testdata/keys.txtar.
func TestAppendKey(t *testing.T) {
	keys := newKeyReader()
	testcheck.GoldenLines(t, "testdata/keys.txtar", func(t *testing.T, _, given string) string {
		field, quoted, _ := strings.Cut(given, " ")
		key, err := strconv.Unquote(quoted)
		testcheck.NoError(t, err)
		return strings.ReplaceAll(string(keys.appendKey(nil, []byte(key), strings.TrimPrefix(field, "(none)"))), "\xff", `\xff`)
	})
}

// withLane returns a source with a lane.
func withLane(l *lane) *Source {
	return &Source{catalog: &catalog{lanes: []*lane{l}}}
}

// Records of a lost partition may already be the next member's, even if it was read to its end.
func TestRelease_Lost(t *testing.T) {
	l := &lane{name: "t", ended: true}
	l.owned.Store(true)
	s := withLane(l)
	if s.release(l, &call{kind: lost}); l.owned.Load() || len(s.events) > 0 {
		t.Errorf("it is owned: %v, with %d events", l.owned.Load(), len(s.events))
	}
}
