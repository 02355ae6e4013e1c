package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/sink"
)

// ask is a [sink.Query].
func (d *DB) ask(ctx context.Context, sql func(sink.Dialect) string) ([][][]byte, error) {
	if !d.ready {
		return nil, nil
	}
	r, err := d.query(ctx, sql(d.dialect()))
	if err != nil {
		return nil, err
	}
	return r[0].rows, nil
}

// Status implements [sink.Inspector].
func (d *DB) Status(ctx context.Context) (sink.Status, error) {
	st, err := sink.Query(d.ask).Status(ctx)
	return st, d.explain(err)
}

// micros is SQL for a time as microseconds since 1970, which no setting of the
// session changes.
func micros(t string) string { return "(extract(epoch FROM " + t + ") * 1000000)::bigint" }

// Rejects implements [sink.Inspector].
func (d *DB) Rejects(ctx context.Context, job string, each func(sink.Kept) error) error {
	if !d.ready {
		return nil
	}
	of := ""
	if job != "" {
		of = " AND job = " + d.literal(job)
	}
	for last := int64(0); ; {
		r, err := d.query(ctx, fmt.Sprintf(`SELECT id, job, source, line, "offset", reason, coalesce(encode(bytes, 'hex'), ''), raw, `+micros("time")+
			" FROM %s.weir_rejects WHERE id > %d%s ORDER BY id LIMIT 1000", d.schema, last, of))
		if err != nil {
			return d.explain(err)
		}
		for _, row := range r[0].rows {
			last = number(row[0])
			text := row[7]
			if len(row[6]) > 0 {
				if text, err = hex.DecodeString(string(row[6])); err != nil {
					return err
				}
			}
			err := each(sink.Kept{Job: string(row[1]), Source: string(row[2]), Line: number(row[3]), Offset: number(row[4]),
				Reason: string(row[5]), Text: text, Time: time.UnixMicro(number(row[8])).UTC()})
			if err != nil {
				return err
			}
		}
		if len(r[0].rows) == 0 {
			return nil
		}
	}
}

// Sample implements [sink.Inspector].
func (d *DB) Sample(ctx context.Context, table string, n int) (rows []string, total int64, err error) {
	schemaName, rel, err := splitName(table)
	if err != nil {
		return nil, 0, err
	}
	from := identOf(schemaName, rel)
	r, err := d.query(ctx, "SELECT count(*) FROM "+from, fmt.Sprintf("SELECT json_strip_nulls(row_to_json(t.*)) FROM %s t LIMIT %d", from, n))
	if err != nil {
		return nil, 0, d.explain(err)
	}
	for _, row := range r[1].rows {
		rows = append(rows, string(row[0]))
	}
	return rows, number(r[0].rows[0][0]), nil
}
