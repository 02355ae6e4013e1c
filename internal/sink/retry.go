package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/schema"
)

// Waits between tries: the first, and the most.
const (
	minWait = 5 * time.Millisecond
	maxWait = 5 * time.Second
)

const maxUnknown = 3 // tries after failures that may have been none

// Retry returns s with its calls repeated, after growing waits with jitter, for as long as
// their errors say that it may help, and at most for patience; but not those of Expire, which
// others may come before. onRetry is called for each failure that is followed by another try.
func Retry(s Sink, patience time.Duration, onRetry func(err *Error)) Sink {
	return &retry{s, patience, onRetry}
}

// RetryClaims returns c with its calls repeated as [Retry] does: [GroupClaims] where c is.
func RetryClaims(c Claims, patience time.Duration, onRetry func(err *Error)) Claims {
	claims := retryClaims{c, retry{nil, patience, onRetry}}
	if g, ok := c.(GroupClaims); ok {
		return &retryGroup{claims, g}
	}
	return &claims
}

type retryGroup struct {
	retryClaims
	group GroupClaims
}

func (r *retryGroup) Database(ctx context.Context) (id string, err error) {
	err = r.retry.do(ctx, func() error { id, err = r.group.Database(ctx); return err })
	return id, err
}

func (r *retryGroup) Begin(ctx context.Context, run string, lanes []Lane) error {
	return r.retry.do(ctx, func() error { return r.group.Begin(ctx, run, lanes) })
}

func (r *retryGroup) TakeOver(ctx context.Context, run string, lanes ...string) (cps []Checkpoint, err error) {
	err = r.retry.do(ctx, func() error { cps, err = r.group.TakeOver(ctx, run, lanes...); return err })
	return cps, err
}

type retryClaims struct {
	Claims
	retry retry
}

func (r *retryClaims) Tables(ctx context.Context) (names []string, err error) {
	err = r.retry.do(ctx, func() error { names, err = r.Claims.Tables(ctx); return err })
	return names, err
}

func (r *retryClaims) Checkpoints(ctx context.Context, lanes ...string) (cps []Checkpoint, err error) {
	err = r.retry.do(ctx, func() error { cps, err = r.Claims.Checkpoints(ctx, lanes...); return err })
	return cps, err
}

func (r *retryClaims) Latest(ctx context.Context) (source string, cp Checkpoint, err error) {
	err = r.retry.do(ctx, func() error { source, cp, err = r.Claims.Latest(ctx); return err })
	return source, cp, err
}

func (r *retryClaims) Take(ctx context.Context, lanes ...string) (cps []Checkpoint, err error) {
	err = r.retry.do(ctx, func() error { cps, err = r.Claims.Take(ctx, lanes...); return err })
	return cps, err
}

func (r *retryClaims) Drop(ctx context.Context, lanes ...string) error {
	return r.retry.do(ctx, func() error { return r.Claims.Drop(ctx, lanes...) })
}

func (r *retryClaims) TakeJob(ctx context.Context) error {
	return r.retry.do(ctx, func() error { return r.Claims.TakeJob(ctx) })
}

func (r *retryClaims) RejectFile(ctx context.Context, path string) (f RejectFile, err error) {
	err = r.retry.do(ctx, func() error { f, err = r.Claims.RejectFile(ctx, path); return err })
	return f, err
}

// Patiently calls again as [Retry] does.
func Patiently(ctx context.Context, patience time.Duration, onRetry func(err *Error), call func() error) error {
	return (&retry{nil, patience, onRetry}).do(ctx, call)
}

type retry struct {
	Sink
	patience time.Duration
	onRetry  func(*Error)
}

func (r *retry) Tables(ctx context.Context, wanted ...TableKey) (tables []schema.Table, err error) {
	err = r.do(ctx, func() error { tables, err = r.Sink.Tables(ctx, wanted...); return err })
	return tables, err
}

func (r *retry) Flush(ctx context.Context, f *Flush) (res Result, err error) {
	err = r.do(ctx, func() error { res, err = r.Sink.Flush(ctx, f); return err })
	return res, err
}

func (r *retry) Outbox(ctx context.Context, o *Outbox) (next []Kept, waiting int64, err error) {
	err = r.do(ctx, func() error { next, waiting, err = r.Sink.Outbox(ctx, o); return err })
	return next, waiting, err
}

func (r *retry) do(ctx context.Context, call func() error) error {
	start, unknown, attempt := time.Now(), 0, 0
	waits := backoff.Backoff{Min: minWait, Max: maxWait}
	for before := error(nil); ; {
		err := call()
		if before != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return stopped(before)
		}
		var e *Error
		if !errors.As(err, &e) || e.Class == Permanent {
			return err
		}
		if before == nil && ctx.Err() == context.Canceled { // which broke the call off: there is no fault to report
			return ctx.Err()
		}
		before = err
		if e.Class == Unknown {
			// To ask whether it happened takes one try more; a disk that keeps
			// failing is not waited for.
			if unknown++; unknown > maxUnknown {
				return err
			}
		}
		waited := time.Since(start)
		wait, ok := waits.Next(r.patience - waited)
		if !ok {
			return fmt.Errorf("%w (tried for %v; --retry-for says how long)", err, waited.Round(100*time.Millisecond))
		}
		attempt++
		e.Attempt = attempt
		r.onRetry(e)
		if backoff.Sleep(ctx, wait) != nil {
			return stopped(err)
		}
	}
}

// stopped is the error of a call that was to be tried again, or was just tried, when the run was
// stopped.
func stopped(err error) error { return fmt.Errorf("%w (stopped during a retry)", err) }
