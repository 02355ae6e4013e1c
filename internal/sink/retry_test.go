package sink_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
)

// inserting is a sink whose flushes insert a row.
type inserting struct{ sink.Sink }

func (inserting) Flush(context.Context, *sink.Flush) (sink.Result, error) {
	return sink.Result{Tables: []sink.Counts{{Inserted: 1}}}, nil
}

var errFlaky = errors.New("it failed")

// flaky returns a sink whose first flushes fail with an error of a class. calls are the times of its calls.
func flaky(class sink.Class, fails int) (s sink.Sink, calls *[]time.Time) {
	calls = &[]time.Time{}
	return sinktest.Faulty(inserting{}, func(c sinktest.Call) (f sinktest.Fault) {
		if *calls = append(*calls, time.Now()); c.N <= fails {
			f.Err = &sink.Error{Class: class, Reason: "locked", Err: errFlaky}
		}
		return f
	}), calls
}

func TestRetry(t *testing.T) {
	const forGood = 1 << 30
	for name, c := range map[string]struct {
		class    sink.Class
		fails    int
		patience time.Duration
		calls    int
		ends     bool // with the error
	}{
		"a transient failure is repeated":                    {sink.Transient, 3, time.Minute, 4, false},
		"for as long as the user wants":                      {sink.Transient, forGood, time.Minute, 0, true},
		"not at all":                                         {sink.Transient, 1, 0, 1, true},
		"a permanent failure is not":                         {sink.Permanent, 1, time.Minute, 1, true},
		"what may have happened is asked for three times":    {sink.Unknown, 3, time.Minute, 4, false},
		"and then believed, though there were patience left": {sink.Unknown, 4, time.Hour, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, calls := flaky(c.class, c.fails)
				heard := 0
				start := time.Now()
				answered := 0
				res, err := sinktest.Retry(f, c.patience, func(e *sink.Error) {
					if e == nil {
						answered++
					} else if heard++; e.Attempt != heard {
						t.Errorf("failure %d says that it is number %d", heard, e.Attempt)
					}
				}).Flush(t.Context(), nil)
				if c.ends != errors.Is(err, errFlaky) || !c.ends && res.Total().Inserted != 1 {
					t.Errorf("the flush ended with %+v, %v", res, err)
				}
				if (answered == 1) == c.ends {
					t.Errorf("the end of the outage was reported %d times", answered)
				}
				if c.calls > 0 && len(*calls) != c.calls {
					t.Errorf("%d calls, want %d", len(*calls), c.calls)
				}
				if heard != len(*calls)-1 {
					t.Errorf("%d of %d failures were reported", heard, len(*calls)-1)
				}
				if took := time.Since(start); took > c.patience {
					t.Errorf("it was tried for %v, longer than %v", took, c.patience)
				}
			})
		})
	}
}

// TestRetry_WaitsGrow: waits grow from milliseconds to seconds, with jitter, so many runs do not reconnect at the same
// moment.
func TestRetry_WaitsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, calls := flaky(sink.Transient, 40)
		if _, err := sinktest.Retry(f, time.Hour, func(*sink.Error) {}).Flush(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		low, high := 5*time.Millisecond/2, 5*time.Millisecond
		for i := 1; i < len(*calls); i++ {
			wait := (*calls)[i].Sub((*calls)[i-1])
			if wait < low || wait > high {
				t.Errorf("wait %d was %v, want %v to %v", i, wait, low, high)
			}
			low, high = min(2*low, 5*time.Second/2), min(2*high, 5*time.Second)
		}
	})
}

// TestRetry_Stopped: a signal ends the waiting, not a call in progress.
func TestRetry_Stopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		f, _ := flaky(sink.Transient, 1<<30)
		start := time.Now()
		_, err := sinktest.Retry(f, time.Hour, func(*sink.Error) {}).Flush(ctx, nil)
		if !errors.Is(err, errFlaky) || !strings.Contains(err.Error(), "stopped") {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("it went on for %v", took)
		}
	})
}

// TestRetry_StoppedInTheFirstTry: a connection closed by a signal is not a connection error.
func TestRetry_StoppedInTheFirstTry(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := sink.Retry{Patience: time.Hour, OnRetry: func(*sink.Error) { t.Error("a retry was reported") }}.Do(ctx, func() error {
		cancel()
		return &sink.Error{Class: sink.Transient, Reason: "connection", Err: errFlaky}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// TestRetry_StoppedInATry: the error says why it was retried, whenever the signal comes.
func TestRetry_StoppedInATry(t *testing.T) {
	for name, during := range map[string]func(error) error{
		"as it is": func(err error) error { return err },
		"in a class": func(err error) error {
			return &sink.Error{Class: sink.Transient, Reason: "connection", Err: err}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				calls := 0
				err := sink.Retry{Patience: time.Hour, OnRetry: func(*sink.Error) {}}.Do(ctx, func() error {
					if calls++; calls == 1 {
						return &sink.Error{Class: sink.Transient, Reason: "connection", Err: errFlaky}
					}
					cancel()
					return during(ctx.Err())
				})
				if !errors.Is(err, errFlaky) || errors.Is(err, context.Canceled) || calls != 2 {
					t.Errorf("after %d calls: %v", calls, err)
				}
			})
		})
	}
}

// TestRetry_RunIsStopped: after a stop, an unavailable database is retried for a second, a lock for as long as before.
func TestRetry_RunIsStopped(t *testing.T) {
	for name, c := range map[string]struct {
		reason     string
		back, took time.Duration // after the run was stopped
		stopped    bool
	}{
		"it stays unreachable": {"connection", time.Hour, time.Second, true},
		"it is back":           {"connection", 0, 5 * time.Millisecond, false},
		"it is full":           {"disk_full", time.Hour, time.Second, true},
		"it is locked":         {"locked", 20 * time.Second, 25 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop, cancel := context.WithCancel(t.Context())
				at := time.Now().Add(time.Minute)
				time.AfterFunc(time.Minute, cancel)
				err := sink.Retry{Patience: time.Hour, OnRetry: func(*sink.Error) {}, Stop: stop}.Do(context.WithoutCancel(t.Context()), func() error {
					if time.Since(at) >= c.back {
						return nil
					}
					return &sink.Error{Class: sink.Transient, Reason: c.reason, Err: errFlaky}
				})
				if errors.As(err, new(sink.StoppedError)) != c.stopped || (err != nil) != c.stopped {
					t.Errorf("it ended with %v", err)
				}
				if took := time.Since(at); took < 0 || took > c.took {
					t.Errorf("it ended %v after the run was stopped", took)
				}
			})
		})
	}
}

// TestUntilStop: connecting ends a second after the stop.
func TestUntilStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		connecting, done := sink.UntilStop(t.Context(), stop)
		defer done()
		time.Sleep(time.Minute)
		start := time.Now()
		cancel()
		<-connecting.Done()
		if took := time.Since(start); took != time.Second {
			t.Errorf("it ended after %v", took)
		}
	})
}
