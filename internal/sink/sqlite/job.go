package sqlite

import (
	"context"
	"errors"

	"github.com/weirsync/weir/internal/sink"
)

// Forget implements [sink.Sink].
func (d *DB) Forget(ctx context.Context, job string) (f sink.Forgotten, err error) {
	known, err := d.hasTable(ctx, "weir_jobs")
	if err != nil || !known {
		return f, d.explain(err)
	}
	if err := d.polling(ctx, func() error { return d.c.exec("BEGIN IMMEDIATE") }); err != nil {
		return f, d.explain(err)
	}
	if err = d.forget(ctx, job, &f); err == nil {
		d.wrote = true
		err = d.commit()
	}
	if !d.c.autocommit() {
		err = errors.Join(err, d.c.exec("ROLLBACK"))
	}
	return f, d.explain(err)
}

func (d *DB) forget(ctx context.Context, job string, f *sink.Forgotten) error {
	var alone []string // its tables that no other job has written to
	err := d.c.query("SELECT tbl FROM weir_jobs j WHERE job = ?1 AND NOT EXISTS (SELECT 1 FROM weir_jobs o WHERE o.tbl = j.tbl COLLATE NOCASE AND o.job <> ?1)",
		func(s *stmt) error { alone = append(alone, s.text(0)); return nil }, job)
	err = errors.Join(err,
		d.scalar("SELECT count(*) FROM weir_checkpoints WHERE job = ? AND source NOT GLOB ? || '*'", &f.Sources, job, sink.RunPrefix),
		d.scalar("SELECT count(*) FROM weir_rejects WHERE job = ?", &f.Rejects, job))
	if err != nil {
		return err
	}
	for _, table := range []string{"weir_rejects", "weir_checkpoints", "weir_reject_files", "weir_jobs"} {
		if err := d.c.exec("DELETE FROM "+table+" WHERE job = ?", job); err != nil {
			return err
		}
		f.Found = f.Found || d.c.changes() > 0
	}
	for _, table := range alone {
		had, err := d.dropVersions(ctx, table)
		if err != nil {
			return err
		}
		f.Versions = f.Versions || had
	}
	return nil
}
