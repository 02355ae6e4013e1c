package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestStatements compares the statements that write the rows of flushes with testdata/NAME.sql. To rewrite these, run
// go test ./internal/sink/sqlite -run TestStatements -update, and review the difference.
func TestStatements(t *testing.T) {
	for name, write := range map[string]func(g *golden){
		"upsert": func(g *golden) {
			r := sinktest.Begin(g.t, g)
			g.flush("16 rows name the same columns", r, rows(16, `{"id":%d,"a":"x","n":1}`)...)
			g.flush("some of these are null", r, rows(16, `{"id":%d,"a":null}`)...)
			g.flush("each row names some columns", r, append(rows(15, `{"id":%d,"a":"y"}`), `{"id":16,"n":2}`)...)
			g.flush("a few rows are looked up", r, `{"id":1,"a":"z"}`, `{"id":2,"a":"y"}`, `{"id":99,"a":"z"}`, `{"id":4,"op":"delete"}`)
		},
		"lookups": func(g *golden) {
			g.exec(`CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none', n INTEGER CHECK (n >= 0))`)
			r := sinktest.Begin(g.t, g)
			g.flush("a statement names what a message names", r, `{"id":1,"n":1}`, `{"id":2,"a":"x"}`)
			g.flush("what a row has is not written again", r, `{"id":1,"n":1}`, `{"id":2,"a":"x","n":2}`)
			g.flush("a row starts from nothing", r, `{"id":1,"op":"delete"}`, `{"id":1,"n":3}`)
		},
		"sums": func(g *golden) {
			r := sinktest.Begin(g.t, g, func(o *fold.Options) { o.Merge = map[string]merge.Function{"n": merge.Max} })
			g.flush("after 16 new rows, the next ones are inserted at once", r, rows(32, `{"id":%d,"n":1}`)...)
		},
		"defaults": func(g *golden) {
			g.exec(`CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none', b TEXT, v INTEGER)`)
			r := sinktest.Begin(g.t, g, func(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope })
			g.flush("a new row", r, `{"id":1,"v":1,"a":"x"}`, `{"id":1,"v":9,"b":"y"}`)
			g.flush("a delete that is older than b clears a", r, `{"id":1,"v":5,"op":"delete"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &golden{t: t}
			d, err := Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), Options{Options: sink.Options{Level: sink.Off, Log: logtest.New(t)}})
			testcheck.NoError(t, err)
			t.Cleanup(func() { d.Close() })
			g.DB = d
			write(g)
			testcheck.Same(t, filepath.Join("testdata", name+".sql"), g.text.String())
		})
	}
}

// rows returns n lines with the keys from 1 on.
func rows(n int, format string) (lines []string) {
	for id := range n {
		lines = append(lines, fmt.Sprintf(format, id+1))
	}
	return lines
}

// A golden is a database that records the statements of flushes to the table t.
type golden struct {
	t *testing.T
	sinktest.Database
	*DB
	text strings.Builder
}

var traced func(sql string) // gets the statements of the one connection

func trace(_ *libc.TLS, _ uint32, _, _, sql uintptr) int32 {
	traced(libc.GoString(sql))
	return 0
}

// flush records the statements of a flush of lines, each once.
func (g *golden) flush(what string, r *sinktest.Run, lines ...string) {
	if g.text.Len() > 0 {
		g.text.WriteString("\n")
	}
	fmt.Fprintf(&g.text, "-- %s.\n", strings.ToUpper(what[:1])+what[1:])
	for n, line := range lines {
		if n < 3 || n == len(lines)-1 {
			fmt.Fprintf(&g.text, "--   %s\n", line)
		} else if n == 3 {
			g.text.WriteString("--   …\n")
		}
	}
	seen := map[string]bool{}
	traced = func(sql string) {
		if !seen[sql] && strings.Contains(sql, `"t"`) && !strings.HasPrefix(sql, "CREATE") && !strings.Contains(sql, "weir_checkpoints") {
			seen[sql] = true
			g.text.WriteString(sql + ";\n")
		}
	}
	lib.Xsqlite3_trace_v2(g.c.tls, g.c.db, lib.SQLITE_TRACE_STMT, function(trace), 0)
	r.Flush(lines...)
	lib.Xsqlite3_trace_v2(g.c.tls, g.c.db, 0, 0, 0)
}

// compare compares the statements with a file, or writes it.
func (g *golden) exec(sql string) { testcheck.NoError(g.t, g.c.exec(sql)) }

func (g *golden) Has(sinktest.Trait) bool { return true }

func (g *golden) Open(*testing.T) sink.Sink { return g }

func (g *golden) Close() error { return nil }

func (g *golden) Claims(t *testing.T, job string) sink.Claims {
	c, err := OpenClaims(t.Context(), g.path, job, sink.Options{Level: sink.Off, Log: logtest.New(t)})
	testcheck.NoError(t, err)
	return c
}
