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
	if err := d.askReady(ctx); err != nil {
		return f, err
	}
	// The lock keeps a first flush of another job from coming between the look and the
	// removal of its tables' versions.
	if _, err := d.query(ctx, "BEGIN", "LOCK TABLE "+d.schema+".weir_jobs IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		return f, err
	}
	f, err = d.Ledger.Forget(ctx, job, d.versions, func(sql string) (int64, error) {
		r, err := d.query(ctx, sql)
		if err != nil {
			return 0, err
		}
		return r[0].tag.RowsAffected(), nil
	})
	if err == nil {
		_, err = d.query(ctx, "COMMIT")
	}
	return f, err
}

// Outbox implements [sink.DeadLetters].
func (d *DB) Outbox(ctx context.Context, o *sink.Outbox) (next []sink.Kept, waiting int64, err error) {
	if err := d.connect(ctx); err != nil {
		return nil, 0, err
	}
	next, waiting, err = d.Ledger.Outbox(ctx, o, func(sql func(sink.Dialect) string) error {
		_, err := d.query(ctx, sql(d.dialect()))
		return err
	})
	return next, waiting, d.explain(err)
}
