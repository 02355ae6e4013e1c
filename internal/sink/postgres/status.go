package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/sink"
)

// Status implements [sink.Inspector].
func (d *DB) Status(ctx context.Context) (st sink.Status, err error) {
	if !d.ready {
		return st, nil
	}
	r, err := d.query(ctx,
		fmt.Sprintf(`SELECT j.job, j.tables, coalesce(c.source, ''), coalesce(c.line, 0), coalesce(c."offset", 0), coalesce(c.seq, 0), `+
			micros("coalesce(c.updated, (SELECT max(updated) FROM %[1]s.weir_checkpoints l WHERE l.job = j.job))")+
			` FROM (SELECT job, string_agg(tbl, ', ' ORDER BY tbl COLLATE "C") AS tables FROM %[1]s.weir_jobs GROUP BY job) j`+
			` LEFT JOIN %[1]s.weir_checkpoints c ON c.job = j.job AND c.source NOT LIKE '%[2]s%%' ORDER BY j.job COLLATE "C", c.source COLLATE "C"`, d.schema, sink.RunPrefix),
		fmt.Sprintf(`SELECT job, split_part(reason, ':', 1), count(*) FROM %s.weir_rejects GROUP BY 1, 2 ORDER BY 1, 3 DESC`, d.schema))
	if err != nil {
		return st, d.explain(err)
	}
	for _, row := range r[0].rows {
		st.Jobs = append(st.Jobs, sink.JobStatus{Job: string(row[0]), Table: string(row[1]), Source: string(row[2]),
			Line: number(row[3]), Offset: number(row[4]), Flushes: number(row[5]), Updated: time.UnixMicro(number(row[6])).UTC()})
	}
	for _, row := range r[1].rows {
		st.Rejects = append(st.Rejects, sink.RejectCount{Job: string(row[0]), Reason: string(row[1]), Count: number(row[2])})
	}
	return st, nil
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
