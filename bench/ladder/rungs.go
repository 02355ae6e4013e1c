package ladder

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/sink"
)

// A way is how a program writes the messages: with database/sql and prepared statements, as a programmer might do
// without better knowledge.
type way struct {
	name  string
	level sink.Level
	lost  string // in a power cut, in addition to the level's loss
	all   bool   // lost is the whole loss
	write func(w *writing, ctx context.Context) error
}

// ways are the rungs below weir.
var ways = []way{
	{"look-up and write of each message, a transaction each", sink.Full, "", false, func(w *writing, ctx context.Context) error { return w.singly(ctx, 1, 0) }},
	{"the same, synchronous normal", sink.Normal, "", false, func(w *writing, ctx context.Context) error { return w.singly(ctx, 1, 0) }},
	{"one transaction for all", sink.Normal, "everything", true, func(w *writing, ctx context.Context) error { return w.singly(ctx, 0, 0) }},
	{"a transaction a second", sink.Normal, "a second, and ", false, func(w *writing, ctx context.Context) error { return w.singly(ctx, 0, time.Second) }},
	{"rows cached, one look-up a batch", sink.Normal, "a batch, and ", false, func(w *writing, ctx context.Context) error { return w.batched(ctx, w.cached) }},
	{"batched upserts", sink.Normal, "a batch, and ", false, func(w *writing, ctx context.Context) error { return w.batched(ctx, w.upserts) }},
}

const (
	batchPeriod   = time.Second
	batchMessages = 10_000
	maxParameters = 30_000 // of a statement; SQLite allows 32,766, Postgres 65,535
	maxTuples     = 500    // in a statement
)

// measure writes the sample in one way, and returns the number of messages written; with a limit it stops after that
// time.
func (c *Config) measure(ctx context.Context, db Database, s *sample, way way, limit time.Duration) (n int, one Timing, err error) {
	before, err := db.Usage(ctx)
	if err != nil {
		return 0, one, err
	}
	f, err := os.Open(s.path)
	if err != nil {
		return 0, one, err
	}
	defer f.Close()
	start := time.Now()
	conn, err := db.OpenSQL(ctx, way.level)
	if err != nil {
		return 0, one, err
	}
	w := &writing{db: db, conn: conn, names: s.names, lines: bufio.NewScanner(f), parser: newParser(s, c.Key), cache: map[string]row{}}
	if limit > 0 {
		w.end = start.Add(limit)
	}
	w.lines.Buffer(nil, 1<<28)
	err = w.prepare(ctx)
	if err == nil {
		err = way.write(w, ctx)
	}
	if err = errors.Join(err, w.lines.Err(), conn.Close()); err != nil {
		return 0, one, err
	}
	took := time.Since(start)
	after, err := db.Usage(ctx)
	return w.n, NewTiming(w.n, took, before, after), errors.Join(err, db.Wipe(ctx))
}

// A row has the texts of all columns, the key first.
type row = []sql.NullString

// writing is one rung in progress.
type writing struct {
	db    Database
	conn  *sql.DB
	names []string

	lines  *bufio.Scanner
	parser *parser
	end    time.Time // zero: write all messages
	n      int       // number of messages written

	tx       *sql.Tx
	sel, ins *sql.Stmt
	upd      *sql.Stmt
	cache    map[string]row
}

// next parses a message into w.parser, until there are no more or the time is up. The first message is always parsed.
func (w *writing) next() bool {
	for (w.n == 0 || w.end.IsZero() || time.Now().Before(w.end)) && w.lines.Scan() {
		if w.parser.parse(w.lines.Bytes()) {
			w.n++
			return true
		}
	}
	return false
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// list joins the results of f for 0 to n-1.
func list(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, ", ")
}

func (w *writing) column(i int) string { return quote(w.names[i]) }

// tuples returns the placeholders of n rows.
func (w *writing) tuples(n int) string {
	cols := len(w.names)
	return list(n, func(r int) string {
		return "(" + list(cols, func(i int) string { return w.db.Placeholder(r*cols + i + 1) }) + ")"
	})
}

func (w *writing) prepare(ctx context.Context) (err error) {
	cols := len(w.names)
	create := "CREATE TABLE t (" + list(cols, func(i int) string { return w.column(i) + " text" }) + ", PRIMARY KEY (" + w.column(0) + "))"
	if _, err := w.conn.ExecContext(ctx, create); err != nil {
		return err
	}
	for stmt, text := range map[**sql.Stmt]string{
		&w.sel: "SELECT " + list(cols, w.column) + " FROM t WHERE " + w.column(0) + " = " + w.db.Placeholder(1),
		&w.ins: "INSERT INTO t VALUES " + w.tuples(1),
		&w.upd: "UPDATE t SET " + list(cols, func(i int) string { return w.column(i) + " = " + w.db.Placeholder(i+1) }) + " WHERE " + w.column(0) + " = " + w.db.Placeholder(cols+1),
	} {
		if *stmt, err = w.conn.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// begin begins a transaction if none is open.
func (w *writing) begin(ctx context.Context) (err error) {
	if w.tx == nil {
		w.tx, err = w.conn.BeginTx(ctx, nil)
	}
	return err
}

func (w *writing) commit() error {
	if w.tx == nil {
		return nil
	}
	tx := w.tx
	w.tx = nil
	return tx.Commit()
}

// singly looks each row up and writes it, and commits after every messages or after period, or only at the end if
// both are 0.
func (w *writing) singly(ctx context.Context, every int, period time.Duration) error {
	n, begun := 0, time.Now()
	for w.next() {
		if err := w.begin(ctx); err != nil {
			return err
		}
		old, err := w.lookUp(ctx, w.parser.id)
		if err != nil {
			return err
		}
		if err := w.write(ctx, w.merged(old), old != nil); err != nil {
			return err
		}
		if n++; n == every || period > 0 && time.Since(begun) >= period {
			if err := w.commit(); err != nil {
				return err
			}
			n, begun = 0, time.Now()
		}
	}
	return w.commit()
}

// lookUp returns the row of an id, or nil.
func (w *writing) lookUp(ctx context.Context, id string) (row, error) {
	r := make(row, len(w.names))
	err := w.tx.StmtContext(ctx, w.sel).QueryRowContext(ctx, id).Scan(pointers(r)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return r, err
}

func pointers(r row) []any {
	p := make([]any, len(r))
	for i := range r {
		p[i] = &r[i]
	}
	return p
}

// merged returns a row merged with the current message.
func (w *writing) merged(old row) row {
	if old == nil {
		old = make(row, len(w.names))
		old[0] = sql.NullString{String: w.parser.id, Valid: true}
	}
	for _, c := range w.parser.set {
		old[c.col] = c.text
	}
	return old
}

func (w *writing) write(ctx context.Context, r row, exists bool) error {
	args := make([]any, 0, len(r)+1)
	for i := range r {
		args = append(args, r[i])
	}
	stmt := w.ins
	if exists {
		stmt, args = w.upd, append(args, r[0])
	}
	_, err := w.tx.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	return err
}

// A message is a message that waits in a batch.
type message struct {
	id  string
	set []cell
}

// batched collects messages for a second, or 10,000 of them, and writes them in one transaction.
func (w *writing) batched(ctx context.Context, write func(ctx context.Context, batch []message) error) error {
	for more := true; more; {
		var batch []message
		for begun := time.Now(); len(batch) < batchMessages && time.Since(begun) < batchPeriod; {
			if more = w.next(); !more {
				break
			}
			batch = append(batch, message{w.parser.id, slices.Clone(w.parser.set)})
		}
		if len(batch) == 0 {
			break
		}
		if err := w.begin(ctx); err != nil {
			return err
		}
		if err := write(ctx, batch); err != nil {
			return err
		}
		if err := w.commit(); err != nil {
			return err
		}
	}
	return nil
}

// cached keeps the rows it has seen, looks the others up together, and writes each row of the batch with a separate
// statement.
func (w *writing) cached(ctx context.Context, batch []message) error {
	var unknown []any
	known := map[string]bool{} // in the database
	for i := range batch {
		if _, ok := w.cache[batch[i].id]; ok {
			known[batch[i].id] = true
		} else if _, asked := known[batch[i].id]; !asked {
			known[batch[i].id] = false
			unknown = append(unknown, batch[i].id)
		}
	}
	for ids := range slices.Chunk(unknown, maxTuples) {
		if err := w.lookUpAll(ctx, ids, known); err != nil {
			return err
		}
	}
	for id, r := range w.fold(batch, w.cache) {
		if err := w.write(ctx, r, known[id]); err != nil {
			return err
		}
	}
	return nil
}

// lookUpAll reads the rows of ids into the cache.
func (w *writing) lookUpAll(ctx context.Context, ids []any, known map[string]bool) (err error) {
	q := "SELECT " + list(len(w.names), w.column) + " FROM t WHERE " + w.column(0) + " IN (" + list(len(ids), func(i int) string { return w.db.Placeholder(i + 1) }) + ")"
	rows, err := w.tx.QueryContext(ctx, q, ids...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		r := make(row, len(w.names))
		if err := rows.Scan(pointers(r)...); err != nil {
			return err
		}
		w.cache[r[0].String], known[r[0].String] = r, true
	}
	return rows.Err()
}

// fold merges a batch into rows, and returns the rows it changed.
func (w *writing) fold(batch []message, rows map[string]row) map[string]row {
	touched := map[string]row{}
	for i := range batch {
		w.parser.id, w.parser.set = batch[i].id, batch[i].set
		r := w.merged(rows[batch[i].id])
		rows[batch[i].id], touched[batch[i].id] = r, r
	}
	return touched
}

// upserts looks nothing up: a column without a value in the batch keeps its value with COALESCE. It cannot set a
// column to NULL, a limitation of such programs.
func (w *writing) upserts(ctx context.Context, batch []message) error {
	var rows []row
	for _, r := range w.fold(batch, map[string]row{}) {
		rows = append(rows, r)
	}
	cols := len(w.names)
	update := " ON CONFLICT (" + w.column(0) + ") DO UPDATE SET " + list(cols, func(i int) string {
		return w.column(i) + " = coalesce(excluded." + w.column(i) + ", t." + w.column(i) + ")"
	})
	for some := range slices.Chunk(rows, max(1, min(maxTuples, maxParameters/cols))) {
		var args []any
		for _, r := range some {
			for i := range r {
				args = append(args, r[i])
			}
		}
		if _, err := w.tx.ExecContext(ctx, "INSERT INTO t VALUES "+w.tuples(len(some))+update, args...); err != nil {
			return err
		}
	}
	return nil
}
