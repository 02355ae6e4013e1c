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

// Outbox implements [sink.DeadLetters].
func (d *DB) Outbox(ctx context.Context, o *sink.Outbox) (next []sink.Kept, waiting int64, err error) {
	if err := d.usable(ctx); err != nil {
		return nil, 0, err
	}
	err = d.polling(ctx, func() (err error) {
		next, waiting, err = sink.Ledger(d.ask).Outbox(ctx, o, func(sql func(sink.Dialect) string) error {
			d.wrote = true
			return d.c.exec(sql(dialect))
		})
		return err
	})
	return next, waiting, d.judge(err)
}
