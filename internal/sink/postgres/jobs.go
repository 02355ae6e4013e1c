package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/sink"
)

// Forget implements [sink.Forgetter].
func (d *DB) Forget(ctx context.Context, job string) (sink.Forgotten, error) {
	if !d.ready {
		return sink.Forgotten{}, nil
	}
	f, err := d.forget(ctx, job)
	if err != nil && d.conn != nil {
		err = errors.Join(err, d.rollback(ctx))
	}
	return f, d.explain(err)
}

func (d *DB) forget(ctx context.Context, job string) (f sink.Forgotten, err error) {
	if err := d.askReady(ctx); err != nil {
		return f, err
	}
	// The lock keeps a first flush of another job from coming between the look and the
	// removal of its tables' versions.
	if _, err := d.query(ctx, "BEGIN", "LOCK TABLE "+d.schema+".weir_jobs IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		return f, err
	}
	f, err = d.Ledger.Forget(ctx, job, d.versions, func(sql string) (int64, error) {
		r, err := d.query(ctx, sql)
		if err != nil {
			return 0, err
		}
		return r[0].tag.RowsAffected(), nil
	})
	if err == nil {
		_, err = d.query(ctx, "COMMIT")
	}
	return f, err
}

// Outbox implements [sink.DeadLetters].
func (d *DB) Outbox(ctx context.Context, o *sink.Outbox) (next []sink.Kept, waiting int64, err error) {
	if err := d.connect(ctx); err != nil {
		return nil, 0, err
	}
	next, waiting, err = d.Ledger.Outbox(ctx, o, func(sql func(sink.Dialect) string) error {
		_, err := d.query(ctx, sql(d.dialect()))
		return err
	})
	return next, waiting, d.explain(err)
}

// ask is a [sink.Ledger].
func (d *DB) ask(ctx context.Context, sql func(sink.Dialect) string) ([][][]byte, error) {
	if !d.ready {
		return nil, nil
	}
	r, err := d.query(ctx, sql(d.dialect()))
	if err != nil {
		return nil, d.explain(err)
	}
	return r[0].rows, nil
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
		return nil, 0, d.explain(err)
	}
	for _, row := range r[1].rows {
		rows = append(rows, string(row[0]))
	}
	return rows, number(r[0].rows[0][0]), nil
}

// dialect is how Postgres declares weir's own tables.
func (c *client) dialect() sink.Dialect {
	return sink.Dialect{Prefix: c.schema + ".", Integer: "bigint", Time: "timestamptz", Bytes: "bytea", Serial: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
		Raw: "raw text,\n  bytes bytea", Hot: " WITH (fillfactor = 50)", Keyed: " WITH (fillfactor = 50)", KeyOrder: "key, tbl",
		Bytewise: ` COLLATE "C"`, Reason: "split_part(reason, ':', 1)", Kept: "encode(bytes, 'hex'), raw",
		Writer: writerSQL, Micros: micros, Moment: func(t time.Time) string { return fmt.Sprintf("to_timestamp(%d)", t.Unix()) }, Text: literal, Table: func(name string) string { return identOf(c.schemaOf(name)) }}
}

// micros is SQL for a time as microseconds since 1970, which no setting of the
// session changes.
func micros(t string) string { return "(extract(epoch FROM " + t + ") * 1000000)::bigint" }
