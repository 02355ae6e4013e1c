package job_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
)

// resumes has a config map messages of an envelope, with a row or a value from which the source resumes.
func resumes(t *testing.T, c *job.Config) {
	t.Helper()
	m := &mapping.Mapping{File: "t.yaml", Unmatched: mapping.IgnoreUnmatched,
		Envelope: &mapping.Envelope{Row: []mapping.Path{mapping.FieldPath("record")}, Resume: mapping.FieldPath("value")},
		Tables:   []mapping.Table{{Name: "t", Key: []string{"id"}, Rest: fold.AddColumns, MaxColumns: 500}}}
	testcheck.NoError(t, c.Map(m, nil, schema.Limits{}))
}

// TestRun_ResumesAfterCommit: whichever calls of the database fail, before they do something or after, all
// rows before a value from which the source resumes are there when it is told, and all are told in order.
func TestRun_ResumesAfterCommit(t *testing.T) {
	sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
		var feed strings.Builder
		var want []string
		for id := 1; id <= 100; id++ {
			fmt.Fprintf(&feed, `{"record":{"id":%d}}`+"\n", id)
			for rnd.IntN(4) == 0 { // also one behind the other
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
			c.Feed, c.BatchRows, c.BatchPeriod = job.Feed{}, 7, 0
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
			c.Source.Stdin = strings.NewReader(feed.String())
			resumes(t, &c)
			faults := sinktest.RandomFaults(rand.New(rand.NewPCG(seed, 1)))
			if _, err := runUntil(t, c, dest, func(db sink.Sink) sink.Sink {
				return sink.Retry(sinktest.Faulty(db, faults), time.Minute, func(*sink.Error) {})
			}, never); err != nil {
				t.Fatal(err)
			}
			if strings.Join(told, "\n") != strings.Join(want, "\n") {
				t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
			}
		})
	})
}

// TestRun_ResumeEndsRun: a value that cannot be told ends the run.
func TestRun_ResumeEndsRun(t *testing.T) {
	full := errors.New("no space left")
	c := configOf(t, "-", "table")
	c.Feed = job.Feed{}
	c.Resume = func([]byte) error { return full }
	c.Source.Stdin = strings.NewReader(`{"value":{}}` + "\n")
	resumes(t, &c)
	if _, err := runToEnd(t, c, filepath.Join(t.TempDir(), "t.db"), nil); !errors.Is(err, full) {
		t.Error(err)
	}
}

// TestSync_RewindKeepsCounts: values without a column are counted over all attempts of a run.
func TestSync_RewindKeepsCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, []string{`{"id":1,"x":1}`, `{"id":2,"x":1}`, `{"id":3,"x":1}`, `{"id":4,"x":1}`})
	c := configOf(t, path, "fail")
	c.BatchRows, c.Tables[0].Fold.Columns = 2, fold.IgnoreColumns
	p := succeeds(t, c, filepath.Join(t.TempDir(), "t.db"), nth(2, sinktest.Fault{Err: sink.ErrChanged{Err: errors.New("a view was dropped")}}))
	if n := p.Ignored()["x"]; n < 4 {
		t.Errorf("of 4 values %d were ignored", n)
	}
}

// TestMap_RewindKeepsCounts: what a mapping's paths met, and what was no object where they step into one, lasts
// over a rewind, also if only lines that are not read again had it.
func TestMap_RewindKeepsCounts(t *testing.T) {
	feed := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, feed, []string{`{"id":1,"of":{"a":1}}`, `{"id":2,"of":"x"}`, `{"id":3,"of":{"b":1}}`, `{"id":4,"of":{"b":1}}`})
	path, err := mapping.ParsePath("of.a")
	testcheck.NoError(t, err)
	m := &mapping.Mapping{File: "t.yaml", Tables: []mapping.Table{{Name: "t", Key: []string{"id"}, MaxColumns: 500, Rest: fold.IgnoreColumns,
		Columns: []mapping.Column{{Name: "id", From: []mapping.Source{{From: mapping.FieldPath("id")}}}, {Name: "a", From: []mapping.Source{{From: path}}}}}}}
	c := configOf(t, feed, "fail")
	c.Feed, c.BatchRows = job.Feed{}, 2
	testcheck.NoError(t, c.Map(m, nil, schema.Limits{}))
	p := succeeds(t, c, filepath.Join(t.TempDir(), "t.db"), nth(2, sinktest.Fault{Err: sink.ErrChanged{Err: errors.New("a view was dropped")}}))
	if n := p.Snapshot().Mismatches; n["of"] != 1 {
		t.Errorf("values that are no object: %v, want one of \"of\"", n)
	}
	if unmet := p.Unmet(); len(unmet) > 0 {
		t.Errorf("paths that no message has had: %v, but line 1 had them", unmet)
	}
}
