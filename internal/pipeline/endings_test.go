package pipeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// resumes sets a mapping for an envelope whose messages have a row or a resume value.
func resumes(t *testing.T, c *pipeline.Config) {
	t.Helper()
	m := &mapping.Mapping{File: "t.yaml", Unmatched: mapping.IgnoreUnmatched,
		Envelope: &envelope.Envelope{Row: []paths.Path{paths.FieldPath("record")}, Resume: paths.FieldPath("value")},
		Tables:   []mapping.Table{{Name: "t", Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 500}}}}
	var err error
	c.Plan, err = mapping.Compile(m, schema.Limits{})
	testcheck.NoError(t, err)
}

// TestRun_ResumesAfterCommit: whichever database calls fail, before or after they take effect, all rows before a resume
// value are committed when it is passed on, and all values are passed on in order.
func TestRun_ResumesAfterCommit(t *testing.T) {
	sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
		var feed strings.Builder
		var want []string
		for id := 1; id <= 100; id++ {
			fmt.Fprintf(&feed, `{"record":{"id":%d}}`+"\n", id)
			for rnd.IntN(4) == 0 { // sometimes several in a row
				want = append(want, fmt.Sprintf(`{"upto": %d, "n": %d}`, id, len(want)))
				fmt.Fprintf(&feed, `{"value":%s}`+"\n", want[len(want)-1])
			}
		}
		feed.WriteString(`{"value":null}` + "\n")
		seed := rnd.Uint64()
		both(t, func(t *testing.T, dest string) {
			reader := openSQL(t, dest)
			defer reader.Close()
			var told []string
			c := configOf(t, "-", "table")
			c.Feed, c.BatchRows, c.BatchPeriod = pipeline.Feed{}, 7, 0
			c.Resume = func(value []byte) error {
				upto, n := 0, 0
				if _, err := fmt.Sscanf(string(value), `{"upto": %d`, &upto); err != nil {
					return err
				}
				told = append(told, string(value))
				err := reader.QueryRowContext(t.Context(), fmt.Sprintf("SELECT count(*) FROM t WHERE id <= %d", upto)).Scan(&n)
				if err == nil && n != upto {
					err = fmt.Errorf("%s was told when %d rows were there", value, n)
				}
				return err
			}
			c.Kind = file.Kind(file.Options{Stdin: strings.NewReader(feed.String())})
			resumes(t, &c)
			faults := sinktest.RandomFaults(rand.New(rand.NewPCG(seed, 1)))
			if _, err := runUntil(t, c, dest, func(db sink.Sink) sink.Sink {
				return sinktest.Retry(sinktest.Faulty(db, faults), time.Minute, func(*sink.Error) {})
			}, never); err != nil {
				t.Fatal(err)
			}
			if strings.Join(told, "\n") != strings.Join(want, "\n") {
				t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
			}
		})
	})
}

// TestRun_ResumeEndsRun: an error from Resume ends the run.
func TestRun_ResumeEndsRun(t *testing.T) {
	full := errors.New("no space left")
	c := configOf(t, "-", "table")
	c.Feed = pipeline.Feed{}
	c.Resume = func([]byte) error { return full }
	c.Kind = file.Kind(file.Options{Stdin: strings.NewReader(`{"value":{}}` + "\n")})
	resumes(t, &c)
	if _, err := runToEnd(t, c, filepath.Join(t.TempDir(), "t.db"), nil); !errors.Is(err, full) {
		t.Error(err)
	}
}

// rewound runs a job that rewinds to the end of its first batch.
func rewound(t *testing.T, c pipeline.Config) *status.Progress {
	t.Helper()
	c.BatchRows = 2
	return succeeds(t, c, filepath.Join(t.TempDir(), "t.db"), nth(2, sinktest.Fault{Err: sink.ChangedError{Err: errors.New("a view was dropped")}}))
}

// TestSync_RewindKeepsCounts: values without a column are counted over all attempts of a run.
func TestSync_RewindKeepsCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, []string{`{"id":1,"x":1}`, `{"id":2,"x":1}`, `{"id":3,"x":1}`, `{"id":4,"x":1}`})
	c := configOf(t, path, "fail")
	plainTable(t, &c, mapping.Table{Rules: fold.Rules{UnknownFields: fold.IgnoreUnknown}})
	if n := rewound(t, c).Snapshot().Notes[status.Ignored]["x"]; n < 4 {
		t.Errorf("of 4 values %d were ignored", n)
	}
}

// TestRejects_RewindCountsOnce: a rejected line that is read again is not counted again.
func TestRejects_RewindCountsOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, []string{`{"id":1}`, `{"id":2}`, `{"id":3}`, `bad`, `{"id":[]}`, `{"id":7}`, `{"id":8}`, `bad`})
	for _, to := range []pipeline.Rejects{pipeline.KeepRejects, pipeline.DiscardRejects} {
		c := configOf(t, path, to)
		c.Rejects.Max = 3
		if n := rewound(t, c).Rejected(); n != 3 {
			t.Errorf("--rejects %s: 3 rejected lines are counted as %d", to, n)
		}
	}
}

// TestMap_RewindKeepsCounts: what a mapping has counted is kept after a rewind, even if only lines that are not read
// again had it.
func TestMap_RewindKeepsCounts(t *testing.T) {
	feed := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, feed, []string{`{"id":1,"of":{"a":1}}`, `{"id":2,"of":"x"}`, `{"id":3,"of":{"b":1}}`, `{"id":4,"of":{"b":1}}`})
	path, err := paths.ParsePath("of.a")
	testcheck.NoError(t, err)
	m := &mapping.Mapping{File: "t.yaml", Tables: []mapping.Table{{Name: "t", Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.IgnoreUnknown, MaxColumns: 500},
		Columns: []mapping.Column{{Name: "id", From: []mapping.Source{{From: paths.FieldPath("id")}}}, {Name: "a", From: []mapping.Source{{From: path}}}}}}}
	c := configOf(t, feed, "fail")
	c.Feed = pipeline.Feed{}
	c.Plan, err = mapping.Compile(m, schema.Limits{})
	testcheck.NoError(t, err)
	p := rewound(t, c)
	if n := p.Snapshot().Notes[status.Mismatched]; n["of"] != 1 {
		t.Errorf("values that are no object: %v, want one of \"of\"", n)
	}
}

// TestRejects_LargeOnesAreHandedOver: rejected lines do not fill the buffer, because writing them needs more memory.
func TestRejects_LargeOnesAreHandedOver(t *testing.T) {
	const line = 60_000
	feed := filepath.Join(t.TempDir(), "feed")
	testcheck.NoError(t, os.WriteFile(feed, bytes.Repeat([]byte(strings.Repeat("x", line)+"\n"), 100), 0o600))
	for _, maxLine := range []int{1 << 20, line - 1} {
		c := configOf(t, feed, "table")
		c.Source.MaxLine, c.Buffer, c.BatchPeriod = maxLine, 8<<20, time.Minute
		most, batches := int(c.Buffer/8)+line+1000, 0
		succeeds(t, c, filepath.Join(t.TempDir(), "t.db"), sinktest.Flushes(func(call sinktest.Call) (f sinktest.Fault) {
			size := 0
			for i := range call.Flush.Rejects {
				size += call.Flush.Rejects[i].Bytes()
			}
			if batches++; size > most {
				t.Errorf("a flush has %d bytes of rejects, want %d at most", size, most)
			}
			return f
		}))
		if batches < 100*line/most {
			t.Errorf("did not exercise: %d batches", batches)
		}
	}
}

// TestSync_WrittenBeforeAMessage: if what came before a message must be written first, the feed is asked to send that
// message again until it is committed, too.
func TestSync_WrittenBeforeAMessage(t *testing.T) {
	feed := []string{`{"pitr":"1","record":{"id":"a"}}`, `{"pitr":"2","op":"empty"}`, `{"pitr":"3","record":{"id":"c"}}`}
	c := configOf(t, accept(t, func(_ int, conn net.Conn) { _, _ = io.WriteString(conn, behind(feed, asked(conn))); stay(conn) }), "table")
	c.BatchPeriod = time.Minute
	var empties paths.When
	testcheck.NoError(t, empties.UnmarshalText([]byte("op=empty")))
	m := &mapping.Mapping{File: "t.yaml", Envelope: &envelope.Envelope{Row: []paths.Path{paths.FieldPath("record")}, Operations: envelope.Operations{TruncateWhen: empties}},
		Tables: []mapping.Table{{Name: "t", Key: []string{"id"}, Rules: fold.Rules{UnknownFields: fold.AddUnknown, MaxColumns: 500}}}}
	var err error
	c.Plan, err = mapping.Compile(m, schema.Limits{})
	testcheck.NoError(t, err)
	dest := filepath.Join(t.TempDir(), "t.db")
	if _, err := runUntil(t, c, dest, faulty(nth(2, sinktest.Fault{Err: errBroken})), lines(3)); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	has(t, dest, "a", ids)
	begun := time.Now()
	succeedsUntil(t, c, dest, nil, func(p *status.Progress) bool { return p.Snapshot().Lines == 2 || time.Since(begun) > 5*time.Second })
	has(t, dest, "c", ids)
}
