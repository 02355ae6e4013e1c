package job_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
)

// These tests are about runs into several tables, with messages as for a [sinktest.Router].

var twoTables = []string{"a", "b"}

// tablesConfig is that of a run of a feed into tables.
func tablesConfig(t *testing.T, path string, tables ...string) job.Config {
	rejects, err := job.ParseRejects("table")
	testcheck.NoError(t, err)
	o := fold.Options{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 500}
	c := job.Config{Sources: []string{path}, Job: "t", BatchRows: 20, Buffer: 1 << 24, Rejects: rejects, MaxRejects: 1 << 30, Log: logtest.New(t)}
	var options []fold.Options
	for _, name := range tables {
		c.Tables, options = append(c.Tables, job.Table{Name: name, Fold: o}), append(options, o)
	}
	c.NewMapper = func(names *feed.Names, _ schema.Limits) (job.Mapper, error) {
		return sinktest.NewRouter(names, tables, options), nil
	}
	return c
}

// A routed feed is of messages for the two tables, some of which are none.
type routed struct {
	lines []string
	rows  map[string]map[string][2]string // by table and id
	bad   int                             // messages
}

func newRouted(r *rand.Rand, n int) *routed {
	feed := &routed{rows: map[string]map[string][2]string{"a": {}, "b": {}}}
	for i := range n {
		var fields []string
		var changes []func()
		bad := false
		for _, table := range twoTables {
			if r.IntN(3) == 0 {
				continue
			}
			id, rows, c := fmt.Sprintf("%04d", r.IntN(n/8+1)), feed.rows[table], r.IntN(2)
			if r.IntN(20) == 0 { // the table rejects the message
				bad = true
			} else {
				fields = append(fields, fmt.Sprintf(`"%s.id":%q`, table, id))
			}
			if r.IntN(8) == 0 {
				fields = append(fields, fmt.Sprintf(`"%s.op":"delete"`, table))
				changes = append(changes, func() { delete(rows, id) })
			} else {
				value := fmt.Sprint(i)
				if c == 1 || i > n/2 { // c0 is a column of integers at first
					value = `"` + value + `"`
				}
				fields = append(fields, fmt.Sprintf(`"%s.c%d":%s`, table, c, value))
				changes = append(changes, func() {
					row := rows[id]
					row[c] = fmt.Sprint(i)
					rows[id] = row
				})
			}
		}
		line := "{" + strings.Join(fields, ",") + "}"
		if r.IntN(20) == 0 {
			line, bad = "nonsense", true
		}
		if feed.lines = append(feed.lines, line); bad {
			feed.bad++
			continue
		}
		for _, change := range changes {
			change()
		}
	}
	return feed
}

// applied demands that the tables be what the feed makes of them, and that each bad line be kept once.
func (f *routed) applied(t *testing.T, dest string) {
	t.Helper()
	for table, rows := range f.rows {
		var want []string
		for _, id := range slices.Sorted(maps.Keys(rows)) {
			want = append(want, id+" "+rows[id][0]+" "+rows[id][1])
		}
		has(t, dest, strings.Join(want, ", "), "SELECT string_agg(id || ' ' || coalesce(c0, '') || ' ' || coalesce(c1, ''), ', ' ORDER BY id) FROM "+table)
	}
	has(t, dest, fmt.Sprint(f.bad, " ", f.bad), "SELECT count(*) || ' ' || count(DISTINCT source || line) FROM weir_rejects")
}

// TestTables_FaultyDatabase: whichever calls fail within a run, of several files, before they do something or after.
func TestTables_FaultyDatabase(t *testing.T) {
	sinktest.Seeds(t, 4, func(t *testing.T, rnd *rand.Rand) {
		feed := newRouted(rnd, 300)
		c := tablesConfig(t, "", twoTables...)
		c.Sources = nil
		for lines := range slices.Chunk(feed.lines, 100) {
			c.Sources = append(c.Sources, filepath.Join(t.TempDir(), "feed.jsonl"))
			write(t, c.Sources[len(c.Sources)-1], lines)
		}
		seed := rnd.Uint64()
		both(t, func(t *testing.T, dest string) {
			db := openSink(t, dest, sink.Off)
			defer db.Close()
			var failed atomic.Int64
			faults, onRetry := sinktest.RandomFaults(rand.New(rand.NewPCG(seed, 1))), func(*sink.Error) { failed.Add(1) }
			if err := job.Run(t.Context(), c, sink.Retry(sinktest.Faulty(db, faults), time.Minute, onRetry),
				sink.RetryClaims(sinktest.FaultyClaims(openClaims(t, dest), faults), time.Minute, onRetry), progress.New(twoTables...)); err != nil {
				t.Fatal(err)
			}
			if failed.Load() == 0 {
				t.Error("did not exercise: no call failed")
			}
			feed.applied(t, dest)
		})
	})
}

// TestTables_ReadAgain: the whole feed on top of itself changes nothing, a file that is done is not read, and --rebuild
// leaves nothing of a feed before.
func TestTables_ReadAgain(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 0))
	both(t, func(t *testing.T, dest string) {
		c := tablesConfig(t, filepath.Join(t.TempDir(), "feed.jsonl"), twoTables...)
		fill := func(lines ...string) *progress.Progress {
			write(t, c.Sources[0], lines)
			return succeeds(t, c, dest, nil)
		}
		before := newRouted(rnd, 300)
		fill(before.lines...)
		c.FromStart, c.BatchRows = true, 1000
		if s := fill(before.lines...).Snapshot(); s.Lines != 300 || s.Total().Inserted+s.Total().Updated+s.Total().Deleted != 0 {
			t.Errorf("%d lines were read again, and %+v written", s.Lines, s.Total())
		}
		c.FromStart = false
		if s := succeeds(t, c, dest, nil).Snapshot(); s.Lines != 0 {
			t.Errorf("a file that is done was read again: %d lines", s.Lines)
		}
		c.Rebuild = true
		feed := newRouted(rnd, 200)
		fill(feed.lines...)
		feed.applied(t, dest)
	})
}

// TestTables_OneJobIsForOneSetOfTables: other tables are another job's, unless it accepts
// that there are more of them. Their order says nothing of what they are.
func TestTables_OneJobIsForOneSetOfTables(t *testing.T) {
	both(t, func(t *testing.T, dest string) {
		path := filepath.Join(t.TempDir(), "feed.jsonl")
		run := func(accepts bool, tables ...string) error {
			c := tablesConfig(t, path, tables...)
			c.AcceptSettings = accepts
			_, err := runToEnd(t, c, dest, nil)
			return err
		}
		lines := []string{`{"id":1,"a.x":1,"b.x":1,"c.x":1}`, `{"id":2,"a.x":2,"b.x":2,"c.x":2}`}
		write(t, path, lines[:1])
		testcheck.NoError(t, run(false, twoTables...))
		for _, other := range [][]string{{"c", "d"}, {"a"}, {"a", "b", "c"}} {
			if err := run(false, other...); !errors.As(err, new(job.SettingsError)) {
				t.Errorf("a run into %q: %v", other, err)
			}
		}
		write(t, path, lines)
		if err := errors.Join(run(true, "a", "b", "c"), run(false, "a", "b", "c"), run(false, "b", "c", "a")); err != nil {
			t.Error(err)
		}
		has(t, dest, "2 2 1", "SELECT (SELECT count(*) FROM a) || ' ' || (SELECT count(*) FROM b) || ' ' || (SELECT count(*) FROM c)")
	})
}
