package memory

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSuite: the driver passes the suite of all drivers.
func TestSuite(t *testing.T) {
	sinktest.Test(t, sinktest.Harness{New: func(*testing.T) sinktest.Database { return &outside{newServer()} }})
}

// outside is a database as another program sees it. The suite uses SQL, which the database does not have. So its
// content is copied into SQLite, and what a statement changes there is copied back.
type outside struct{ server *server }

const name = "suite" // the database's

// Has reports traits: the database writes no log, and no other program creates tables in it.
func (o *outside) Has(trait sinktest.Trait) bool {
	return trait == sinktest.Claimable || trait == sinktest.Creatable || trait == sinktest.Alone
}

// Driver returns the driver.
func (o *outside) Driver() (sink.Driver, string) { return o.server.driver(), "memory:" + name }

// Open opens the database as weir does.
func (o *outside) Open(t *testing.T) sink.Sink {
	t.Helper()
	s, err := o.server.driver().Open(t.Context(), name, sink.Options{Log: logtest.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Claims opens the claims of a job as weir does.
func (o *outside) Claims(t *testing.T, job string) sink.Claims {
	t.Helper()
	c, err := o.server.driver().OpenClaims(t.Context(), name, job, sink.Options{Log: logtest.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Logged implements [sinktest.Database]. It is not called: the database has no log.
func (o *outside) Logged(t *testing.T) int64 {
	t.Fatal("the database has no log")
	return 0
}

// Exec runs a statement that changes or drops tables.
func (o *outside) Exec(t *testing.T, statement string) {
	t.Helper()
	err := o.server.database(name, true).change(func(s *state) error {
		c := newCopy(t, s)
		defer c.db.Close()
		c.exec(statement)
		for _, table := range slices.Sorted(maps.Keys(s.tables)) {
			c.readTable(table)
		}
		c.readLedger()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Query returns the rows of a query.
func (o *outside) Query(t *testing.T, query string) [][]any {
	t.Helper()
	c := newCopy(t, o.server.database(name, true).committed())
	defer c.db.Close()
	return c.query(query)
}

// A copied is a copy of a state in SQLite.
type copied struct {
	t     *testing.T
	db    *sql.DB
	state *state
	keys  map[string][]string // by table: its rows' keys, by rowid
}

const timeFormat = "2006-01-02T15:04:05.000000Z"

func newCopy(t *testing.T, s *state) *copied {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	c := &copied{t, db, s, map[string][]string{}}
	c.exec("BEGIN")
	for table := range s.tables {
		c.writeTable(table)
	}
	c.writeLedger()
	c.exec("COMMIT")
	return c
}

func (c *copied) exec(statement string, args ...any) {
	c.t.Helper()
	if _, err := c.db.ExecContext(c.t.Context(), statement, args...); err != nil {
		c.t.Fatalf("%s: %v", statement, err)
	}
}

func (c *copied) query(query string) (all [][]any) {
	c.t.Helper()
	rows, err := c.db.QueryContext(c.t.Context(), query)
	if err != nil {
		c.t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.ColumnTypes()
	for err == nil && rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		err = rows.Scan(into...)
		for i, v := range row {
			if n, ok := v.(int64); ok && columns[i].DatabaseTypeName() == "BOOLEAN" {
				row[i] = n != 0
			}
		}
		all = append(all, row)
	}
	if err := errors.Join(err, rows.Err()); err != nil {
		c.t.Fatalf("%s: %v", query, err)
	}
	return all
}

// declared are SQLite types that preserve the values of a type.
var declared = map[schema.Type]string{schema.Bool: "BOOLEAN", schema.Int: "INTEGER", schema.Real: "REAL", schema.Text: "TEXT", schema.JSON: "TEXT"}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func (c *copied) writeTable(name string) {
	t := c.state.tables[name]
	var columns []string
	for i := range t.Columns {
		columns = append(columns, quote(t.Columns[i].Name)+" "+declared[t.Columns[i].Type])
	}
	c.exec("CREATE TABLE " + quote(name) + " (" + strings.Join(columns, ", ") + ")")
	c.keys[name] = slices.Sorted(maps.Keys(t.rows))
	insert, err := c.db.Prepare("INSERT INTO " + quote(name) + " VALUES (?" + strings.Repeat(", ?", len(columns)-1) + ")")
	if err != nil {
		c.t.Fatal(err)
	}
	defer insert.Close()
	for _, key := range c.keys[name] {
		values := make([]any, len(t.Columns))
		for i := range t.Columns {
			if text, ok := t.rows[key][t.Columns[i].Name]; ok {
				values[i] = value(text, t.Columns[i].Type)
			}
		}
		if _, err := insert.Exec(values...); err != nil {
			c.t.Fatal(err)
		}
	}
}

// value returns a text as SQLite has it in a column of a type.
func value(text string, as schema.Type) any {
	switch k, isNumber := feed.IsNumber([]byte(text)); {
	case as == schema.Bool:
		return text == "true"
	case as == schema.Text || as == schema.JSON || !isNumber:
	default:
		if n, ok := feed.ParseInt([]byte(text), k); ok {
			return n
		}
		if f, exact, ok := feed.ParseReal([]byte(text)); ok && (exact || as == schema.Real) {
			return f
		}
	}
	return text
}

// readTable copies back what a statement did to a table's rows and columns.
func (c *copied) readTable(name string) {
	columns := c.query("SELECT name FROM pragma_table_info('" + strings.ReplaceAll(name, "'", "''") + "')")
	if len(columns) == 0 {
		delete(c.state.tables, name)
		return
	}
	t := *c.state.tables[name]
	all := t.Columns
	t.Columns, t.rows = nil, map[string]row{}
	for _, column := range all {
		if slices.ContainsFunc(columns, func(row []any) bool { return row[0] == column.Name }) {
			t.Columns = append(t.Columns, column)
		}
	}
	if len(t.Columns) < len(all) {
		t.ID = sink.NewTableID() // without them it is another table
	}
	for _, cells := range c.query("SELECT rowid, * FROM " + quote(name)) {
		r := row{}
		for i, cell := range cells[1:] {
			switch v := cell.(type) {
			case nil:
			case float64:
				r[t.Columns[i].Name] = string(feed.AppendReal(nil, v))
			default:
				r[t.Columns[i].Name] = fmt.Sprint(v)
			}
		}
		t.rows[c.keys[name][cells[0].(int64)-1]] = r
	}
	c.state.tables[name] = &t
}

func (c *copied) writeLedger() {
	d := sink.Dialect{Integer: "INTEGER", Time: "TEXT", Bytes: "BLOB", Serial: "INTEGER PRIMARY KEY", Raw: "raw TEXT"}
	for _, statement := range slices.Concat(d.Ledger(), d.Versions()) {
		c.exec(statement)
	}
	for name, jobs := range c.state.writers {
		for _, job := range jobs {
			c.exec("INSERT INTO weir_jobs VALUES (?, ?)", job, name)
		}
	}
	for l, cp := range c.state.checkpoints {
		c.exec("INSERT INTO weir_checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", l.job, l.name, cp.Seq, cp.Run, cp.Line, cp.Offset,
			cp.Mark, cp.Rejected, cp.Settings, cp.TableID, cp.Committed.UTC().Format(timeFormat))
	}
	for _, k := range c.state.rejects {
		c.exec("INSERT INTO weir_rejects VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", k.Job, k.Source, k.Line, k.Offset, k.Reason, string(k.Text), k.Time.UTC().Format(timeFormat))
	}
	for name, t := range c.state.tables {
		if t.Versioned {
			c.exec("INSERT INTO weir_meta VALUES (?, '')", sink.VersionsMark(name))
		}
		for key, v := range t.versions {
			var gone any
			if !v.gone.IsZero() {
				gone = v.gone.UTC().Format(timeFormat)
			}
			c.exec("INSERT INTO weir_versions VALUES (?, ?, ?, ?)", name, []byte(key), v.state, gone)
		}
	}
}

// readLedger copies back what a statement did to jobs, checkpoints and rejects.
func (c *copied) readLedger() {
	s := c.state
	clear(s.writers)
	for _, row := range c.query("SELECT tbl, job FROM weir_jobs ORDER BY job") {
		s.writers[row[0].(string)] = append(s.writers[row[0].(string)], row[1].(string))
	}
	at := func(v any) time.Time {
		at, err := time.Parse("2006-01-02T15:04:05.999999Z", v.(string))
		if err != nil {
			c.t.Fatal(err)
		}
		return at
	}
	was := maps.Clone(s.checkpoints)
	clear(s.checkpoints)
	for _, row := range c.query("SELECT job, source, seq, updated FROM weir_checkpoints") {
		l := lane{row[0].(string), row[1].(string)}
		cp := was[l]
		cp.Seq, cp.Committed = row[2].(int64), at(row[3])
		s.checkpoints[l] = cp
	}
	left := map[string]bool{}
	for _, row := range c.query("SELECT id FROM weir_rejects") {
		left[strconv.FormatInt(row[0].(int64), 10)] = true
	}
	n := 0
	s.rejects = slices.DeleteFunc(s.rejects, func(sink.Kept) bool { n++; return !left[strconv.Itoa(n)] })
}
