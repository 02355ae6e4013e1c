package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/fold/schema"
)

// Waits between attempts.
const (
	minWait = 5 * time.Millisecond
	maxWait = 5 * time.Second
)

const maxUnknown = 3 // retries of failures with an unknown outcome

// stopGrace is how long a stopping run retries an unavailable database.
const stopGrace = time.Second

// A Retry repeats calls to a database if their errors are not [Permanent]. Waits grow, with jitter. The zero Retry
// repeats nothing.
type Retry struct {
	Patience time.Duration
	// OnRetry is called with each failure before its retry, and with nil when the database answers again.
	OnRetry func(err *Error)
	// Stop ends when the run is stopped. Calls may continue, but an unavailable database is soon given up. nil: the
	// call's own context.
	Stop context.Context
}

// Retried returns the result of a call that is repeated.
func Retried[T any](ctx context.Context, r Retry, call func() (T, error)) (result T, err error) {
	err = r.Do(ctx, func() (err error) { result, err = call(); return err })
	return result, err
}

// Tables returns a function that reads tables, and is repeated.
func (r Retry) Tables(read ReadTables) ReadTables {
	return func(ctx context.Context, wanted ...TableKey) ([]schema.Table, error) {
		return Retried(ctx, r, func() ([]schema.Table, error) { return read(ctx, wanted...) })
	}
}

// Do repeats a call.
func (r Retry) Do(ctx context.Context, call func() error) error {
	if r.OnRetry == nil {
		return call()
	}
	start, unknown := time.Now(), 0
	waits := backoff.Backoff{Min: minWait, Max: maxWait}
	stop := cmp.Or(r.Stop, ctx)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(stop, cancel)()
	var grace context.Context // ends the retries of an unavailable database
	var last error            // the failure before this attempt
	for attempt := 1; ; attempt++ {
		err := call()
		e, failed := errors.AsType[*Error](err)
		switch {
		case last != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return StoppedError{last}
		case !failed && last != nil:
			r.OnRetry(nil)
			return err
		case !failed, e.Class == Permanent:
			return err
		case last == nil && ctx.Err() == context.Canceled: // which is why the call failed
			return ctx.Err()
		case e.Class == Unknown: // the next attempt asks whether it was committed
			if unknown++; unknown > maxUnknown {
				return err // such as of a disk that keeps failing
			}
		}
		limit := ctx
		if e.Unavailable() {
			if grace == nil {
				var done func()
				grace, done = UntilStop(ctx, stop)
				defer done()
			}
			limit = grace
		}
		if limit.Err() != nil {
			return StoppedError{cmp.Or(last, err)} // err may only say that the attempt was cut short
		}
		wait, ok := waits.Next(r.Patience - time.Since(start))
		if !ok {
			return fmt.Errorf("%w (tried for %v; --retry-for says how long)", err, time.Since(start).Round(100*time.Millisecond))
		}
		last, e.Attempt = err, attempt
		r.OnRetry(e)
		if stop.Err() != nil || !e.Unavailable() {
			_ = backoff.Sleep(limit, wait)
		} else if backoff.Sleep(waiting, wait) != nil {
			waits.Reset() // the last attempts follow at once
		}
		if ctx.Err() != nil || limit.Err() != nil {
			return StoppedError{err}
		}
	}
}

// Unavailable reports whether the database cannot be written until somebody repairs it. Otherwise other sessions are at
// work there, and it is worth waiting for them.
func (e *Error) Unavailable() bool {
	return !slices.Contains([]string{"locked", "deadlock", "serialization", "timeout"}, e.Reason)
}

// A StoppedError is the last failure of a call whose retries ended because the run was stopped.
type StoppedError struct{ Err error }

func (e StoppedError) Error() string { return e.Err.Error() + " (stopped during a retry)" }
func (e StoppedError) Unwrap() error { return e.Err }

// UntilStop returns a context that ends with ctx, or shortly after stop; nil: it has no other end than ctx's.
func UntilStop(ctx, stop context.Context) (_ context.Context, done func()) {
	until, cancel := context.WithCancel(ctx)
	if stop == nil {
		return until, cancel
	}
	unwatch := context.AfterFunc(stop, func() {
		_ = backoff.Sleep(until, stopGrace)
		cancel()
	})
	return until, func() { unwatch(); cancel() }
}
