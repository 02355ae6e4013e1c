package sqlite

import (
	"context"

	"github.com/weirsync/weir/internal/sink"
)

// Forget implements [sink.Forgetter].
func (d *DB) Forget(ctx context.Context, job string) (f sink.Forgotten, err error) {
	if err := d.usable(ctx); err != nil {
		return f, err
	}
	known, err := d.hasTable(ctx, "weir_jobs")
	if err != nil || !known {
		return f, d.explain(err)
	}
	err = d.transaction(ctx, func() error {
		versions, err := d.hasTable(ctx, "weir_versions")
		if err != nil {
			return err
		}
		f, err = sink.Ledger(d.ask).Forget(ctx, job, versions, func(sql string) (int64, error) {
			err := d.c.exec(sql)
			return int64(d.c.changes()), err
		})
		return err
	})
	return f, d.judge(err)
}

// DropRejects implements [sink.RejectDropper].
func (d *DB) DropRejects(ctx context.Context, ids []int64) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	return d.judge(d.transaction(ctx, func() error {
		for _, sql := range dialect.DeleteRejects(ids) {
			if err := d.c.exec(sql); err != nil {
				return err
			}
		}
		return nil
	}))
}
