package sqlite

import (
	"context"
	"errors"

	"github.com/weirsync/weir/internal/sink"
)

// Forget implements [sink.Sink].
func (d *DB) Forget(ctx context.Context, job string) (f sink.Forgotten, err error) {
	if err := d.usable(ctx); err != nil {
		return f, err
	}
	known, err := d.hasTable(ctx, "weir_jobs")
	if err != nil || !known {
		return f, d.explain(err)
	}
	if err := d.polling(ctx, func() error { return d.c.exec("BEGIN IMMEDIATE") }); err != nil {
		return f, d.explain(err)
	}
	versions, err := d.hasTable(ctx, "weir_versions")
	if err == nil {
		f, err = sink.Query(d.ask).Forget(ctx, job, versions, func(sql string) (int64, error) {
			err := d.c.exec(sql)
			return int64(d.c.changes()), err
		})
	}
	if err == nil {
		d.wrote = true
		err = d.commit()
	}
	if !d.c.autocommit() {
		err = errors.Join(err, d.c.exec("ROLLBACK"))
	}
	return f, d.explain(err)
}

// Outbox implements [sink.Sink].
func (d *DB) Outbox(ctx context.Context, o *sink.Outbox) (next []sink.Kept, waiting int64, err error) {
	if err := d.usable(ctx); err != nil {
		return nil, 0, err
	}
	err = d.polling(ctx, func() (err error) {
		next, waiting, err = sink.Query(d.ask).Outbox(ctx, o, func(sql func(sink.Dialect) string) error {
			d.wrote = true
			return d.c.exec(sql(dialect))
		})
		return err
	})
	err = d.explain(err)
	if failed := (*sink.Error)(nil); errors.As(err, &failed) && failed.Class == sink.Unknown {
		d.disconnect() // as after a flush
	}
	return next, waiting, err
}
