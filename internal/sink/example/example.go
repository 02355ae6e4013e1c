// Package example is a deliberately simple driver for an SQL database. It writes row by row, through database/sql, into
// tables with only text columns. docs/dev/drivers.md explains it, and tests use it. The database is SQLite.
package example

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// caps: every column is text, including times, UUIDs and JSON. There are no child tables.
var caps = sink.Caps{Columns: 1000, Limits: schema.Limits{Untyped: true, TextTypes: true, NoSchemas: true}}

// Driver is the driver.
var Driver = sink.Driver{
	Name:  "Example",
	Usage: "example:PATH",
	Parse: func(to string) (dest string, ok bool, err error) {
		dest, ok = strings.CutPrefix(to, "example:")
		return dest, ok, nil
	},
	Files: func(dest string) []string { return []string{dest, dest + "-journal"} },
	Caps:  caps,
	Plan: func(want *schema.Table) []string {
		return sink.Plan(want, createTable(want), func(c *schema.Column) string { return addColumn(want.Name, c) })
	},
	Open: func(ctx context.Context, dest string, _ sink.Options) (sink.Sink, error) {
		db, err := open(ctx, dest)
		return &conn{Ledger: ledger(db), db: db, seen: map[string]schema.Table{}}, err
	},
	OpenClaims: func(ctx context.Context, dest, job string, _ sink.Options) (sink.Claims, error) {
		db, err := open(ctx, dest)
		return &claims{sink.JobLedger{Ledger: ledger(db), Job: job}, db}, err
	},
}

// dialect is the SQL for weir's own tables.
var dialect = sink.Dialect{Integer: "bigint", Time: "text", Bytes: "blob", Serial: "INTEGER PRIMARY KEY", Raw: "raw text",
	Reason: "substr(reason, 1, instr(reason, ':') - 1)", Kept: "NULL, raw",
	Micros: func(sql string) string {
		return "CAST(round(unixepoch(" + sql + ", 'subsec') * 1000) AS INTEGER) * 1000"
	},
	Now: "strftime('%Y-%m-%d %H:%M:%f', 'now')", Moment: func(t time.Time) string { return text(t.UTC().Format(timeFormat)) },
	Text: text, Line: func(dst, line []byte) []byte { return append(dst, text(string(line))...) }, Table: func(name string) string { return name }}

const timeFormat = "2006-01-02 15:04:05.000"

// text returns a string literal, and quote a quoted name.
func text(s string) string     { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// open opens a database, and creates weir's own tables.
func open(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=foreign_keys(1)&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	if _, err := ledger(db).Exec(ctx, sink.Dialect.Create); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// A querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// ledger returns weir's own tables as q, a database or a transaction, sees them.
func ledger(q querier) sink.Ledger {
	return sink.Ledger{
		Query: func(ctx context.Context, sql func(sink.Dialect) string) ([][][]byte, error) {
			return query(ctx, q, sql(dialect))
		},
		Exec: func(ctx context.Context, sql func(sink.Dialect) []string) (changed []int64, err error) {
			for _, statement := range sql(dialect) {
				n, err := exec(ctx, q, statement)
				if err != nil {
					return nil, err
				}
				changed = append(changed, n)
			}
			return changed, nil
		},
		Transaction: func(ctx context.Context, f func(sink.Ledger) error) error {
			return transaction(ctx, q.(*sql.DB), func(tx *sql.Tx) error { return f(ledger(tx)) })
		},
	}
}

// transaction calls f in a transaction, and commits unless f fails.
func transaction(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return explain(err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after COMMIT
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &sink.Error{Class: sink.Unknown, Reason: "io", Err: err}
	}
	return nil
}

// query returns a query's cells, with nil for NULL.
func query(ctx context.Context, q querier, query string, args ...any) (all [][][]byte, err error) {
	found, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { _ = found.Close() }()
	columns, err := found.Columns()
	for err == nil && found.Next() {
		row, into := make([][]byte, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		err = found.Scan(into...)
		all = append(all, row)
	}
	return all, explain(errors.Join(err, found.Err()))
}

// exec executes a statement, and returns how many rows it has changed.
func exec(ctx context.Context, q querier, statement string, args ...any) (changed int64, err error) {
	res, err := q.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, explain(err)
	}
	return res.RowsAffected()
}

// explain classifies an error by its code: https://www.sqlite.org/rescode.html.
func explain(err error) error {
	const busy, locked = 5, 6
	if e, ok := errors.AsType[*sqlite.Error](err); ok && (e.Code()&0xff == busy || e.Code()&0xff == locked) {
		return &sink.Error{Class: sink.Transient, Reason: "locked", Err: err}
	}
	return err
}

// claims are the [sink.Claims] of a database without locks that outlive a transaction. They lock nothing; only the
// fence keeps two runs from writing the same lane.
type claims struct {
	sink.JobLedger
	db *sql.DB
}

// Take implements [sink.Claims].
func (c *claims) Take(ctx context.Context, lanes ...string) ([]sink.Checkpoint, error) {
	return c.Checkpoints(ctx, lanes...)
}

// Drop implements [sink.Claims].
func (c *claims) Drop(ctx context.Context, _ ...string) error { return ctx.Err() }

// TakeJob implements [sink.Claims].
func (c *claims) TakeJob(ctx context.Context) error { return ctx.Err() }

// Close implements [sink.Claims].
func (c *claims) Close() error { return c.db.Close() }

// conn is a [sink.Sink]. The ledger has some of its optional parts.
type conn struct {
	sink.Ledger
	db   *sql.DB
	seen map[string]schema.Table // by name, as last read or written
	last sink.Result             // of the last flush
}

var (
	_ sink.Sink          = (*conn)(nil)
	_ sink.RejectDropper = (*conn)(nil)
	_ sink.Forgetter     = (*conn)(nil)
)

// Caps implements [sink.Sink].
func (c *conn) Caps() sink.Caps { return caps }

// Close implements [sink.Sink].
func (c *conn) Close() error { return c.db.Close() }

// Tables implements [sink.Sink].
func (c *conn) Tables(ctx context.Context, wanted ...sink.TableKey) ([]schema.Table, error) {
	return sink.EachTable(wanted, func(_ int, w sink.TableKey) (schema.Table, error) {
		t, err := readTable(ctx, c.db, w)
		c.seen[w.Name] = t
		return t, err
	})
}

// readTable reads a table.
func readTable(ctx context.Context, q querier, w sink.TableKey) (t schema.Table, err error) {
	t = schema.Table{Name: w.Name, FullName: w.Name}
	if t.Writers, err = ledger(q).Writers(ctx, w.Name); err != nil {
		return t, err
	}
	columns, err := query(ctx, q, `SELECT name, "notnull", pk FROM pragma_table_info(?)`, w.Name)
	if err != nil || len(columns) == 0 {
		return t, err
	}
	marks, err := ledger(q).Marks(ctx, sink.MadeMark(w.Name), sink.ColumnsMark(w.Name))
	if err != nil {
		return t, err
	}
	if marks[0] == "" {
		return t, sink.LacksError{Does: fmt.Sprintf("write to table %q, which it has not made,", w.Name)}
	}
	missing, primary := t, []string{}
	t.Exists, t.Made, t.ID = true, true, marks[0]
	for _, row := range columns {
		t.Columns = append(t.Columns, schema.Column{Name: string(row[0]), Type: schema.Text, Decl: "TEXT", NotNull: string(row[1]) == "1", ValueRules: schema.ValueRules{HoldsTime: true}})
		if string(row[2]) != "0" {
			primary = append(primary, string(row[0]))
		}
	}
	key := w.Key
	if key == nil {
		if key = primary; len(key) == 0 {
			return t, sink.NoKeyError{Table: w.Name}
		}
	}
	if t.Key, err = caps.FindKey(&t, key, primary); err != nil || len(key) != len(primary) {
		return missing, sink.KeyError{Err: errors.Join(err, fmt.Errorf("the key of table %q is %s", w.Name, strings.Join(primary, ",")))}
	}
	for _, k := range t.Key {
		t.Columns[k].Key = true
	}
	all := func(_, _ *schema.Column) bool { return true }
	return t, t.Own(marks[1], all, func(*schema.Column) string { return "" })
}

func createTable(t *schema.Table) string {
	var columns []string
	for _, c := range t.Stored().Columns {
		columns = append(columns, column(&c))
	}
	return sink.CreateTable(quote(t.Name), columns, sink.Constraints(t, quote, quote), "")
}

func addColumn(table string, c *schema.Column) string {
	return "ALTER TABLE " + quote(table) + " ADD COLUMN " + column(c)
}

func column(c *schema.Column) string {
	if c.NotNull {
		return quote(c.Name) + " TEXT NOT NULL"
	}
	return quote(c.Name) + " TEXT"
}
