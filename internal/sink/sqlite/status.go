package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/sink"
)

// Status implements [sink.Inspector].
func (d *DB) Status(ctx context.Context) (st sink.Status, err error) {
	known, err := d.hasTable(ctx, "weir_jobs")
	if err != nil || !known {
		return st, d.explain(err)
	}
	err = d.c.query("SELECT j.job, j.tables, c.source, c.line, c.offset, c.seq, coalesce(c.updated, (SELECT max(updated) FROM weir_checkpoints WHERE job = j.job))"+
		" FROM (SELECT job, group_concat(tbl, ', ' ORDER BY tbl) AS tables FROM weir_jobs GROUP BY job) j"+
		" LEFT JOIN weir_checkpoints c ON c.job = j.job AND c.source NOT GLOB ? || '*' ORDER BY j.job, c.source",
		func(s *stmt) error {
			st.Jobs = append(st.Jobs, sink.JobStatus{Job: s.text(0), Table: s.text(1), Source: s.text(2),
				Line: s.int(3), Offset: s.int(4), Flushes: s.int(5), Updated: parseTime(s.text(6))})
			return nil
		}, sink.RunPrefix)
	if err != nil {
		return st, d.explain(err)
	}
	err = d.c.query("SELECT job, substr(reason, 1, instr(reason, ':') - 1), count(*) FROM weir_rejects GROUP BY 1, 2 ORDER BY 1, 3 DESC", func(s *stmt) error {
		st.Rejects = append(st.Rejects, sink.RejectCount{Job: s.text(0), Reason: s.text(1), Count: s.int(2)})
		return nil
	})
	return st, d.explain(err)
}

// Rejects implements [sink.Inspector].
func (d *DB) Rejects(ctx context.Context, job string, each func(sink.Kept) error) error {
	known, err := d.hasTable(ctx, "weir_rejects")
	if err != nil || !known {
		return d.explain(err)
	}
	return d.explain(d.c.query("SELECT job, source, line, offset, reason, raw, time FROM weir_rejects WHERE ?1 = '' OR job = ?1 ORDER BY id", func(s *stmt) error {
		raw := s.bytes
		if s.kind(5) == lib.SQLITE_BLOB {
			raw = s.blob
		}
		return each(sink.Kept{Job: s.text(0), Source: s.text(1), Line: s.int(2), Offset: s.int(3),
			Reason: s.text(4), Text: bytes.Clone(raw(5)), Time: parseTime(s.text(6))})
	}, job))
}

// Sample implements [sink.Inspector].
func (d *DB) Sample(_ context.Context, table string, n int) (rows []string, total int64, err error) {
	if err := d.scalar("SELECT count(*) FROM "+quote(table), &total); err != nil {
		return nil, 0, d.explain(err)
	}
	var cols []string
	err = d.c.query("SELECT name FROM pragma_table_info(?)", func(s *stmt) error { cols = append(cols, s.text(0)); return nil }, table)
	if err != nil {
		return nil, 0, d.explain(err)
	}
	err = d.c.query("SELECT * FROM "+quote(table)+" LIMIT ?", func(s *stmt) error {
		var b strings.Builder
		for i, c := range cols {
			var v any
			switch s.kind(i) {
			case lib.SQLITE_NULL:
				continue
			case lib.SQLITE_INTEGER:
				v = s.int(i)
			case lib.SQLITE_FLOAT:
				v = s.real(i)
			default:
				v = s.text(i)
			}
			value, err := json.Marshal(map[string]any{c: v})
			if err != nil {
				return err
			}
			b.WriteString([]string{"{", ","}[min(b.Len(), 1)])
			b.Write(value[1 : len(value)-1])
		}
		rows = append(rows, b.String()+"}")
		return nil
	}, int64(n))
	return rows, total, d.explain(err)
}

func parseTime(s string) time.Time {
	t, _ := time.Parse(timeFormat, s)
	return t
}
