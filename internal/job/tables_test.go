package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/foldtest"
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

// routedFeed makes messages for two tables, some of which are none.
func routedFeed(r *rand.Rand, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		var fields []string
		for _, table := range twoTables {
			if r.IntN(3) == 0 {
				continue
			}
			if r.IntN(20) > 0 { // else the table rejects the message
				fields = append(fields, fmt.Sprintf(`"%s.id":"%d"`, table, r.IntN(n/8+1)))
			}
			if r.IntN(8) == 0 {
				fields = append(fields, fmt.Sprintf(`"%s.op":"delete"`, table))
			}
			for range 1 + r.IntN(3) {
				c := r.IntN(8)
				v, _ := json.Marshal(randomValue(r, c))
				fields = append(fields, fmt.Sprintf(`"%s.c %d":%s`, table, c, v))
			}
		}
		if lines[i] = "{" + strings.Join(fields, ",") + "}"; r.IntN(20) == 0 {
			lines[i] = "nonsense"
		}
	}
	return lines
}

// plainTables are the tables that such messages make, and how many of these are bad.
func plainTables(t *testing.T, lines []string) (want map[string]*foldtest.Table, bad int) {
	want = map[string]*foldtest.Table{}
	for _, table := range twoTables {
		want[table] = foldtest.NewTable(foldtest.Rules{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 500}, foldtest.Limits{})
	}
	for _, line := range lines {
		var fields map[string]json.RawMessage
		if json.Unmarshal([]byte(line), &fields) != nil {
			bad++
			continue
		}
		of := map[string]map[string]json.RawMessage{}
		for name, value := range fields {
			table, field, _ := strings.Cut(name, ".")
			if of[table] == nil {
				of[table] = map[string]json.RawMessage{}
			}
			of[table][field] = value
		}
		keyless := false
		for _, row := range of {
			keyless = keyless || row["id"] == nil
		}
		if keyless {
			bad++
			continue
		}
		for table, row := range of {
			text, err := json.Marshal(row)
			if err == nil {
				err = want[table].Apply(text)
			}
			testcheck.NoError(t, err)
		}
	}
	return want, bad
}

func compareTables(t *testing.T, dest string, want map[string]*foldtest.Table, bad int) {
	t.Helper()
	for table, fold := range want {
		compareTable(t, dest, table, fold)
	}
	if n := query(t, dest, "SELECT count(*) || ' ' || count(DISTINCT source || line) FROM weir_rejects"); n != fmt.Sprint(bad, " ", bad) {
		t.Errorf("rejected lines, and different ones: %s, want %d", n, bad)
	}
}

// TestTables_RunsThatEndAnywhere: runs whose flushes fail, before they do something or after,
// end, and the next one resumes: both tables are the fold, and each bad line is kept once.
func TestTables_RunsThatEndAnywhere(t *testing.T) {
	sinktest.Seeds(t, 3, func(t *testing.T, rnd *rand.Rand) {
		lines := routedFeed(rnd, 300)
		path := filepath.Join(t.TempDir(), "feed.jsonl")
		write(t, path, lines)
		want, bad := plainTables(t, lines)
		for kind, dest := range destinations(t) {
			t.Run(kind, func(t *testing.T) {
				end, ended := errors.New("the run ends here"), 0
				for {
					at := sinktest.Moment(rnd.IntN(3))
					_, err := runToEnd(t, tablesConfig(t, path, twoTables...), dest, sinktest.Flushes(func(c sinktest.Call) (f sinktest.Fault) {
						if c.N == 3 {
							f.At, f.Err = at, end
						}
						return f
					}))
					if err == nil {
						break
					} else if !errors.Is(err, end) {
						t.Fatal(err)
					}
					ended++
				}
				if ended < 3 {
					t.Errorf("did not exercise: %d runs ended", ended)
				}
				compareTables(t, dest, want, bad)
			})
		}
	})
}

// TestTables_FaultyDatabase: whichever calls fail within a run, of several files, before they do something or after.
func TestTables_FaultyDatabase(t *testing.T) {
	sinktest.Seeds(t, 4, func(t *testing.T, rnd *rand.Rand) {
		lines := routedFeed(rnd, 300)
		c := tablesConfig(t, "", twoTables...)
		c.Sources = nil
		for lines := range slices.Chunk(lines, 100) {
			c.Sources = append(c.Sources, filepath.Join(t.TempDir(), "feed.jsonl"))
			write(t, c.Sources[len(c.Sources)-1], lines)
		}
		want, bad := plainTables(t, lines)
		seed := rnd.Uint64()
		for kind, dest := range destinations(t) {
			t.Run(kind, func(t *testing.T) {
				db := openSink(t, dest)
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
				compareTables(t, dest, want, bad)
			})
		}
	})
}

// TestTables_AgainChangesNothing folds the whole feed on top of itself.
func TestTables_AgainChangesNothing(t *testing.T) {
	sinktest.Seeds(t, 5, func(t *testing.T, rnd *rand.Rand) {
		for kind, dest := range destinations(t) {
			t.Run(kind, func(t *testing.T) {
				c := tablesConfig(t, fillTwoTables(t, dest, routedFeed(rnd, 300)...), twoTables...)
				c.FromStart, c.BatchRows = true, 1000
				p, err := runToEnd(t, c, dest, nil)
				if s := p.Snapshot(); err != nil || s.Lines != 300 || s.Total().Inserted+s.Total().Updated+s.Total().Deleted != 0 {
					t.Errorf("%d lines were read again, and %+v written: %v", s.Lines, s.Total(), err)
				}
				c.FromStart = false
				if p, err := runToEnd(t, c, dest, nil); err != nil || p.Snapshot().Lines != 0 {
					t.Errorf("a file that is done was read again: %d lines, %v", p.Snapshot().Lines, err)
				}
			})
		}
	})
}

// fillTwoTables runs a feed of lines into the two tables, and returns its path.
func fillTwoTables(t *testing.T, dest string, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, lines)
	succeeds(t, tablesConfig(t, path, twoTables...), dest, nil)
	return path
}

// TestTables_Rebuild empties both tables and reads from the start.
func TestTables_Rebuild(t *testing.T) {
	lines := routedFeed(rand.New(rand.NewPCG(1, 0)), 200)
	for kind, dest := range destinations(t) {
		t.Run(kind, func(t *testing.T) {
			path := fillTwoTables(t, dest, append(slices.Clone(lines), `{"id":"gone","a.x":1,"b.x":1}`)...)
			write(t, path, lines)
			want, bad := plainTables(t, lines)
			c := tablesConfig(t, path, twoTables...)
			c.Rebuild = true
			succeeds(t, c, dest, nil)
			compareTables(t, dest, want, bad)
		})
	}
}

// TestTables_OneJobIsForOneSetOfTables: other tables are another job's, unless it accepts
// that there are more of them.
func TestTables_OneJobIsForOneSetOfTables(t *testing.T) {
	for kind, dest := range destinations(t) {
		t.Run(kind, func(t *testing.T) {
			path := fillTwoTables(t, dest, `{"id":1,"a.x":1,"b.x":1,"c.x":1}`)
			for _, other := range [][]string{{"c", "d"}, {"a"}, {"a", "b", "c"}} {
				_, err := runToEnd(t, tablesConfig(t, path, other...), dest, nil)
				if !errors.As(err, new(job.SettingsError)) {
					t.Errorf("a run into %q: %v", other, err)
				}
			}
			write(t, path, []string{`{"id":1,"a.x":1,"b.x":1,"c.x":1}`, `{"id":2,"a.x":2,"b.x":2,"c.x":2}`})
			c := tablesConfig(t, path, "a", "b", "c")
			c.AcceptSettings = true
			succeeds(t, c, dest, nil)
			if got := query(t, dest, "SELECT (SELECT count(*) FROM a) || ' ' || (SELECT count(*) FROM b) || ' ' || (SELECT count(*) FROM c)"); got != "2 2 1" {
				t.Errorf("the tables have %s rows", got)
			}
			// Their order says nothing of what they are.
			for _, order := range [][]string{{"a", "b", "c"}, {"b", "c", "a"}} {
				if _, err := runToEnd(t, tablesConfig(t, path, order...), dest, nil); err != nil {
					t.Errorf("the next run, into %q: %v", order, err)
				}
			}
			execSQL(t, dest, "DROP TABLE b")
			if _, err := runToEnd(t, tablesConfig(t, path, "a", "b", "c"), dest, nil); err == nil || !strings.Contains(err.Error(), `the table "b" of this checkpoint`) {
				t.Errorf("without the table: %v", err)
			}
			execSQL(t, dest, "CREATE TABLE b (id TEXT PRIMARY KEY, x TEXT)")
			if _, err := runToEnd(t, tablesConfig(t, path, "a", "b", "c"), dest, nil); err == nil || !strings.Contains(err.Error(), `table "b" is not as this checkpoint`) {
				t.Errorf("with another one: %v", err)
			}
		})
	}
}

// TestTables_Fold folds a feed without a database.
func TestTables_Fold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	testcheck.NoError(t, os.WriteFile(path, []byte("{\"id\":1,\"a.x\":1,\"b.x\":1}\n{\"id\":2,\"b.x\":1}\n"), 0o600))
	var rows []int
	err := job.Fold(context.Background(), tablesConfig(t, path, twoTables...), []schema.Table{{Name: "a"}, {Name: "b"}}, sink.Caps{Columns: 100}, progress.New(twoTables...), func(f *sink.Flush) error {
		for _, b := range f.Batches {
			rows = append(rows, b.Rows())
		}
		return nil
	}, nil)
	if err != nil || !slices.Equal(rows, []int{1, 2}) {
		t.Errorf("%v rows, %v", rows, err)
	}
}
