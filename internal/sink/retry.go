package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/backoff"
)

// Waits between tries: the shortest, and the longest.
const (
	minWait = 5 * time.Millisecond
	maxWait = 5 * time.Second
)

const maxUnknown = 3 // tries after failures that may have been none

// lastTries is for how long a database that is unavailable is tried when the run is to end.
const lastTries = time.Second

// Retry returns s with its calls repeated, after growing waits with jitter, for as long as
// their errors say that it may help, and at most for patience; but not those of Expire, which
// others may come before. onRetry is called for each failure that is followed by another try, and
// with nil when the database has answered such a call at last.
func Retry(s Sink, patience time.Duration, onRetry func(err *Error)) Sink {
	return Intercept(s, patiently(patience, onRetry))
}

// RetryClaims returns Claims that repeat c's calls as [Retry] does. The result is a [GroupClaims] if c is one.
func RetryClaims(c Claims, patience time.Duration, onRetry func(err *Error)) Claims {
	return InterceptClaims(c, patiently(patience, onRetry))
}

func patiently(patience time.Duration, onRetry func(err *Error)) Around {
	return func(ctx context.Context, method string, _ *Flush, call func() error) error {
		if method == "Expire" {
			return call()
		}
		return Patiently(ctx, patience, onRetry, call)
	}
}

// Patiently repeats a call as [Retry] does.
func Patiently(ctx context.Context, patience time.Duration, onRetry func(err *Error), call func() error) error {
	start, unknown, attempt := time.Now(), 0, 0
	stop, stopped := stopOf(ctx), time.Time{}
	waits := backoff.Backoff{Min: minWait, Max: maxWait}
	for before := error(nil); ; {
		err := call()
		if before != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return StoppedError{before}
		}
		var e *Error
		if !errors.As(err, &e) && before != nil {
			onRetry(nil)
		}
		if e == nil || e.Class == Permanent {
			return err
		}
		if before == nil && ctx.Err() == context.Canceled { // which ended the call: there is no error to report
			return ctx.Err()
		}
		if e.Class == Unknown {
			// One more try asks whether it was committed. A disk that keeps failing is not retried.
			if unknown++; unknown > maxUnknown {
				return err
			}
		}
		waited := time.Since(start)
		left := patience - waited
		sleeping := ctx
		if e.Unavailable() {
			switch {
			case stop.Err() == nil:
				sleeping = stop // which is followed by the last tries
			case stopped.IsZero():
				stopped = time.Now()
				waits.Reset()
			}
			if !stopped.IsZero() {
				left = min(left, lastTries-time.Since(stopped))
			}
		}
		wait, ok := waits.Next(left)
		switch {
		case !ok && !stopped.IsZero():
			return StoppedError{cmp.Or(before, err)} // the last one may be that of a try that was cut short
		case !ok:
			return fmt.Errorf("%w (tried for %v; --retry-for says how long)", err, waited.Round(100*time.Millisecond))
		}
		before = err
		attempt++
		e.Attempt = attempt
		onRetry(e)
		if backoff.Sleep(sleeping, wait) != nil && ctx.Err() != nil {
			return StoppedError{err}
		}
	}
}

// Unavailable reports whether the database cannot be written until somebody mends it. If it is only that others are at work
// there, waiting for them is worth it.
func (e *Error) Unavailable() bool {
	return !slices.Contains([]string{"locked", "deadlock", "serialization", "timeout"}, e.Reason)
}

// A StoppedError is that of a call that was to be tried again, or was just tried, when the run was stopped.
type StoppedError struct{ Err error }

func (e StoppedError) Error() string { return e.Err.Error() + " (stopped during a retry)" }
func (e StoppedError) Unwrap() error { return e.Err }

type stopKey struct{}

// WithStop returns ctx for calls that the end of stop does not interrupt: only a database that is unavailable is then not
// waited for.
func WithStop(ctx, stop context.Context) context.Context {
	return context.WithValue(ctx, stopKey{}, stop)
}

// stopOf returns what stops the calls with ctx: the context of [WithStop], or ctx itself.
func stopOf(ctx context.Context) context.Context {
	if stop, ok := ctx.Value(stopKey{}).(context.Context); ok {
		return stop
	}
	return ctx
}

// UntilStop returns a context for connecting to a database: when the calls with ctx are stopped, it ends shortly after.
func UntilStop(ctx context.Context) (connecting context.Context, done func()) {
	connecting, cancel := context.WithCancel(ctx)
	unwatch := context.AfterFunc(stopOf(ctx), func() {
		_ = backoff.Sleep(connecting, lastTries)
		cancel()
	})
	return connecting, func() { unwatch(); cancel() }
}
