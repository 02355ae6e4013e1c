package postgres

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crypto/tls"
	"net"
	"syscall"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestStatements compares the statements that write the rows of flushes with testdata/NAME.sql. To rewrite these, run
// go test ./internal/sink/postgres -run TestStatements -update, and review the difference.
func TestStatements(t *testing.T) {
	byColumn := func(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope }
	byRow := func(o *fold.Options) { o.Version, o.Scope = "v", fold.RowScope }
	functions := func(pairs ...any) func(o *fold.Options) {
		return func(o *fold.Options) {
			o.Merge = map[string]merge.Function{}
			for p := range slices.Chunk(pairs, 2) {
				o.Merge[p[0].(string)] = p[1].(merge.Function)
			}
		}
	}
	for name, write := range map[string]func(g *golden){
		"upsert": func(g *golden) {
			r := sinktest.Begin(g.t, g)
			g.flush("all rows seem to be new, so they are copied into the table", r.Flush, `{"id":1,"a":"x","n":1}`)
			g.flush("each row names some columns", r.Flush, `{"id":1,"a":"y"}`, `{"id":2,"n":2}`)
			g.flush("the staging table is used again", r.Flush, `{"id":1,"a":"z","n":3}`)
		},
		"flush": func(g *golden) {
			g.table("t", nil, "id", "a")
			g.whole = true
			r := sinktest.Begin(g.t, g)
			g.flush("a flush from its fence to its commit, the first of its source", r.Flush, `{"id":1,"a":"x"}`, "bad")
			g.flush("the second one", r.Flush, `{"id":1,"a":"y"}`)
		},
		"growth": func(g *golden) {
			r := sinktest.Begin(g.t, g)
			g.quiet(r.Flush, `{"id":1,"a":"x"}`)
			g.whole = true
			g.flush("the wait for the table lock is short, the wait for row locks unlimited", r.Flush, `{"id":1,"b":"x"}`)
		},
		"deletes": func(g *golden) {
			g.table("t", nil, "id", "a")
			r := sinktest.Begin(g.t, g)
			g.flush("one table is written, so deletes are part of the MERGE", r.Flush, `{"id":1,"op":"delete"}`, `{"id":2,"a":"x"}`)
		},
		"marks": func(g *golden) {
			g.table("t", func(t *relation) { t.Columns[1].Default = "'none'" }, "id", "a", "b")
			r := sinktest.Begin(g.t, g)
			g.flush("null is a value; a has a default", r.Flush, `{"id":1,"a":null}`, `{"id":2,"b":"x"}`)
			g.flush("a row is replaced, and one deleted", r.Flush, `{"id":1,"op":"delete"}`, `{"id":1,"b":"y"}`, `{"id":2,"op":"delete"}`)
		},
		"fill-only": func(g *golden) {
			g.table("t", nil, "id", "a", "b")
			r := sinktest.Begin(g.t, g, func(o *fold.Options) { o.FillOnly = true })
			g.flush("only what is NULL is written", r.Flush, `{"id":1,"a":"x"}`, `{"id":2,"b":"x"}`)
		},
		"sums": func(g *golden) {
			r := sinktest.Begin(g.t, g, functions("n", merge.Sum, "top", merge.Max))
			g.flush("all rows seem to be new, so they are copied into the table", r.Flush, `{"id":1,"n":1,"top":5}`)
			g.flush("the server adds, and compares", r.Flush, `{"id":1,"n":1}`, `{"id":1,"n":2,"top":7}`)
			g.flush("a sum begins again from null", r.Flush, `{"id":1,"n":null}`, `{"id":1,"n":2}`, `{"id":2,"n":1}`)
			g.flush("one row is replaced, and one deleted", r.Flush, `{"id":1,"op":"delete"}`, `{"id":1,"n":2,"top":1}`, `{"id":2,"op":"delete"}`)
		},
		"patches": func(g *golden) {
			r := sinktest.Begin(g.t, g, functions("profile", merge.Patch))
			g.flush("patches are applied to nothing, too, so rows are not copied into the table", r.Flush, `{"id":1,"profile":{"a":1,"b":null}}`)
			g.flush("two patches of one row", r.Flush, `{"id":1,"profile":{"a":null}}`, `{"id":1,"profile":{"a":{"c":2}}}`)
		},
		"merge-types": func(g *golden) {
			g.table("t", func(t *relation) {
				for i, kind := range []schema.Column{{Type: schema.Int, Size: 4, Decl: "integer", Default: "0"}, {Type: schema.Real, Decl: "double precision"}, {Type: schema.Number, Decl: "numeric(10,2)"},
					{Type: schema.Number, Decl: "numeric"}, {Type: schema.Text, Decl: "character varying(20)"}, {Type: schema.Instant, Decl: "timestamp with time zone"}, {Type: schema.Text, Decl: "text"},
					{Type: schema.JSON, Decl: "json"}, {Type: schema.Text, Decl: "text"}, {Type: schema.Text, Decl: "text"}} {
					kind.Name = t.Columns[i+1].Name
					t.Columns[i+1], t.cols[i+1] = kind, made(&kind)
				}
			}, "id", "integer", "double", "rounded", "exact", "digits", "since", "least", "json", "text", "first")
			r := sinktest.Begin(g.t, g, functions("integer", merge.Sum, "double", merge.Sum, "rounded", merge.Sum, "exact", merge.Sum, "digits", merge.Sum, "since", merge.Max, "least", merge.Min,
				"json", merge.Patch, "text", merge.Patch, "first", merge.First))
			g.flush("columns of many types", r.Flush, `{"id":1,"integer":1,"double":0.5,"rounded":0.01,"exact":1,"digits":1,"since":"2026-01-01T00:00:00Z","least":"a","json":{"a":1},"text":{"a":1},"first":"x"}`)
		},
		"stamps": func(g *golden) {
			r := sinktest.Setup{Fit: func(l *schema.Limits, t *schema.Table) error {
				return errors.Join(l.AddStamp(t, "made", schema.InsertStamp), l.AddStamp(t, "moved", schema.UpdateStamp))
			}}.Begin(g.t, g).At(time.Date(2024, 5, 17, 9, 30, 0, 0, time.UTC))
			g.quiet(r.Flush, `{"id":0,"a":"x"}`)
			g.flush("a stamp moves with its row alone", r.Flush, `{"id":1,"a":"x"}`, `{"id":2,"op":"delete"}`)
		},
		"versions-of-rows": func(g *golden) {
			g.table("t", nil, "id", "v", "a")
			r := sinktest.Begin(g.t, g, byRow)
			g.flush("the versions of rows are read first", r.Flush, `{"id":1,"v":2,"a":"x"}`, `{"id":2,"v":2,"op":"delete"}`)
		},
		"versions-of-columns": func(g *golden) {
			g.table("t", func(t *relation) { t.versioned = []string{} }, "id", "v", "a")
			r := sinktest.Begin(g.t, g, byColumn)
			g.flush("the states of rows are read first, and written before them", r.Flush, `{"id":1,"v":2,"a":"x"}`, `{"id":2,"v":2,"op":"delete"}`)
		},
		"versions-copied": func(g *golden) {
			r := sinktest.Begin(g.t, g, byColumn)
			g.flush("all rows seem to be new", r.Flush, `{"id":1,"v":2,"a":"x"}`)
		},
		"child-rows": func(g *golden) {
			r := sinktest.BeginNested(g.t, g, sinktest.Shop(g.t))
			g.quiet(r.Flush, `{"id":1,"status":"s","items":[{"sku":"x","qty":1,"taxes":[{"code":"a","amount":1}]}]}`)
			g.flush("an order has the items of its last message", r.Flush, `{"id":1,"items":[{"sku":"y","taxes":[{"code":"b"}]}]}`, `{"id":2,"op":"delete"}`)
		},
		"child-updates": func(g *golden) {
			r := sinktest.BeginNested(g.t, g, sinktest.MergedShop(g.t))
			g.quiet(r.Flush, `{"id":1,"status":"s","items":[{"sku":"x","qty":1,"taxes":[{"code":"a","amount":1}]}]}`)
			g.flush("items are updates, and one takes its taxes along", r.Flush, `{"id":1,"items":[{"sku":"x","gone":true},{"sku":"y","qty":2}]}`)
		},
		"generated-keys": func(g *golden) {
			r := sinktest.BeginNested(g.t, g, sinktest.Generated(g.t, "oid", ""))
			g.quiet(r.Flush, `{"id":1,"status":"s","items":[{"sku":"x","qty":1}]}`)
			g.flush("items name their order by a key that the database generates", r.Flush, `{"id":1,"items":[{"sku":"x"}]}`)
		},
		"references": func(g *golden) {
			r := sinktest.BeginNested(g.t, g, sinktest.Referring(g.t, "t", "cid"))
			g.quiet(r.Flush, `{"order":1,"customer":7,"name":"seven","total":1}`)
			g.flush("an order names its customer by a key that the database generates", r.Flush, `{"order":1,"customer":8}`)
		},
		"repeated": func(g *golden) {
			g.table("t", nil, "id", "a")
			g.tableOf("t").repeats = true
			r := sinktest.Begin(g.t, g)
			for i := range manyRepeated {
				r.Fold(fmt.Sprintf(`{"id":%d,"a":"x"}`, 10000+i))
			}
			g.flush("the table's rows are read first; none of them is the batch's", r.Flush)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGolden(t)
			write(g)
			testcheck.Same(t, filepath.Join("testdata", name+".sql"), g.text.String())
		})
	}
}

// TestComparison compares the queries of verify with testdata/verify.sql.
func TestComparison(t *testing.T) {
	g := newGolden(t)
	r := sinktest.BeginNested(t, g, sinktest.Referring(t, "t", "cid"))
	g.quiet(r.Flush, `{"order":1,"customer":7,"name":"seven","total":1}`)
	r.Fold(`{"order":1,"customer":7,"total":5}`, `{"order":2,"total":null}`)
	b := r.Seal().Batches[1]
	known := func(name string) *relation { return &g.tableOf(name).relation }
	c := &comparison{shape: newShape(b, "", *known(b.Table.Name), b.Sorted(), known), b: b, rows: b.Sorted()}
	g.says("each row, as the feed has it and as the table has it")
	fmt.Fprintf(&g.text, "%s;\n", c.comparedSQL(c.rows))
	g.says("the keys of the table")
	fmt.Fprintf(&g.text, "%s;\n", c.keysSQL())
	testcheck.Same(t, filepath.Join("testdata", "verify"+".sql"), g.text.String())
}

// A golden is a database without a server, which records the statements of flushes. All queries for rows return none.
type golden struct {
	t *testing.T
	sinktest.Database
	*DB
	whole bool // record flushes from their fence to their COMMIT
	text  strings.Builder
}

func newGolden(t *testing.T) *golden {
	c := &client{opt: sink.Options{Level: sink.Full, Log: logtest.New(t)}, server: server{current: "public", schema: "public", version: 180000}, ready: true, versions: true}
	return &golden{t: t, DB: &DB{client: c, tables: map[string]*table{}, stuck: map[string]string{}}}
}

// says records lines.
func (g *golden) says(what string, lines ...string) {
	if g.text.Len() > 0 {
		g.text.WriteString("\n")
	}
	fmt.Fprintf(&g.text, "-- %s.\n", strings.ToUpper(what[:1])+what[1:])
	for _, line := range lines {
		fmt.Fprintf(&g.text, "--   %s\n", line)
	}
}

// flush records the statements of a flush of lines.
func (g *golden) flush(what string, flush func(lines ...string) sink.Result, lines ...string) {
	g.says(what, lines...)
	flush(lines...)
}

// quiet flushes without recording.
func (g *golden) quiet(flush func(lines ...string) sink.Result, lines ...string) {
	was := g.text.String()
	flush(lines...)
	g.text.Reset()
	g.text.WriteString(was)
}

// table creates a table of another program's.
func (g *golden) table(name string, change func(*relation), columns ...string) {
	t := g.tableOf(name)
	t.relation = relation{Table: schema.Table{Name: name, Exists: true, Key: []int{0}}, ident: identOf("public", name), oid: "1"}
	for i, c := range columns {
		kind := schema.Text
		if c == "v" {
			kind = schema.Int
		}
		t.Columns = append(t.Columns, schema.Column{Name: c, Type: kind, Key: i == 0})
		t.Columns[i].Decl = declare(&t.Columns[i])
		t.cols = append(t.cols, made(&t.Columns[i]))
	}
	if change != nil {
		change(&t.relation)
	}
	t.facts = factsOf(&t.relation)
}

// factsOf returns what flushes rely on in a table, as far as a test is about it.
func factsOf(t *relation) string {
	var all []string
	for _, c := range t.Columns {
		all = append(all, c.Name+" "+c.Decl)
	}
	return strings.Join(all, ", ")
}

func (g *golden) Has(sinktest.Trait) bool { return true }

func (g *golden) Open(*testing.T) sink.Sink { return g }

func (g *golden) Close() error { return nil }

func (g *golden) Claims(*testing.T, string) sink.Claims { return noClaims{} }

// noClaims are claims of jobs that have only one run.
type noClaims struct{ sink.Claims }

func (noClaims) Take(_ context.Context, lanes ...string) ([]sink.Checkpoint, error) {
	return make([]sink.Checkpoint, len(lanes)), nil
}

func (noClaims) Close() error { return nil }

func (g *golden) Tables(_ context.Context, wanted ...sink.TableKey) ([]schema.Table, error) {
	var tables []schema.Table
	for _, w := range wanted {
		t := g.tableOf(w.Name)
		if t.key = w.Key; t.Name == "" {
			t.relation = relation{Table: schema.Table{Name: w.Name}, ident: identOf("public", w.Name)}
		}
		tables = append(tables, t.Clone())
	}
	return tables, nil
}

// Flush imitates a flush.
func (g *golden) Flush(_ context.Context, f *sink.Flush) (res sink.Result, err error) {
	f.Run = "run"
	run := &flushRun{d: g.DB, f: f, rows: make([][]*fold.Row, len(f.Batches))}
	for i, b := range f.Batches {
		run.rows[i] = b.Sorted()
	}
	a := newAttempt(run)
	err = a.fit()
	if g.whole {
		a.begin()
	}
	look := false
	for _, p := range a.parts {
		if p.writes = p.rows; !p.isSet && len(p.writes) > 0 {
			err = errors.Join(err, p.planRows(true))
		}
		look = look || p.asked != nil
	}
	if look {
		g.text.WriteString(a.script.String())
		g.says("after the answer")
		r := make([]result, len(a.script.statements))
		a.script = &script{}
		for _, p := range a.parts {
			if p.asked != nil {
				err = errors.Join(err, p.asked(r))
			}
		}
	}
	err = errors.Join(err, a.decide())
	a.writeParts()
	if g.whole {
		err = errors.Join(err, a.end(f.Rejects))
	}
	g.text.WriteString(a.script.String())
	for i, p := range a.parts {
		p.after.setID(fmt.Sprint(i + 1))
		p.after.facts = factsOf(&p.after)
		p.committed()
	}
	res.Tables = make([]sink.Counts, len(f.Batches))
	return res, err
}

// compare compares the statements with a file, or writes it.
func TestIsHopeless(t *testing.T) {
	var (
		unknown = fmt.Errorf("hostname resolving error: %w", errors.Join(&net.DNSError{Err: "no such host", IsNotFound: true}))
		down    = fmt.Errorf("dial error: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
		noTLS   = fmt.Errorf("tls error: %w", errors.New("server refused TLS connection"))
		foreign = fmt.Errorf("write failed: %w", &tls.CertificateVerificationError{Err: errors.New("signed by nobody")})
	)
	f := func(c *client, err error, want bool) {
		t.Helper()
		if got := c.isHopeless(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	first, later := &client{}, &client{server: server{version: 180000}}
	f(first, nil, false)
	f(first, unknown, true)
	f(later, unknown, false)
	f(first, fmt.Errorf("lookup: %w", &net.DNSError{Err: "i/o timeout", IsTimeout: true}), false)
	f(first, down, false)
	f(later, noTLS, true)
	f(later, foreign, true)
	f(later, errors.Join(noTLS, foreign), true)
	f(later, errors.Join(noTLS, down), false) // sslmode=prefer, with a server that restarts
}

func TestIsOld(t *testing.T) {
	for version, want := range map[int64]bool{150000: true, 150004: true, 150005: false, 150018: false, 160000: true, 160001: false, 180000: false} {
		if got := isOld(version); got != want {
			t.Errorf("%d: %v", version, got)
		}
	}
}
