package sink

import (
	"context"

	"github.com/weirsync/weir/internal/schema"
)

// An Around makes a method's call. f is nil unless the method is Flush. It may call several times, or not at all.
type Around func(ctx context.Context, method string, f *Flush, call func() error) error

// Intercept returns a Sink that makes s's calls through around, except Caps, Forget, Gauges and Close.
func Intercept(s Sink, around Around) Sink { return &intercepted{s, around} }

// InterceptClaims returns Claims that make c's calls through around, except Close. The result is a [GroupClaims] if c
// is one.
func InterceptClaims(c Claims, around Around) Claims {
	claims := interceptedClaims{c, around}
	if g, ok := c.(GroupClaims); ok {
		return &interceptedGroup{claims, g}
	}
	return &claims
}

type intercepted struct {
	Sink
	around Around
}

func (i *intercepted) Tables(ctx context.Context, wanted ...TableKey) (tables []schema.Table, err error) {
	err = i.around(ctx, "Tables", nil, func() error { tables, err = i.Sink.Tables(ctx, wanted...); return err })
	return tables, err
}

func (i *intercepted) Flush(ctx context.Context, f *Flush) (res Result, err error) {
	if err = i.around(ctx, "Flush", f, func() error { res, err = i.Sink.Flush(ctx, f); return err }); err != nil {
		return Result{}, err
	}
	return res, nil
}

// The optional methods are only called if the inner sink has them: see [As].

func (i *intercepted) DropRejects(ctx context.Context, ids []int64) error {
	return i.around(ctx, "DropRejects", nil, func() error { return i.Sink.(RejectDropper).DropRejects(ctx, ids) })
}

func (i *intercepted) Execute(ctx context.Context, sql string) error {
	return i.Sink.(Housekeeper).Execute(ctx, sql)
}

func (i *intercepted) MakeSchema(ctx context.Context, missing NoSchemaError) error {
	return i.around(ctx, "MakeSchema", nil, func() error { return i.Sink.(SchemaMaker).MakeSchema(ctx, missing) })
}

func (i *intercepted) Forget(ctx context.Context, job string) (Forgotten, error) {
	return i.Sink.(Forgetter).Forget(ctx, job)
}

func (i *intercepted) Gauges() []Gauge { return i.Sink.(Gauged).Gauges() }

type interceptedClaims struct {
	Claims
	around Around
}

func (i *interceptedClaims) Tables(ctx context.Context) (names []string, err error) {
	err = i.around(ctx, "Tables", nil, func() error { names, err = i.Claims.Tables(ctx); return err })
	return names, err
}

func (i *interceptedClaims) Checkpoints(ctx context.Context, lanes ...string) (cps []Checkpoint, err error) {
	err = i.around(ctx, "Checkpoints", nil, func() error { cps, err = i.Claims.Checkpoints(ctx, lanes...); return err })
	return cps, err
}

func (i *interceptedClaims) Latest(ctx context.Context) (source string, cp Checkpoint, err error) {
	err = i.around(ctx, "Latest", nil, func() error { source, cp, err = i.Claims.Latest(ctx); return err })
	return source, cp, err
}

func (i *interceptedClaims) Take(ctx context.Context, lanes ...string) (cps []Checkpoint, err error) {
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
	group GroupClaims
}

func (i *interceptedGroup) Database(ctx context.Context) (id string, err error) {
	err = i.around(ctx, "Database", nil, func() error { id, err = i.group.Database(ctx); return err })
	return id, err
}

func (i *interceptedGroup) Begin(ctx context.Context, run string, lanes []Lane) error {
	return i.around(ctx, "Begin", nil, func() error { return i.group.Begin(ctx, run, lanes) })
}

func (i *interceptedGroup) TakeOver(ctx context.Context, run string, lanes ...string) (cps []Checkpoint, err error) {
	err = i.around(ctx, "TakeOver", nil, func() error { cps, err = i.group.TakeOver(ctx, run, lanes...); return err })
	return cps, err
}
