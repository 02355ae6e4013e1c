package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/sink"
)

// Forget implements [sink.Sink].
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
	// removal of its tables' versions.
	r, err := d.query(ctx, "BEGIN", "LOCK TABLE "+d.schema+".weir_jobs IN SHARE ROW EXCLUSIVE MODE",
		"SELECT tbl, job = "+name+" FROM "+d.schema+".weir_jobs")
	if err != nil {
		return f, err
	}
	own, others := map[string]bool{}, map[string]bool{}
	for _, row := range r[2].rows {
		of := others
		if string(row[1]) == "t" {
			of = own
		}
		of[identOf(d.schemaOf(string(row[0])))] = true
	}
	s := &script{}
	for _, table := range slices.Sorted(maps.Keys(own)) {
		if !others[table] {
			f.Versions = d.versions
			d.dropVersions(s, table)
		}
	}
	s.add("DELETE FROM %s.weir_jobs WHERE job = %s", d.schema, name)
	s.add("DELETE FROM %s.weir_reject_files WHERE job = %s", d.schema, name)
	s.add("DELETE FROM %s.weir_checkpoints WHERE job = %s AND source LIKE '%s%%'", d.schema, name, sink.RunPrefix)
	sources := s.add("DELETE FROM %s.weir_checkpoints WHERE job = %s", d.schema, name)
	rejects := s.add("DELETE FROM %s.weir_rejects WHERE job = %s", d.schema, name)
	s.add("COMMIT")
	if r, err = d.run(ctx, s); err != nil {
		return f, err
	}
	f.Rejects, f.Sources = r[rejects].tag.RowsAffected(), r[sources].tag.RowsAffected()
	f.Found = len(own) > 0 || f.Sources > 0 || f.Rejects > 0
	return f, nil
}
