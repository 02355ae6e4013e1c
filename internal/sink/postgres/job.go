package postgres

import (
	"context"
	"errors"

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
	if d.versions, err = d.hasVersions(ctx); err != nil {
		return f, err
	}
	name := d.literal(job)
	// The lock keeps a first flush of another job from coming between the look and the
	// removal of its table's versions.
	r, err := d.query(ctx, "BEGIN", "LOCK TABLE "+d.schema+".weir_jobs IN SHARE ROW EXCLUSIVE MODE",
		"SELECT job, coalesce(tbl, '') FROM "+d.schema+".weir_jobs ORDER BY job = "+name)
	if err != nil {
		return f, err
	}
	table, shared := "", false
	if rows := r[2].rows; len(rows) > 0 && string(rows[len(rows)-1][0]) == job {
		f.Found = true
		if tbl := string(rows[len(rows)-1][1]); tbl != "" {
			table = identOf(d.schemaOf(tbl))
		}
		for _, row := range rows[:len(rows)-1] {
			shared = shared || string(row[1]) != "" && identOf(d.schemaOf(string(row[1]))) == table
		}
	}
	s := &script{}
	rejects := s.add("DELETE FROM %s.weir_rejects WHERE job = %s", d.schema, name)
	sources := s.add("DELETE FROM %s.weir_checkpoints WHERE job = %s", d.schema, name)
	s.add("DELETE FROM %s.weir_jobs WHERE job = %s", d.schema, name)
	if table != "" && !shared {
		f.Versions = d.versions
		d.dropVersions(s, table)
	}
	s.add("COMMIT")
	if r, err = d.run(ctx, s); err != nil {
		return f, err
	}
	f.Rejects, f.Sources = r[rejects].tag.RowsAffected(), r[sources].tag.RowsAffected()
	f.Found = f.Found || f.Rejects > 0
	return f, nil
}
