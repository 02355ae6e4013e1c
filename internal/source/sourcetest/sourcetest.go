// Package sourcetest is the suite that every kind of source must pass.
package sourcetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// A Feed is a source of one lane.
type Feed struct {
	// Kind is called each time the source is opened. What it returns opens the source with all of its lines.
	Kind func() source.Kind
	Spec string
}

// New makes a feed of lines, given without newlines. A Live source may have no end: it is stopped after these lines.
type New func(t *testing.T, lines ...string) Feed

// timeLimit is how long a test may take.
const timeLimit = time.Minute

// Test runs the suite for a kind of source.
func Test(t *testing.T, newFeed New) {
	for name, test := range map[string]func(*testing.T, New){
		"Names": names, "Lines": lines, "Resumes": resumes, "TooLong": tooLong, "Cancelled": cancelled, "Stopped": stopped, "Closed": closed,
		"NotBegun": notBegun, "Parts": parts, "Hello": hello,
	} {
		t.Run(name, func(t *testing.T) { test(t, newFeed) })
	}
}

// A reading is a source that a test reads.
type reading struct {
	*testing.T
	source.Source
	ctx  context.Context
	kind source.Type
	lane source.Lane // the lane that was begun
	name string      // the lane's

	lines  []string
	after  []source.Cursor // after each line
	parted bool            // some line was not whole
	ended  bool
}

// open opens a feed.
func open(t *testing.T, f Feed, o source.Options) *reading {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	t.Cleanup(cancel)
	kind := f.Kind()
	r := &reading{T: t, ctx: ctx, kind: kind.Type(f.Spec)}
	at := f.Spec
	if r.kind != source.Partition {
		var err error
		at, err = kind.NameOf(f.Spec)
		testcheck.NoError(t, err)
	}
	o.Log = logtest.New(t)
	var err error
	r.Source, err = kind.Open(ctx, []string{at}, o)
	testcheck.NoError(t, err)
	return r
}

// begin reads the first event, which offers the lane, and begins the lane at a point.
func (r *reading) begin(from source.Point) {
	r.Helper()
	e, err := r.Next(r.ctx)
	if err != nil || e.Kind != source.Opened || e.Begin == nil || e.Lane == "" {
		r.Fatalf("the first event is %+v, %v", e, err)
	}
	r.name = e.Lane
	if r.lane, err = e.Begin(r.ctx, from); err != nil && err != io.EOF {
		r.Fatal(err)
	}
}

// readAll reads to the end, or stops the source after n lines if it is live.
func (r *reading) readAll(n int) {
	r.Helper()
	for {
		if r.kind.Live() && len(r.lines) == n {
			r.Stop()
		}
		e, err := r.Next(r.ctx)
		if err == io.EOF {
			break
		}
		testcheck.NoError(r.T, err)
		r.take(&e)
	}
	if _, err := r.Next(r.ctx); err != io.EOF {
		r.Errorf("after the end: %v", err)
	}
	testcheck.NoError(r.T, r.Close())
}

// take records an event.
func (r *reading) take(e *source.Event) {
	r.Helper()
	if e.Lane != r.name || r.ended {
		r.Fatalf("an event of %q after the end: %t; the lane is %q", e.Lane, r.ended, r.name)
	}
	switch e.Kind {
	case source.Data:
		r.takeBlock(e.Block)
	case source.Barrier:
		at := source.Point{}
		if len(r.after) > 0 {
			at.Cursor = r.after[len(r.after)-1]
		}
		e.Reached(at)
	case source.Closing:
		r.ended = true
		testcheck.NoError(r.T, e.Err)
	default:
		r.Fatalf("event %+v", e)
	}
}

// takeBlock records the lines of a block, and releases it.
func (r *reading) takeBlock(b *source.Block) {
	defer b.Release()
	add := func(text []byte, end int) {
		r.lines = append(r.lines, string(text))
		r.after = append(r.after, b.CursorAfter(end))
	}
	begin := 0
	if b.Records != nil {
		for _, record := range b.Records {
			r.parted = r.parted || record.Kind == source.TooLong
			add(b.Data[begin:record.End-1], record.End)
			begin = record.End
		}
		return
	}
	if b.Oversize > 0 {
		r.parted = true
		add(b.Data, len(b.Data))
		return
	}
	for begin < len(b.Data) {
		n := bytes.IndexByte(b.Data[begin:], '\n')
		if n < 0 {
			r.Fatalf("a block ends within a line: %q", b.Data[begin:])
		}
		add(b.Data[begin:begin+n], begin+n+1)
		begin += n + 1
	}
}

// read reads a feed from a point.
func read(t *testing.T, f Feed, o source.Options, from source.Point, n int) *reading {
	t.Helper()
	r := open(t, f, o)
	r.begin(from)
	r.readAll(n)
	return r
}

// some returns lines, one of which is longer than a block.
func some() (lines []string) {
	for i := range 50 {
		lines = append(lines, fmt.Sprintf(`{"id":%d,"text":"%s"}`, i, strings.Repeat("x", i)))
	}
	return append(lines, `{"id":50,"text":"`+strings.Repeat("y", 600<<10)+`"}`, `{"id":51}`)
}

// names: a spec is found by its scheme, and the spec and the lane's name have the same type.
func names(t *testing.T, newFeed New) {
	f := newFeed(t, `{}`)
	kind := f.Kind()
	if kind.Usage == "" {
		t.Error("nothing says what its specs look like")
	}
	all := source.Kinds{{}, kind}
	if kind.Schemes == nil {
		all = source.Kinds{kind, {Schemes: []string{"other"}}}
	}
	if found := all.Of(f.Spec); found.Usage != kind.Usage {
		t.Errorf("%s is of the kind %q", f.Spec, found.Usage)
	}
	if specs, err := kind.Parse(f.Spec, false); err != nil || len(specs) != 1 || specs[0] != f.Spec {
		t.Errorf("%s becomes %q, %v", f.Spec, specs, err)
	}
	r := read(t, f, source.Options{}, source.Point{}, 1)
	if lane := kind.Type(r.name); lane != r.kind {
		t.Errorf("%s is a %s, and the lane %s a %s", f.Spec, r.kind, r.name, lane)
	}
	if catalog, ok := r.Source.(source.Catalog); r.kind == source.Partition && (!ok || !slices.Contains(catalog.Lanes(), r.name)) {
		t.Errorf("%s has not told the lane %s when it was opened", f.Spec, r.name)
	}
	if name, err := kind.NameOf(f.Spec); err != nil || name != r.name && r.kind != source.Partition {
		t.Errorf("the lane of %s is %s, not %s (%v)", f.Spec, r.name, name, err)
	}
}

// lines: each comes once, whole and in order.
func lines(t *testing.T, newFeed New) {
	want := some()
	if got := read(t, newFeed(t, want...), source.Options{}, source.Point{}, len(want)); !slices.Equal(got.lines, want) {
		t.Errorf("%d lines of %d", len(got.lines), len(want))
	}
}

// resumes: from the cursor after a line, the lines after it come. A source that cannot be rewound has no cursors.
func resumes(t *testing.T, newFeed New) {
	want := []string{`{"id":1}`, `{"id":22}`, `{"id":333}`, `{"id":4444}`}
	f := newFeed(t, want...)
	all := read(t, f, source.Options{}, source.Point{}, len(want))
	for i, at := range all.after {
		if !all.kind.Rewindable() {
			if at != "" || all.lane.At != "" {
				t.Errorf("it has the cursor %s, and cannot go back", at)
			}
			continue
		}
		if !json.Valid([]byte(at)) {
			t.Fatalf("the cursor %q is no JSON", at)
		}
		rest := read(t, f, source.Options{}, source.Point{Cursor: at}, len(want)-i-1)
		if begun := rest.lane.At; !slices.Equal(rest.lines, want[i+1:]) || begun != at {
			t.Errorf("after line %d, at %s, it begins at %s with %q", i+1, at, begun, rest.lines)
		}
	}
}

// tooLong: of a line over the limit only the beginning comes, and then the next line.
func tooLong(t *testing.T, newFeed New) {
	const most = 32 << 10
	long := `{"id":"` + strings.Repeat("x", 3*most) + `"}`
	got := read(t, newFeed(t, `{"id":1}`, long, `{"id":3}`), source.Options{MaxLine: most}, source.Point{}, 3)
	if len(got.lines) != 3 || !got.parted || !strings.HasPrefix(long, got.lines[1]) || got.lines[2] != `{"id":3}` {
		t.Errorf("%d lines, one of them too long: %t; the last %.50q", len(got.lines), got.parted, got.lines[len(got.lines)-1])
	}
}

// cancelled: Next ends with its context, and may be called again.
func cancelled(t *testing.T, newFeed New) {
	want := []string{`{"id":1}`, `{"id":2}`}
	r := open(t, newFeed(t, want...), source.Options{})
	r.begin(source.Point{})
	ended, end := context.WithCancel(r.ctx)
	end()
	if e, err := r.Next(ended); err == nil {
		r.take(&e)
	} else if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if r.readAll(len(want)); !slices.Equal(r.lines, want) {
		t.Errorf("then %q came", r.lines)
	}
}

// stopped: a source ends when it is stopped, whether its lane was begun or not. Any goroutine may stop it.
func stopped(t *testing.T, newFeed New) {
	f := newFeed(t, some()...)
	for _, begins := range []bool{false, true} {
		r := open(t, f, source.Options{})
		if begins {
			r.begin(source.Point{})
		}
		go r.Stop()
		for err := error(nil); err == nil; {
			var e source.Event
			if e, err = r.Next(r.ctx); err != nil && err != io.EOF {
				t.Error(err)
			} else if e.Block != nil {
				e.Block.Release()
			} else if e.Kind == source.Opened && err == nil {
				r.Stop() // Stop may come before Next
			}
		}
		testcheck.NoError(t, r.Close())
	}
}

// closed: a source may be closed at any time, by the goroutine that calls Next.
func closed(t *testing.T, newFeed New) {
	f := newFeed(t, some()...)
	for _, events := range []int{0, 1, 2, 3} {
		r := open(t, f, source.Options{})
		for n := range events {
			if n == 1 {
				continue
			}
			if n == 0 {
				r.begin(source.Point{})
			} else if e, err := r.Next(r.ctx); err == nil && e.Block != nil {
				e.Block.Release()
			}
		}
		testcheck.NoError(t, r.Close())
	}
}

// notBegun: a lane that was not begun has no lines.
func notBegun(t *testing.T, newFeed New) {
	r := open(t, newFeed(t, `{}`), source.Options{})
	e, err := r.Next(r.ctx)
	if err != nil || e.Kind != source.Opened {
		t.Fatal(e, err)
	}
	if r.kind.Live() { // it may never end
		time.AfterFunc(100*time.Millisecond, r.Stop)
	}
	for err == nil {
		if e, err = r.Next(r.ctx); err == nil && e.Kind == source.Data {
			t.Fatal("it has lines")
		}
	}
	if err != io.EOF {
		t.Error(err)
	}
	testcheck.NoError(t, r.Close())
}

// parts: the lane's optional functions return the right values.
func parts(t *testing.T, newFeed New) {
	want := []string{`{"id":1}`, `{"id":2}`}
	r := open(t, newFeed(t, want...), source.Options{})
	r.begin(source.Point{})
	l := &r.lane
	if l.Lag != nil && (l.Topic == "" || l.Number == "" || l.Lag() != int64(len(want)) || !l.Connected()) {
		t.Errorf("partition %s of %q lags by %d; connected: %t", l.Number, l.Topic, l.Lag(), l.Connected())
	}
	for len(r.lines) < len(want) {
		e, err := r.Next(r.ctx)
		testcheck.NoError(t, err)
		r.take(&e)
	}
	if l.Raw != nil {
		if read, size := l.Raw(); size > 0 && read != size {
			t.Errorf("%d bytes of %d were read", read, size)
		}
	}
	if l.Committed != nil {
		l.Committed(r.after[len(r.after)-1])
	}
	if l.Lag != nil && l.Lag() != 0 {
		t.Errorf("with all committed, it lags by %d", l.Lag())
	}
	if l.Drop != nil {
		l.Drop(99, errors.New("no connection has this number"))
	}
	r.readAll(len(want))
}

// hello: a connection that weir makes first asks for the rest of the feed.
func hello(t *testing.T, newFeed New) {
	f := newFeed(t, `{}`)
	if kind := f.Kind(); kind.Type(f.Spec) != source.Dialed {
		t.Skip("weir makes no connection")
	}
	asked := make(chan string, 100)
	o := source.Options{Hello: func(resume string) ([]byte, error) { asked <- resume; return []byte("hello\n"), nil }}
	read(t, f, o, source.Point{Resume: "x"}, 1)
	if got := <-asked; got != "x" {
		t.Errorf("it is asked for what follows %q", got)
	}
}
