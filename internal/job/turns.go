package job

import "context"

// turns let other goroutines use the database between two flushes: the flusher's goroutine runs their functions.
type turns struct {
	asked   chan turn
	written chan struct{}   // closed by the flusher when all sets are written
	stop    <-chan struct{} // closed when the run must stop: the next run does the rest
}

type turn struct {
	do   func(context.Context) error
	done chan error // receives one value
}

func newTurns(stop <-chan struct{}) *turns {
	return &turns{asked: make(chan turn), written: make(chan struct{}), stop: stop}
}

// take runs a function between two flushes and waits for it.
func (t *turns) take(ctx context.Context, do func(context.Context) error) error {
	of := turn{do, make(chan error, 1)}
	select {
	case t.asked <- of:
		return <-of.done
	case <-ctx.Done():
		return ctx.Err()
	}
}
