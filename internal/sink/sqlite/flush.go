package sqlite

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// dialect is the SQL for weir's own tables.
var dialect = sink.Dialect{Integer: "INTEGER", Time: "TEXT", Bytes: "BLOB", Serial: "INTEGER PRIMARY KEY", Raw: "raw TEXT", Keyed: " WITHOUT ROWID",
	Reason: "substr(reason, 1, instr(reason, ':') - 1)", Kept: "CASE typeof(raw) WHEN 'blob' THEN hex(raw) END, raw",
	Micros: func(sql string) string {
		return "CAST(round(unixepoch(" + sql + ", 'subsec') * 1000) AS INTEGER) * 1000"
	},
	Now:    "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
	Moment: func(t time.Time) string { return literal(t.UTC().Format(timeFormat)) }, Text: literal, Line: appendLine, Table: lower}

// appendLine appends a literal of a rejected line. As text, invalid UTF-8 would be read back differently.
func appendLine(dst, line []byte) []byte {
	if utf8.Valid(line) {
		return append(dst, literal(string(line))...)
	}
	return append(hex.AppendEncode(append(dst, "x'"...), line), '\'')
}

const timeFormat = "2006-01-02T15:04:05.000Z"

// Flush implements [sink.Sink].
func (d *DB) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	d.turn.yield()
	var res sink.Result
	var tables []*table
	err := d.transact(ctx, func() (err error) {
		if res, tables, err = d.write(ctx, f); err == nil {
			d.last = res // it counts if the reply is lost and the commit is not
		}
		return err
	})
	if err == nil {
		for _, t := range tables {
			d.tables[lower(t.Name)] = t
		}
		d.trim()
	}
	return res, err
}

// transact calls f in a write transaction, commits unless f fails, and classifies the error. It disconnects if a COMMIT
// may have succeeded although it failed: this connection can no longer be trusted, so the next try asks the file.
func (d *DB) transact(ctx context.Context, f func() error) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	err := d.explain(d.transaction(ctx, f))
	if e := (*sink.Error)(nil); errors.As(err, &e) && e.Class == sink.Unknown {
		d.disconnect()
	}
	return err
}

func (d *DB) transaction(ctx context.Context, f func() error) error {
	if err := d.polling(ctx, func() error { return d.c.exec("BEGIN IMMEDIATE") }); err != nil {
		return err
	}
	d.wrote = true
	err := f()
	if err == nil {
		err = d.commit()
	}
	if !d.c.autocommit() {
		err = errors.Join(err, d.c.exec("ROLLBACK"))
	}
	d.turn.released = time.Now()
	return err
}

// usable makes sure that the connection is open, and that its file is still the one at the path: SQLite continues to
// write into a file that was deleted or replaced, and reports success.
func (d *DB) usable(ctx context.Context) error {
	if d.c == nil {
		if err := d.reconnect(ctx); err != nil {
			return err
		}
	}
	now, err := os.Stat(d.path)
	if err != nil {
		return fmt.Errorf("the database file is missing under the run: %w", err)
	}
	if !os.SameFile(now, d.id) {
		return fmt.Errorf("the database file %s was replaced by another under the run; what this run has committed since then is lost with the old one", d.path)
	}
	return nil
}

// reconnect reopens the file, and rereads the run's tables.
func (d *DB) reconnect(ctx context.Context) error {
	if err := d.open(ctx, lib.SQLITE_OPEN_READWRITE); err != nil {
		return err
	}
	// After a failed fsync, the file's content may exist only in memory. A checkpoint of the log writes and syncs it
	// again.
	err := d.checkpointAll(ctx)
	for _, was := range d.tables {
		if err != nil {
			break
		}
		var now schema.Table
		if now, err = d.table(ctx, was.Name, was.key); err == nil {
			err = sink.CheckSame(&was.Table, &now)
		}
	}
	if err != nil {
		d.disconnect()
	}
	return err
}

// commit ends the transaction. Without a WAL readers can block it; the transaction then stays open.
func (d *DB) commit() error {
	err := d.polling(context.Background(), func() error { return d.c.exec("COMMIT") })
	var e *Error
	if errors.As(err, &e) {
		e.Doing = "committing"
	}
	return err
}

// write does everything in a flush between BEGIN and COMMIT, and returns the tables as they then are. If the flush is
// already committed, it does nothing, and returns its result.
func (d *DB) write(ctx context.Context, f *sink.Flush) (res sink.Result, tables []*table, err error) {
	if err := d.c.execAll(dialect.Create()...); err != nil {
		return res, nil, err
	}
	if done, err := d.CheckFence(ctx, f); done || err != nil {
		return d.last, nil, err
	}
	tables = make([]*table, len(f.Batches))
	for i, b := range f.Batches {
		tables[i] = d.lastRead(b)
	}
	if f.Rebuild {
		if err := d.empty(ctx, f, tables); err != nil {
			return res, nil, err
		}
	}
	if res, err = d.writeRows(ctx, f, tables); err != nil {
		return res, nil, err
	}
	written := make([]*schema.Table, len(tables))
	for i := range tables {
		written[i] = &tables[i].Table
	}
	return res, tables, d.Record(ctx, f, written, res.Refused)
}

// trim truncates the log if it has grown: a long-lived reader prevents its reuse.
func (d *DB) trim() {
	if d.walBytes() >= walLimit {
		_ = d.pragma("wal_checkpoint(TRUNCATE)") // a reader's lock is no failure here
	}
}
