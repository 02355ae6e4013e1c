package sqlite

import (
	"time"

	"github.com/weirsync/weir/internal/sink"
)

// Status reads what the database knows of jobs and rejects.
func (d *DB) Status() (st sink.Status, err error) {
	known, err := d.hasTable("weir_jobs")
	if err != nil || !known {
		return st, d.explain(err)
	}
	err = d.c.query("SELECT j.job, j.tbl, c.source, c.line, c.offset, j.seq, coalesce(c.updated, j.updated) FROM weir_jobs j LEFT JOIN weir_checkpoints c USING (job) ORDER BY j.job, c.source",
		func(s *stmt) error {
			st.Jobs = append(st.Jobs, sink.JobStatus{Job: s.text(0), Table: s.text(1), Source: s.text(2),
				Line: s.int(3), Offset: s.int(4), Flushes: s.int(5), Updated: parseTime(s.text(6))})
			return nil
		})
	if err != nil {
		return st, d.explain(err)
	}
	err = d.c.query("SELECT job, substr(reason, 1, instr(reason, ':') - 1), count(*) FROM weir_rejects GROUP BY 1, 2 ORDER BY 1, 3 DESC", func(s *stmt) error {
		st.Rejects = append(st.Rejects, sink.RejectCount{Job: s.text(0), Reason: s.text(1), Count: s.int(2)})
		return nil
	})
	return st, d.explain(err)
}

// Rejects calls each with every rejected line that is kept, in the order in
// which they were rejected; of one job alone where job is not empty.
func (d *DB) Rejects(job string, each func(sink.Kept) error) error {
	known, err := d.hasTable("weir_rejects")
	if err != nil || !known {
		return d.explain(err)
	}
	return d.explain(d.c.query("SELECT job, source, line, offset, reason, raw, time FROM weir_rejects WHERE ?1 = '' OR job = ?1 ORDER BY id", func(s *stmt) error {
		return each(sink.Kept{Job: s.text(0), Source: s.text(1), Line: s.int(2), Offset: s.int(3),
			Reason: s.text(4), Text: append([]byte(nil), s.bytes(5)...), Time: parseTime(s.text(6))})
	}, job))
}

func parseTime(s string) time.Time {
	t, _ := time.Parse(timeFormat, s)
	return t
}
