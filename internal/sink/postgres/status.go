package postgres

import (
	"context"
	"fmt"

	"github.com/weirsync/weir/internal/sink"
)

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

// micros is SQL for a time as microseconds since 1970, which no setting of the
// session changes.
func micros(t string) string { return "(extract(epoch FROM " + t + ") * 1000000)::bigint" }

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
