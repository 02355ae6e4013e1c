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

// Retry returns s with its calls repeated, after growing waits with jitter, for
// as long as their errors say that it may help, and at most for patience.
// onRetry hears of each failure that is followed by another try.
func Retry(s Sink, patience time.Duration, onRetry func(err *Error)) Sink {
	return &retry{s, patience, onRetry}
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

func (r *retry) Claim(ctx context.Context, job, source string) (cp Checkpoint, err error) {
	err = r.do(ctx, func() error { cp, err = r.Sink.Claim(ctx, job, source); return err })
	return cp, err
}

func (r *retry) Table(ctx context.Context, name string, key []string) (t schema.Table, err error) {
	err = r.do(ctx, func() error { t, err = r.Sink.Table(ctx, name, key); return err })
	return t, err
}

func (r *retry) Flush(ctx context.Context, f *Flush) (res Result, err error) {
	err = r.do(ctx, func() error { res, err = r.Sink.Flush(ctx, f); return err })
	return res, err
}

func (r *retry) do(ctx context.Context, call func() error) error {
	start, unknown := time.Now(), 0
	waits := backoff.Backoff{Min: minWait, Max: maxWait}
	for {
		err := call()
		var e *Error
		if !errors.As(err, &e) || e.Class == Permanent {
			return err
		}
		if e.Class == Unknown {
			// To ask whether it happened takes one try more; a disk that goes
			// on failing is not waited for.
			if unknown++; unknown > maxUnknown {
				return err
			}
		}
		waited := time.Since(start)
		wait, ok := waits.Next(r.patience - waited)
		if !ok {
			return fmt.Errorf("%w (tried for %v; --retry-for says how long)", err, waited.Round(time.Millisecond))
		}
		r.onRetry(e)
		if backoff.Sleep(ctx, wait) != nil {
			return fmt.Errorf("%w (stopped while it was tried again)", err)
		}
	}
}
