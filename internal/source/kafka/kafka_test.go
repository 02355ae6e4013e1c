package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testkafka"
)

// read reads all events of a source, each lane from a cursor. It returns the texts by lane, and the cursor after each
// text.
func read(t *testing.T, c *testkafka.Cluster, o source.Options, k Options, from map[string]source.Cursor) (texts map[string][]string, after map[string][]source.Cursor) {
	t.Helper()
	k.UntilEnd, o.RetryFor = true, time.Minute
	s, err := New(t.Context(), "kafka://"+c.Addr()+"/t", o, k)
	testcheck.NoError(t, err)
	defer s.Close()
	texts, after = map[string][]string{}, map[string][]source.Cursor{}
	ended := map[string]bool{}
	for {
		e, err := s.Next(t.Context())
		if err == io.EOF {
			if len(ended) != len(s.Lanes()) {
				t.Errorf("ended: %v", ended)
			}
			return texts, after
		} else if err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case source.Opened:
			if _, err := e.Begin(t.Context(), source.Point{Cursor: from[e.Lane]}); err != nil {
				t.Fatal(err)
			}
		case source.Closing:
			ended[e.Lane] = true
		case source.Data:
			at := 0
			for _, r := range e.Block.Records {
				texts[e.Lane] = append(texts[e.Lane], string(e.Block.Data[at:r.End-1]))
				after[e.Lane] = append(after[e.Lane], e.Block.CursorAfter(r.End))
				at = r.End
			}
			e.Block.Release()
		}
	}
}

// Each record comes once, in the order of its partition, whatever fits into a block; and each cursor leads to the
// record after it.
func TestSource_Cursors(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(2, "t"))
	want := map[string][]string{}
	for p := range int32(2) {
		var batch []*kgo.Record
		for i := range 40 {
			text := fmt.Sprintf(`{"id":%d,"s":"%s"}`, i, strings.Repeat("x", i*i%97))
			batch = append(batch, &kgo.Record{Topic: "t", Partition: p, Value: []byte(text)})
			lane := laneName("CLUSTER", partition{"t", p})
			want[lane] = append(want[lane], text)
		}
		c.Send(c.Client(), batch...)
	}
	o, k := source.Options{Pool: source.NewPoolOf(64, 256)}, Options{Partitions: []int32{0, 1}}
	texts, after := read(t, c, o, k, nil)
	for lane := range want {
		if fmt.Sprint(texts[lane]) != fmt.Sprint(want[lane]) {
			t.Fatalf("%s: %q", lane, texts[lane])
		}
	}
	for _, i := range []int{0, 1, 20, 38, 39} {
		from := map[string]source.Cursor{}
		for lane := range want {
			from[lane] = after[lane][i]
		}
		texts, _ := read(t, c, o, k, from)
		for lane := range want {
			if fmt.Sprint(texts[lane]) != fmt.Sprint(want[lane][i+1:]) {
				t.Errorf("%s after %s: %q", lane, from[lane], texts[lane])
			}
		}
	}
}

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
		c := &catalog{nodes: nodes, cfg: &config{common: source.Options{Buffer: buffer}}}
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

// A cancelled consumer ends, even while nothing arrives.
func TestSource_Cancelled(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(1, "t"))
	s, err := New(t.Context(), "kafka://"+c.Addr()+"/t", source.Options{}, Options{Partitions: []int32{0}})
	testcheck.NoError(t, err)
	defer s.Close()
	e, err := s.Next(t.Context())
	testcheck.NoError(t, err)
	if _, err := e.Begin(t.Context(), source.Point{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// withLane returns a source with a lane.
func withLane(l *lane) *Source {
	c := &catalog{lanes: []*lane{l}}
	return &Source{catalog: c, fetcher: &fetcher{}}
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

// What was read of a revoked partition is committed before another member gets it, even if it was read to its end.
func TestRelease_RevokedAtItsEnd(t *testing.T) {
	l := &lane{name: "t", ended: true}
	s := withLane(l)
	c := &call{kind: revoked, lanes: []*lane{l}, done: make(chan struct{}, 1)}
	if s.release(l, c); len(c.done) > 0 || len(s.events) != 1 {
		t.Fatalf("%d released at once, with %d events", len(c.done), len(s.events))
	}
	if s.events[0].Reached(source.Point{}); len(c.done) != 1 {
		t.Error("it is not released when all is committed")
	}
}
