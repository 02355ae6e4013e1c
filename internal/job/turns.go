package job

import "context"

// turns are how others use the database while the flusher writes: its goroutine does what they ask for between two
// flushes.
type turns struct {
	asked    chan turn
	written  chan struct{}   // closed by the flusher when all sets are written
	anyEnded bool            // a lane was read to its end; set before that
	stop     <-chan struct{} // closed when the run is to stop: what is left is for the next one
}

type turn struct {
	do   func(context.Context) error
	done chan error // takes one value
}

func newTurns(stop <-chan struct{}) *turns {
	return &turns{asked: make(chan turn), written: make(chan struct{}), stop: stop}
}

// take has something done between two flushes, and waits for it.
func (t *turns) take(ctx context.Context, do func(context.Context) error) error {
	of := turn{do, make(chan error, 1)}
	select {
	case t.asked <- of:
		return <-of.done
	case <-ctx.Done():
		return ctx.Err()
	}
}
