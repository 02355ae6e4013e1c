package sinktest

import (
	"context"
	"time"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Retry returns s with its calls repeated, as a run repeats them.
func Retry(s sink.Sink, patience time.Duration, onRetry func(err *sink.Error)) sink.Sink {
	return &intercepted{s, repeatedly(patience, onRetry)}
}

func repeatedly(patience time.Duration, onRetry func(err *sink.Error)) around {
	return func(ctx context.Context, _ string, _ *sink.Flush, call func() error) error {
		return sink.Retry{Patience: patience, OnRetry: onRetry}.Do(ctx, call)
	}
}

// An around makes a method's call. f is nil unless the method is Flush. It may call several times, or not at all.
type around func(ctx context.Context, method string, f *sink.Flush, call func() error) error

// intercepted is a sink whose calls are made through around, except Caps and Close. It has all optional parts.
type intercepted struct {
	sink.Sink
	around around
}

func (i *intercepted) Tables(ctx context.Context, wanted ...sink.TableKey) (tables []schema.Table, err error) {
	err = i.around(ctx, "Tables", nil, func() error { tables, err = i.Sink.Tables(ctx, wanted...); return err })
	return tables, err
}

func (i *intercepted) Flush(ctx context.Context, f *sink.Flush) (res sink.Result, err error) {
	if err = i.around(ctx, "Flush", f, func() error { res, err = i.Sink.Flush(ctx, f); return err }); err != nil {
		return sink.Result{}, err
	}
	return res, nil
}

func (i *intercepted) DropRejects(ctx context.Context, job, reason string) (dropped int64, err error) {
	inner, err := sink.As[sink.RejectDropper](i.Sink, "drop rejected lines")
	if err != nil {
		return 0, err
	}
	err = i.around(ctx, "DropRejects", nil, func() (err error) {
		dropped, err = inner.DropRejects(ctx, job, reason)
		return err
	})
	return dropped, err
}

func (i *intercepted) Execute(ctx context.Context, sql string) error {
	inner, err := sink.As[sink.Housekeeper](i.Sink, "execute SQL")
	if err != nil {
		return err
	}
	return inner.Execute(ctx, sql)
}

func (i *intercepted) Forget(ctx context.Context, job string) (sink.Forgotten, error) {
	inner, err := sink.As[sink.Forgetter](i.Sink, "forget a job")
	if err != nil {
		return sink.Forgotten{}, err
	}
	return inner.Forget(ctx, job)
}

type interceptedClaims struct {
	sink.Claims
	around around
}

func (i *interceptedClaims) Tables(ctx context.Context) (names []string, err error) {
	err = i.around(ctx, "Tables", nil, func() error { names, err = i.Claims.Tables(ctx); return err })
	return names, err
}

func (i *interceptedClaims) Checkpoints(ctx context.Context, lanes ...string) (cps []sink.Checkpoint, err error) {
	err = i.around(ctx, "Checkpoints", nil, func() error { cps, err = i.Claims.Checkpoints(ctx, lanes...); return err })
	return cps, err
}

func (i *interceptedClaims) Latest(ctx context.Context) (source string, cp sink.Checkpoint, err error) {
	err = i.around(ctx, "Latest", nil, func() error { source, cp, err = i.Claims.Latest(ctx); return err })
	return source, cp, err
}

func (i *interceptedClaims) Take(ctx context.Context, lanes ...string) (cps []sink.Checkpoint, err error) {
	err = i.around(ctx, "Take", nil, func() error { cps, err = i.Claims.Take(ctx, lanes...); return err })
	return cps, err
}

func (i *interceptedClaims) Drop(ctx context.Context, lanes ...string) error {
	return i.around(ctx, "Drop", nil, func() error { return i.Claims.Drop(ctx, lanes...) })
}

func (i *interceptedClaims) TakeJob(ctx context.Context) error {
	return i.around(ctx, "TakeJob", nil, func() error { return i.Claims.TakeJob(ctx) })
}

type interceptedGroup struct {
	interceptedClaims
	group sink.GroupClaims
}

func (i *interceptedGroup) Database(ctx context.Context) (id string, err error) {
	err = i.around(ctx, "Database", nil, func() error { id, err = i.group.Database(ctx); return err })
	return id, err
}

func (i *interceptedGroup) Begin(ctx context.Context, run string, lanes []sink.Lane) error {
	return i.around(ctx, "Begin", nil, func() error { return i.group.Begin(ctx, run, lanes) })
}

func (i *interceptedGroup) TakeOver(ctx context.Context, run string, lanes ...string) (cps []sink.Checkpoint, err error) {
	err = i.around(ctx, "TakeOver", nil, func() error { cps, err = i.group.TakeOver(ctx, run, lanes...); return err })
	return cps, err
}
