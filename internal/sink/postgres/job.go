package postgres

import (
	"context"
	"errors"

	"github.com/weirsync/weir/internal/sink"
)

// Forget implements [sink.Forgetter].
func (d *DB) Forget(ctx context.Context, job string) (f sink.Forgotten, err error) {
	if !d.ready {
		return f, nil
	}
	if d.versions, err = d.hasVersions(ctx); err != nil {
		return f, d.explain(err)
	}
	name := d.literal(job)
	r, err := d.query(ctx, "SELECT job, coalesce(tbl, '') FROM "+d.schema+".weir_jobs ORDER BY job = "+name)
	if err != nil {
		return f, d.explain(err)
	}
	table, shared := "", false
	if n := len(r[0].rows); n > 0 && string(r[0].rows[n-1][0]) == job {
		f.Found = true
		if tbl := string(r[0].rows[n-1][1]); tbl != "" {
			table = identOf(d.schemaOf(tbl))
		}
		for _, row := range r[0].rows[:n-1] {
			shared = shared || string(row[1]) != "" && identOf(d.schemaOf(string(row[1]))) == table
		}
	}
	s := &script{}
	s.add("BEGIN")
	rejects := s.add("DELETE FROM %s.weir_rejects WHERE job = %s", d.schema, name)
	sources := s.add("DELETE FROM %s.weir_checkpoints WHERE job = %s", d.schema, name)
	s.add("DELETE FROM %s.weir_jobs WHERE job = %s", d.schema, name)
	if table != "" && !shared {
		f.Versions = d.versions
		d.dropVersions(s, table)
	}
	s.add("COMMIT")
	if r, err = d.run(ctx, s); err != nil {
		if d.conn != nil {
			err = errors.Join(err, d.rollback(ctx))
		}
		return f, d.explain(err)
	}
	f.Rejects, f.Sources = r[rejects].tag.RowsAffected(), r[sources].tag.RowsAffected()
	f.Found = f.Found || f.Rejects > 0
	return f, nil
}
