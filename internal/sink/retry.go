package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/backoff"
)

// Waits between tries: the shortest, and the longest.
const (
	minWait = 5 * time.Millisecond
	maxWait = 5 * time.Second
)

const maxUnknown = 3 // tries after failures that may have been none

// Retry returns s with its calls repeated, after growing waits with jitter, for as long as
// their errors say that it may help, and at most for patience; but not those of Expire, which
// others may come before. onRetry is called for each failure that is followed by another try.
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
		if before == nil && ctx.Err() == context.Canceled { // which ended the call: there is no error to report
			return ctx.Err()
		}
		before = err
		if e.Class == Unknown {
			// One more try asks whether it was committed. A disk that keeps failing is not retried.
			if unknown++; unknown > maxUnknown {
				return err
			}
		}
		waited := time.Since(start)
		wait, ok := waits.Next(patience - waited)
		if !ok {
			return fmt.Errorf("%w (tried for %v; --retry-for says how long)", err, waited.Round(100*time.Millisecond))
		}
		attempt++
		e.Attempt = attempt
		onRetry(e)
		if backoff.Sleep(ctx, wait) != nil {
			return stopped(err)
		}
	}
}

// stopped is the error of a call that was to be tried again, or was just tried, when the run was
// stopped.
func stopped(err error) error { return fmt.Errorf("%w (stopped during a retry)", err) }
