package pipeline

import "context"

// turns let the reader use the database between two flushes: the flusher's goroutine runs its functions.
type turns chan turn

type turn struct {
	do   func(context.Context) error
	done chan error // receives one value
}

// take runs a function between two flushes and waits for it.
func (t turns) take(ctx context.Context, do func(context.Context) error) error {
	of := turn{do, make(chan error, 1)}
	select {
	case t <- of:
		return <-of.done
	case <-ctx.Done():
		return ctx.Err()
	}
}
