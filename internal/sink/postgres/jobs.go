package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// ledger returns weir's own tables, as the flushes' connection sees them.
func (d *DB) ledger() sink.Ledger {
	return sink.Ledger{
		Query: func(ctx context.Context, sql func(sink.Dialect) string) ([][][]byte, error) {
			if !d.ready {
				return nil, nil
			}
			r, err := d.query(ctx, sql(d.dialect()))
			if err != nil {
				return nil, d.sinkError(err)
			}
			return r[0].rows, nil
		},
		Exec: func(ctx context.Context, sql func(sink.Dialect) []string) (changed []int64, err error) {
			statements := sql(d.dialect())
			if !d.ready || len(statements) == 0 {
				return nil, nil
			}
			r, err := d.query(ctx, statements...)
			for i := range r {
				changed = append(changed, r[i].tag.RowsAffected())
			}
			return changed, err
		},
		Transaction: d.transaction,
	}
}

// transaction implements [sink.Ledger].Transaction.
func (d *DB) transaction(ctx context.Context, f func(sink.Ledger) error) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	_, err := d.query(ctx, "BEGIN")
	if err == nil {
		err = f(d.Ledger)
	}
	if err == nil {
		_, err = d.query(ctx, "COMMIT")
	}
	if err != nil {
		err = errors.Join(err, d.rollback(ctx))
	}
	return d.sinkError(err)
}

// Sample implements [sink.Inspector].
func (d *DB) Sample(ctx context.Context, table string, n int) (rows []string, total int64, err error) {
	schemaName, rel, err := splitName(table)
	if err != nil {
		return nil, 0, err
	}
	from := identOf(schemaName, rel)
	r, err := d.query(ctx, "SELECT count(*) FROM "+from, fmt.Sprintf("SELECT row_to_json(t.*) FROM %s t LIMIT %d", from, n))
	if err != nil {
		return nil, 0, d.sinkError(err)
	}
	for _, row := range r[1].rows {
		rows = append(rows, string(row[0]))
	}
	return rows, sink.Number(r[0].rows[0][0]), nil
}

// dialect returns the SQL for weir's own tables.
func (c *client) dialect() sink.Dialect {
	return sink.Dialect{Prefix: c.schema + ".", Integer: "bigint", Time: "timestamptz", Bytes: "bytea", Serial: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
		Raw: "raw text,\n  bytes bytea", Hot: " WITH (fillfactor = 50)", Keyed: " WITH (fillfactor = 50)", KeyOrder: "key, tbl",
		Bytewise: ` COLLATE "C"`, Lock: "LOCK TABLE {p}weir_jobs IN SHARE ROW EXCLUSIVE MODE", Reason: "split_part(reason, ':', 1)", Kept: "encode(bytes, 'hex'), raw",
		Writer: writerSQL, Micros: micros, Now: "now()", Moment: func(t time.Time) string { return fmt.Sprintf("to_timestamp(%d)", t.Unix()) }, Text: literal, Table: func(name string) string { return identOf(c.schemaOf(name)) }}
}

// micros returns SQL for a time as microseconds since 1970, independent of the session's settings.
func micros(t string) string { return "(extract(epoch FROM " + t + ") * 1000000)::bigint" }

// keep adds a COPY that writes rejected lines. They may be as large as the batch, and larger as SQL; a COPY does not
// hold them twice.
func (d *DB) keep(s *script, f *sink.Flush, rejects []fold.Reject) {
	if len(rejects) == 0 {
		return
	}
	job, sources := storable(f.Job), make([]string, len(f.Lanes))
	for i := range sources {
		sources[i] = storable(f.Lanes[i].Source)
	}
	s.put(statement{sql: `COPY ` + d.schema + `.weir_rejects (job, source, line, "offset", element, reason, raw, bytes, time) FROM STDIN`, copy: func(w *copyWriter) error {
		text := func(line []byte, s string) []byte { return append(appendCopyText(line, []byte(s)), '\t') }
		for i := range rejects {
			r := &rejects[i]
			line := text(text(w.line(), job), sources[r.Lane])
			line = fmt.Appendf(line, "%d\t%d\t%d\t", r.Line, r.Offset, r.Element)
			line = text(line, storable(r.Why()))
			raw := string(r.Text)
			shown := storable(raw)
			if line = text(line, shown); shown == raw && utf8.ValidString(raw) {
				line = append(line, `\N`...)
			} else {
				line = hex.AppendEncode(append(line, `\\x`...), r.Text)
			}
			if err := w.done(append(line, "\tnow\n"...)); err != nil { // the transaction's time
				return err
			}
		}
		return nil
	}})
}

// Execute implements [sink.Housekeeper].
func (d *DB) Execute(ctx context.Context, sql string) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	s := &script{}
	s.addAll("BEGIN", briefly, block(sql), "COMMIT")
	_, err := d.run(ctx, s)
	if err == nil {
		return nil
	}
	if undo := d.rollback(context.WithoutCancel(ctx)); undo != nil {
		d.drop()
	}
	return d.sinkError(err)
}

// block returns a statement that executes SQL of the user's. In a DO block it may be several statements, and cannot end
// the transaction.
func block(sql string) string {
	return "DO " + literal("BEGIN EXECUTE "+literal(sql)+"; END")
}
