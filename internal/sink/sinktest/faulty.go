package sinktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A Call is a call of a sink or of claims that may fail.
type Call struct {
	Method string      // by its name
	N      int         // how many calls of the method there were, this one included
	Flush  *sink.Flush // of Flush
}

// A Fault is what happens to a call; the zero Fault is nothing.
type Fault struct {
	Delay time.Duration // before the call
	At    Moment
	Err   error // nil: the call does not fail
}

// A Moment is when a call fails.
type Moment int

// When a call fails.
const (
	Before Moment = iota // it does nothing
	Within               // a flush that has written all: nothing is committed
	After                // it was done, and the answer is lost
)

// Faults choose what happens to a call. They may block.
type Faults func(Call) Fault

// Faulty returns s with faults.
func Faulty(s sink.Sink, faults Faults) sink.Sink {
	return &faulty{Sink: s, caller: caller{faults: faults}}
}

// FaultyClaims returns c with faults.
func FaultyClaims(c sink.Claims, faults Faults) sink.Claims {
	return &faultyClaims{Claims: c, caller: caller{faults: faults}}
}

// Flushes are faults of flushes alone.
func Flushes(faults Faults) Faults {
	return func(c Call) Fault {
		if c.Method != "Flush" {
			return Fault{}
		}
		return faults(c)
	}
}

// RandomFaults delays a third of all calls, and has a third of them fail, as databases and
// networks do, but no method more than twice in succession. It may be shared.
func RandomFaults(rnd *rand.Rand) Faults {
	var mu sync.Mutex
	failed := map[string]int{} // in succession
	return func(c Call) (f Fault) {
		mu.Lock()
		defer mu.Unlock()
		if rnd.IntN(3) == 0 {
			f.Delay = time.Duration(rnd.IntN(2000)) * time.Microsecond
		}
		if rnd.IntN(3) > 0 || failed[c.Method] == 2 {
			failed[c.Method] = 0
			return f
		}
		failed[c.Method]++
		switch f.At = Moment(rnd.IntN(3)); f.At {
		case After:
			f.Err = &sink.Error{Class: sink.Unknown, Reason: "connection", Err: errFault}
		default:
			f.Err = &sink.Error{Class: []sink.Class{sink.Transient, sink.Unknown}[rnd.IntN(2)], Reason: "deadlock", Err: errFault}
		}
		return f
	}
}

var errFault = errors.New("a fault that a test asked for")

// caller calls with faults.
type caller struct {
	faults Faults

	mu    sync.Mutex
	calls map[string]int // by method
}

// call does what was called, with the fault that is chosen for it.
func (c *caller) call(ctx context.Context, method string, flush *sink.Flush, do func() error) error {
	c.mu.Lock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[method]++
	call := Call{Method: method, N: c.calls[method], Flush: flush}
	c.mu.Unlock()
	f := c.faults(call)
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-ctx.Done():
		}
	}
	switch {
	case f.Err == nil:
		return do()
	case f.At == Within && flush != nil:
		return withError(flush, f.Err, do)
	case f.At == After:
		if err := do(); err != nil {
			return err
		}
	}
	return f.Err
}

// withError flushes, with an error before the commit.
func withError(f *sink.Flush, err error, flush func() error) error {
	was := f.BeforeCommit
	defer func() { f.BeforeCommit = was }()
	f.BeforeCommit = func(rejects []fold.Reject) error {
		if was != nil {
			if err := was(rejects); err != nil {
				return err
			}
		}
		return err
	}
	return flush()
}

type faulty struct {
	sink.Sink
	caller
}

func (s *faulty) Tables(ctx context.Context, wanted ...sink.TableKey) (tables []schema.Table, err error) {
	err = s.call(ctx, "Tables", nil, func() error { tables, err = s.Sink.Tables(ctx, wanted...); return err })
	return tables, err
}

func (s *faulty) Flush(ctx context.Context, f *sink.Flush) (res sink.Result, err error) {
	err = s.call(ctx, "Flush", f, func() error { res, err = s.Sink.Flush(ctx, f); return err })
	if err != nil {
		res = sink.Result{}
	}
	return res, err
}

func (s *faulty) Expire(ctx context.Context, e *sink.Expiry) (res sink.Expired, err error) {
	err = s.call(ctx, "Expire", nil, func() error { res, err = s.Sink.Expire(ctx, e); return err })
	if err != nil {
		res = sink.Expired{}
	}
	return res, err
}

func (s *faulty) Outbox(ctx context.Context, o *sink.Outbox) (next []sink.Kept, waiting int64, err error) {
	err = s.call(ctx, "Outbox", nil, func() error { next, waiting, err = s.Sink.Outbox(ctx, o); return err })
	return next, waiting, err
}

type faultyClaims struct {
	sink.Claims
	caller
}

func (c *faultyClaims) Tables(ctx context.Context) (names []string, err error) {
	err = c.call(ctx, "Tables", nil, func() error { names, err = c.Claims.Tables(ctx); return err })
	return names, err
}

func (c *faultyClaims) Checkpoints(ctx context.Context, lanes ...string) (cps []sink.Checkpoint, err error) {
	err = c.call(ctx, "Checkpoints", nil, func() error { cps, err = c.Claims.Checkpoints(ctx, lanes...); return err })
	return cps, err
}

func (c *faultyClaims) Latest(ctx context.Context) (source string, cp sink.Checkpoint, err error) {
	err = c.call(ctx, "Latest", nil, func() error { source, cp, err = c.Claims.Latest(ctx); return err })
	return source, cp, err
}

func (c *faultyClaims) Take(ctx context.Context, lanes ...string) (cps []sink.Checkpoint, err error) {
	err = c.call(ctx, "Take", nil, func() error { cps, err = c.Claims.Take(ctx, lanes...); return err })
	return cps, err
}

func (c *faultyClaims) Drop(ctx context.Context, lanes ...string) error {
	return c.call(ctx, "Drop", nil, func() error { return c.Claims.Drop(ctx, lanes...) })
}

func (c *faultyClaims) TakeJob(ctx context.Context) error {
	return c.call(ctx, "TakeJob", nil, func() error { return c.Claims.TakeJob(ctx) })
}

func (c *faultyClaims) RejectFile(ctx context.Context, path string) (f sink.RejectFile, err error) {
	err = c.call(ctx, "RejectFile", nil, func() error { f, err = c.Claims.RejectFile(ctx, path); return err })
	return f, err
}
