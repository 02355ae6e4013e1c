package sqlite_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func addColumns(o *fold.Options) { o.UnknownFields = fold.AddUnknown }

// TestWiden_TableOfOthers: columns that weir added to a table of others are widened without changing anything else in
// the table, and without firing its triggers.
func TestWiden_TableOfOthers(t *testing.T) {
	for _, strict := range []string{"", " STRICT"} {
		f := tempFile(t, "CREATE TABLE parent (id INTEGER PRIMARY KEY)", "CREATE TABLE log (what TEXT)")
		f.Exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE DEFAULT 'none' CHECK (a <> 'bad'), p INTEGER REFERENCES parent (id), twice TEXT AS (a || a))"+strict)
		f.Exec(t, "CREATE TRIGGER up AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (old.id); END")
		f.Exec(t, "CREATE INDEX by_a ON t (a) WHERE a > 'b'")
		f.Exec(t, "CREATE VIEW v AS SELECT id, a FROM t")
		f.Exec(t, "INSERT INTO t (id, a) VALUES (0, 'theirs')")
		r := sinktest.Begin(t, f, addColumns)
		r.Flush(`{"id":1,"b":true,"r":0.1}`, `{"id":2,"b":false,"r":1e23,"i":7}`)
		f.Exec(t, "CREATE INDEX by_b ON t (b)")
		f.Exec(t, "CREATE VIEW w AS SELECT b FROM t WHERE r > 1")
		objects := "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'weir%' AND name NOT LIKE 'sqlite%' ORDER BY name"
		before := fmt.Sprint(f.Query(t, objects))
		r.Flush(`{"id":3,"b":"x","r":"x","i":0.5}`)
		r.End()
		r = sinktest.Begin(t, f, addColumns)
		r.Flush(`{"id":4,"i":12345678901234567890.5}`, `{"id":5,"i":null}`)
		if after := fmt.Sprint(f.Query(t, objects)); after != before {
			t.Errorf("the schema was\n%s\nand is\n%s", before, after)
		}
		sinktest.Expect(t, f, "SELECT id, a, CAST(b AS TEXT), r, CAST(i AS TEXT) FROM t ORDER BY id",
			"0|theirs|NULL|NULL|NULL", "1|none|true|0.1|NULL", "2|none|false|1e+23|7", "3|none|x|x|0.5", "4|none|NULL|NULL|12345678901234567890.5", "5|none|NULL|NULL|NULL")
		sinktest.Expect(t, f, "SELECT count(*) FROM log", "0")
		r.Flush(`{"id":1,"b":"y"}`)
		sinktest.Expect(t, f, "SELECT what FROM log", "1")
		sinktest.Expect(t, f, "PRAGMA integrity_check", "ok")
	}
}

// TestWiden_DependencyOnAColumn: if an index created by others prevents a column from being widened, values that need
// it are rejected.
func TestWiden_DependencyOnAColumn(t *testing.T) {
	f := tempFile(t)
	r := sinktest.Begin(t, f)
	r.Flush(`{"id":1,"b":true,"n":1}`, `{"id":2,"b":false,"n":2}`)
	f.Exec(t, "CREATE UNIQUE INDEX truths ON t (b = 1)")
	lines := []string{`{"id":3,"b":"x"}`, `{"id":4,"n":"y"}`}
	before := r.Checkpoint()
	_, err := r.TryFlush(lines...)
	if again := (sink.ChangedError{}); !errors.As(err, &again) {
		t.Fatalf("the flush: %v", err)
	}
	sinktest.Expect(t, f, "SELECT id, b, n FROM t ORDER BY id", "1|true|1", "2|false|2")
	r.Reread(before)
	r.Flush(lines...)
	sinktest.Expect(t, f, "SELECT id, b, n FROM t ORDER BY id", "1|true|1", "2|false|2", "4|NULL|y")
	sinktest.Expect(t, f, "SELECT line FROM weir_rejects WHERE reason LIKE '%column \"b\" is BOOLEAN%cannot be widened: UNIQUE constraint failed%'", "3")
}

// TestWiden_KeepsACollation: a copy of the table would lose it.
func TestWiden_KeepsACollation(t *testing.T) {
	f := tempFile(t)
	r := sinktest.Begin(t, f)
	r.Flush(`{"id":1,"n":1}`)
	r.End()
	f.Exec(t, "ALTER TABLE t ADD COLUMN theirs TEXT COLLATE NOCASE")
	r = sinktest.Begin(t, f)
	r.Flush(`{"id":2,"n":"x","theirs":"a"}`, `{"id":3,"n":2,"theirs":"A"}`)
	sinktest.Expect(t, f, "SELECT id, n FROM t WHERE theirs = 'a'", "3|2")
	sinktest.Expect(t, f, "SELECT line FROM weir_rejects", "2")
}

// TestTables_Wide: reading a table takes work in proportion to its columns, measured in allocations; folding an
// upper-case name takes one.
func TestTables_Wide(t *testing.T) {
	f := tempFile(t)
	const columns = 400
	line := `{"id":1`
	for i := range columns {
		line += fmt.Sprintf(`,"C%d":1`, i)
	}
	r := sinktest.Begin(t, f)
	r.Flush(line + "}")
	allocs := testing.AllocsPerRun(1, func() {
		if _, err := r.Sink.Tables(t.Context(), sink.TableKey{Name: "t"}); err != nil {
			t.Error(err)
		}
	})
	if allocs > 50*columns {
		t.Errorf("reading %d columns took %.0f allocations", columns, allocs)
	}
}

// TestTables_ConsistentRead: a table that is read while another run widens it is as before or as after.
func TestTables_ConsistentRead(t *testing.T) {
	f := tempFile(t, "CREATE TABLE theirs (a)") // not in WAL mode
	reader := f.Open(t)
	for round := range 60 {
		r := sinktest.BeginTable(t, f, fmt.Sprint("t", round), "id")
		r.Flush(`{"id":1,"a":1,"b":1}`)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = r.TryFlush(`{"id":1,"a":"x","b":1.5}`)
			_, _ = r.TryFlush(`{"id":1,"c":1,"b":"x"}`)
		}()
		for reads := true; reads; {
			select {
			case <-done:
				reads = false
			default:
			}
			got, err := sink.Table(t.Context(), reader.Tables, fmt.Sprint("t", round), []string{"id"})
			testcheck.NoError(t, err)
			for _, c := range got.Columns {
				if !c.Own || strings.Contains(got.ID, "/") {
					t.Fatalf("the table is %+v", got)
				}
			}
		}
		r.End()
	}
}
