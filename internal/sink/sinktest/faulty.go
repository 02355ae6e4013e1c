package sinktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// A Call is a call of a sink or of claims that may fail.
type Call struct {
	Method string      // its name
	N      int         // how many calls of the method there were, including this one
	Flush  *sink.Flush // of Flush
}

// A Fault is what happens to a call; the zero value is no fault.
type Fault struct {
	Delay time.Duration // before the call
	At    Moment
	Err   error // nil: the call does not fail
}

// A Moment is when a call fails.
type Moment int

// The moments.
const (
	Before Moment = iota // the call does nothing
	Within               // a flush that has written everything; nothing is committed
	After                // the call succeeded, and the reply is lost
)

// Faults chooses what happens to a call. It may block.
type Faults func(Call) Fault

// Faulty returns s with faults.
func Faulty(s sink.Sink, faults Faults) sink.Sink { return &intercepted{s, faults.around()} }

// FaultyClaims returns c with faults, except in Close. The result is a [sink.GroupClaims] if c is one.
func FaultyClaims(c sink.Claims, faults Faults) sink.Claims {
	claims := interceptedClaims{c, faults.around()}
	if g, ok := c.(sink.GroupClaims); ok {
		return &interceptedGroup{claims, g}
	}
	return &claims
}

// Flushes restricts faults to flushes.
func Flushes(faults Faults) Faults {
	return func(c Call) Fault {
		if c.Method != "Flush" {
			return Fault{}
		}
		return faults(c)
	}
}

// RandomFaults delays a third of all calls, and makes a third of them fail, as databases and networks do, but no method
// more than twice in a row. It may be shared.
func RandomFaults(rnd *rand.Rand) Faults {
	var mu sync.Mutex
	failed := map[string]int{} // consecutive failures
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

// around makes calls with the chosen faults.
func (faults Faults) around() around {
	var mu sync.Mutex
	calls := map[string]int{} // by method
	return func(ctx context.Context, method string, flush *sink.Flush, do func() error) error {
		mu.Lock()
		calls[method]++
		call := Call{Method: method, N: calls[method], Flush: flush}
		mu.Unlock()
		return faults(call).apply(ctx, flush, do)
	}
}

// apply makes a call with the fault.
func (f Fault) apply(ctx context.Context, flush *sink.Flush, do func() error) error {
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
