package job_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
)

// These tests are about runs into several tables, with messages as for a [sinktest.Router].

var twoTables = []string{"a", "b"}

// tablesConfig is that of a run of a feed into tables.
func tablesConfig(t *testing.T, path string, tables ...string) job.Config {
	rejects, err := job.ParseRejects("table")
	if err != nil {
		t.Fatal(err)
	}
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
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return want, bad
}

func compareTables(t *testing.T, dest string, want map[string]*foldtest.Table, bad int) {
	t.Helper()
	for table, fold := range want {
		compareTable(t, dest, table, fold)
	}
	if n := query(t, dest, "SELECT count(*) || ' ' || count(DISTINCT line) FROM weir_rejects"); n != fmt.Sprint(bad, " ", bad) {
		t.Errorf("rejected lines, and different ones: %s, want %d", n, bad)
	}
}

// runTables does one run.
func runTables(t *testing.T, dest string, c job.Config, faults sinktest.Faults) (*progress.Progress, error) {
	t.Helper()
	db := openSink(t, dest)
	defer db.Close()
	claims := openClaims(t, dest)
	defer claims.Close()
	var names []string
	for i := range c.Tables {
		names = append(names, c.Tables[i].Name)
	}
	p := progress.New(names...)
	if faults != nil {
		db = sinktest.Faulty(db, faults)
	}
	return p, job.Run(t.Context(), c, db, claims, p)
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
					_, err := runTables(t, dest, tablesConfig(t, path, twoTables...), sinktest.Flushes(func(c sinktest.Call) (f sinktest.Fault) {
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

// TestTables_FaultyDatabase: whichever calls fail within a run.
func TestTables_FaultyDatabase(t *testing.T) {
	sinktest.Seeds(t, 2, func(t *testing.T, rnd *rand.Rand) {
		lines := routedFeed(rnd, 300)
		path := filepath.Join(t.TempDir(), "feed.jsonl")
		write(t, path, lines)
		want, bad := plainTables(t, lines)
		seed := rnd.Uint64()
		for kind, dest := range destinations(t) {
			t.Run(kind, func(t *testing.T) {
				db := openSink(t, dest)
				defer db.Close()
				faults := sinktest.RandomFaults(rand.New(rand.NewPCG(seed, 1)))
				err := job.Run(t.Context(), tablesConfig(t, path, twoTables...), sink.Retry(sinktest.Faulty(db, faults), time.Minute, func(*sink.Error) {}),
					sink.RetryClaims(sinktest.FaultyClaims(openClaims(t, dest), faults), time.Minute, func(*sink.Error) {}), progress.New(twoTables...))
				if err != nil {
					t.Fatal(err)
				}
				compareTables(t, dest, want, bad)
			})
		}
	})
}

// TestTables_CountsAndRejects: lines of stdin are counted by table, and a line that a table
// rejects is that table's.
func TestTables_CountsAndRejects(t *testing.T) {
	for kind, dest := range destinations(t) {
		t.Run(kind, func(t *testing.T) {
			c := tablesConfig(t, "-", twoTables...)
			c.Source.Stdin = strings.NewReader(`{"id":1,"a.x":1,"b.x":1}
{"a.id":2,"a.x":1,"b.x":2}
{"id":1,"a.x":2}
nonsense
{"other":1}
`)
			p, err := runTables(t, dest, c, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := p.Snapshot()
			a, b := s.Tables[0], s.Tables[1]
			if a.Messages != 2 || a.Inserted != 1 || a.Coalesced != 1 || b.Messages != 1 || b.Inserted != 1 || b.Rejected[feed.BadKey] != 1 || a.Rejected[feed.BadKey] != 0 || s.Unassigned[feed.NotJSON] != 1 {
				t.Errorf("%+v", s)
			}
			if got := query(t, dest, `SELECT reason FROM weir_rejects WHERE line = 2`); !strings.Contains(got, `table "b": the key field "id" is missing`) {
				t.Errorf("rejected: %s", got)
			}
		})
	}
}

// fillTwoTables runs a feed of lines into the two tables, and returns its path.
func fillTwoTables(t *testing.T, dest string, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, lines)
	if _, err := runTables(t, dest, tablesConfig(t, path, twoTables...), nil); err != nil {
		t.Fatal(err)
	}
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
			if _, err := runTables(t, dest, c, nil); err != nil {
				t.Fatal(err)
			}
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
				_, err := runTables(t, dest, tablesConfig(t, path, other...), nil)
				if !errors.As(err, new(job.SettingsError)) {
					t.Errorf("a run into %q: %v", other, err)
				}
			}
			write(t, path, []string{`{"id":1,"a.x":1,"b.x":1,"c.x":1}`, `{"id":2,"a.x":2,"b.x":2,"c.x":2}`})
			c := tablesConfig(t, path, "a", "b", "c")
			c.AcceptSettings = true
			if _, err := runTables(t, dest, c, nil); err != nil {
				t.Fatal(err)
			}
			if got := query(t, dest, "SELECT (SELECT count(*) FROM a) || ' ' || (SELECT count(*) FROM b) || ' ' || (SELECT count(*) FROM c)"); got != "2 2 1" {
				t.Errorf("the tables have %s rows", got)
			}
			if _, err := runTables(t, dest, tablesConfig(t, path, "a", "b", "c"), nil); err != nil {
				t.Errorf("the next run: %v", err)
			}
		})
	}
}

// TestTables_InAnotherOrder: their order, and where a new one stands among them, says nothing of
// what they are.
func TestTables_InAnotherOrder(t *testing.T) {
	for kind, dest := range destinations(t) {
		t.Run(kind, func(t *testing.T) {
			path := fillTwoTables(t, dest, `{"id":1,"a.x":1,"b.x":1,"c.x":1}`)
			for i, order := range [][]string{{"b", "a"}, {"b", "c", "a"}} {
				c := tablesConfig(t, path, order...)
				c.AcceptSettings = i > 0
				if _, err := runTables(t, dest, c, nil); err != nil {
					t.Errorf("%q: %v", order, err)
				}
			}
		})
	}
}

// TestTables_AnotherTableThanTheCheckpoints: it is named.
func TestTables_AnotherTableThanTheCheckpoints(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "t.db")
	path := fillTwoTables(t, dest, `{"id":1,"a.x":1,"b.x":1}`)
	execute(t, dest, "DROP TABLE b")
	_, err := runTables(t, dest, tablesConfig(t, path, twoTables...), nil)
	if err == nil || !strings.Contains(err.Error(), `the table "b" of this checkpoint`) {
		t.Errorf("without the table: %v", err)
	}
	execute(t, dest, "CREATE TABLE b (id TEXT PRIMARY KEY, x)")
	_, err = runTables(t, dest, tablesConfig(t, path, twoTables...), nil)
	if err == nil || !strings.Contains(err.Error(), `table "b" is not as this checkpoint`) {
		t.Errorf("with another one: %v", err)
	}
}

// TestTables_Fold folds a feed without a database.
func TestTables_Fold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	if err := os.WriteFile(path, []byte("{\"id\":1,\"a.x\":1,\"b.x\":1}\n{\"id\":2,\"b.x\":1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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

// execute runs a statement in an SQLite file as another program does.
func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}
